// A cursor over one message of the protobuf wire format that never leaves it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "parse/varint.h"

namespace monolith::parse {

// Part of a record; `readable` is the end of the whole buffer of records.
struct Bytes {
  const std::uint8_t* begin = nullptr;
  const std::uint8_t* end = nullptr;
  const std::uint8_t* readable = nullptr;

  std::size_t size() const { return static_cast<std::size_t>(end - begin); }
  std::string_view text() const { return {reinterpret_cast<const char*>(begin), size()}; }
};

// What is wrong with a record. Caught per record, never leaves the parser.
struct WireError {
  const std::uint8_t* at;  // a byte of the record
  std::string text;
};

[[noreturn, gnu::cold, gnu::noinline]] inline void fail(const std::uint8_t* at, std::string text) {
  throw WireError{at, std::move(text)};
}

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kStartGroup = 3, kEndGroup = 4, kFixed32 = 5 };

constexpr std::uint32_t tag_of(std::uint32_t number, WireType type) { return number << 3 | type; }

class WireReader {
 public:
  explicit WireReader(Bytes message) : p_(message.begin), end_(message.end), readable_(message.readable) {}

  bool done() const { return p_ == end_; }
  const std::uint8_t* at() const { return p_; }

  // Field number and wire type of the next field.
  std::uint32_t tag() {
    if (*p_ < 0x80 && *p_ >= 8) [[likely]]
      return *p_++;
    return long_tag();
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    const std::uint8_t* next = decode_varint(p_, end_, readable_, value);
    if (next == nullptr) fail(p_, "expected a varint");
    p_ = next;
    return value;
  }

  std::uint64_t fixed64() { return fixed<std::uint64_t>("expected 8 bytes"); }
  std::uint32_t fixed32() { return fixed<std::uint32_t>("expected 4 bytes"); }

  // A length and that many bytes.
  Bytes bytes() {
    const std::uint8_t* const at = p_;
    std::uint64_t size = 0;
    if (p_ != end_ && *p_ < 0x80) [[likely]] {
      size = *p_++;
    } else {
      size = varint();
    }
    if (size > static_cast<std::uint64_t>(end_ - p_)) [[unlikely]]
      bad_length(at, size);
    const Bytes content{p_, p_ + size, readable_};
    p_ = content.end;
    return content;
  }

  // Passes over the field whose tag was just read.
  void skip(std::uint32_t tag) {
    switch (tag & 7) {
      case kVarint:
        varint();
        break;
      case kFixed64:
        fixed64();
        break;
      case kLength:
        bytes();
        break;
      case kFixed32:
        fixed32();
        break;
      case kStartGroup:
        skip_group(tag >> 3);
        break;
      default:
        fail(p_, "expected a field, found the end of a group or an unknown wire type");
    }
  }

 private:
  static constexpr std::size_t kMaxGroupDepth = 100;  // protobuf's own limit

  template <class T>
  T fixed(const char* expected) {
    if (end_ - p_ < static_cast<std::ptrdiff_t>(sizeof(T))) fail(p_, expected);
    T value;
    std::memcpy(&value, p_, sizeof value);
    p_ += sizeof value;
    return value;
  }

  [[gnu::noinline]] std::uint32_t long_tag() {
    const std::uint8_t* const at = p_;
    const std::uint64_t tag = varint();
    if (tag > UINT32_MAX || tag < 8) fail(at, "expected a field number from 1 to 536870911");
    return static_cast<std::uint32_t>(tag);
  }

  [[noreturn, gnu::cold, gnu::noinline]] void bad_length(const std::uint8_t* at, std::uint64_t size) const {
    fail(at, "expected " + std::to_string(size) + " bytes of content, " + std::to_string(end_ - p_) + " are left");
  }

  // Groups are no longer written, but may nest: a counter, not recursion, keeps hostile depth off the stack.
  [[gnu::cold, gnu::noinline]] void skip_group(std::uint32_t number) {
    std::array<std::uint32_t, kMaxGroupDepth> open{};
    std::size_t depth = 0;
    open[depth++] = number;
    while (depth > 0) {
      if (done()) fail(p_, "expected the end of group " + std::to_string(open[depth - 1]));
      const std::uint8_t* const at = p_;
      const std::uint32_t tag = this->tag();
      if ((tag & 7) == kStartGroup) {
        if (depth == kMaxGroupDepth) fail(at, "expected at most 100 groups inside each other");
        open[depth++] = tag >> 3;
      } else if ((tag & 7) == kEndGroup) {
        if (tag >> 3 != open[--depth]) fail(at, "expected the end of group " + std::to_string(open[depth]));
      } else {
        skip(tag);
      }
    }
  }

  const std::uint8_t* p_;
  const std::uint8_t* end_;
  const std::uint8_t* readable_;
};

}  // namespace monolith::parse
