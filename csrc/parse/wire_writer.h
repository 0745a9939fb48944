// Appends fields of the protobuf wire format to a buffer.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "parse/value_buffer.h"
#include "parse/varint.h"
#include "parse/wire_reader.h"

namespace monolith::parse {

// A message as it is written; what it holds is written before it, to a message of its own.
class WireWriter {
 public:
  void clear() { bytes_.truncate(0); }
  std::size_t size() const { return bytes_.size(); }
  const ValueBuffer& bytes() const { return bytes_; }

  void varint(std::uint64_t value) {
    std::uint8_t* const out = bytes_.room<std::uint8_t>(kMaxVarintBytes);
    std::size_t size = 0;
    for (; value >= 0x80; value >>= 7) out[size++] = static_cast<std::uint8_t>(value | 0x80);
    out[size++] = static_cast<std::uint8_t>(value);
    bytes_.commit<std::uint8_t>(size);
  }

  void varint_field(std::uint32_t number, std::uint64_t value) {
    varint(tag_of(number, kVarint));
    varint(value);
  }

  void float_field(std::uint32_t number, float value) {
    varint(tag_of(number, kFixed32));
    append(std::span<const float>(&value, 1));
  }

  void string_field(std::uint32_t number, std::string_view text) {
    begin(number, text.size());
    bytes_.append(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }

  void message_field(std::uint32_t number, const WireWriter& message) {
    begin(number, message.size());
    bytes_.append(message.bytes_.data(), message.size());
  }

  // Numbers of a fixed size in one field; none is no field.
  template <class T>
  void packed_field(std::uint32_t number, std::span<const T> values) {
    if (values.empty()) return;
    begin(number, values.size_bytes());
    append(values);
  }

 private:
  static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

  void begin(std::uint32_t number, std::size_t size) {
    varint(tag_of(number, kLength));
    varint(size);
  }

  template <class T>
  void append(std::span<const T> values) {
    bytes_.append(reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes());
  }

  ValueBuffer bytes_;
};

}  // namespace monolith::parse
