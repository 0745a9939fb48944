// Writes records in the protobuf wire format, for the tests of the parser.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace monolith::test {

// A message under construction.
class Message {
 public:
  Message& varint(std::uint32_t number, std::uint64_t value) {
    put_varint(number << 3);
    put_varint(value);
    return *this;
  }
  Message& fixed32(std::uint32_t number, float value) {
    put_varint(number << 3 | 5);
    put(&value, sizeof value);
    return *this;
  }
  Message& fixed64(std::uint32_t number, std::uint64_t value) {
    put_varint(number << 3 | 1);
    put(&value, sizeof value);
    return *this;
  }
  Message& bytes(std::uint32_t number, std::string_view content) {
    put_varint(number << 3 | 2);
    put_varint(content.size());
    bytes_ += content;
    return *this;
  }
  Message& message(std::uint32_t number, const Message& content) { return bytes(number, content.bytes_); }

  template <class T>
  Message& packed(std::uint32_t number, const std::vector<T>& values) {
    return bytes(number, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  Message& packed_varints(std::uint32_t number, const std::vector<std::uint64_t>& values) {
    Message content;
    for (const std::uint64_t value : values) content.put_varint(value);
    return bytes(number, content.bytes_);
  }

  const std::string& str() const { return bytes_; }

 private:
  void put(const void* data, std::size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  void put_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// {name = 1, feature = 2 {kind {value = 1}}}, as a tf.Example, an Example and, with `feature`, a list of rows have it.
inline Message named(std::string_view name, std::uint32_t kind, const Message& list) {
  return Message().bytes(1, name).message(2, Message().message(kind, list));
}

}  // namespace monolith::test
