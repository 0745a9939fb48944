// Frames of the wire format, as monolith/wire/frame.py reads and writes them; docs/formats.md has the bytes.
//
// Everything a frame claims is checked against the limits and against its own length before it is acted upon.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace monolith::net {

inline constexpr std::size_t kHeaderBytes = 88;
inline constexpr std::size_t kAlignment = 64;

enum class Kind : std::uint16_t { kRequest = 0, kReply = 1, kError = 2, kHandshake = 3 };

enum class ElementType : std::uint8_t {
  kInt32 = 1,
  kInt64 = 2,
  kUint8 = 3,
  kUint32 = 4,
  kUint64 = 5,
  kFloat32 = 6,
  kFloat16 = 7,
  kBool = 8,
};
std::size_t element_bytes(ElementType type);

// What a process is willing to receive in one frame. Requests to a table server have few arrays and no JSON.
struct FrameLimits {
  std::uint64_t max_frame_bytes = std::uint64_t{1} << 30;
  std::uint32_t max_index_bytes = 64 << 10;
  std::uint32_t max_arrays = 32;
};

// Bytes that are no frame, or a frame beyond the limits.
class CorruptFrame : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

struct Header {
  std::uint16_t type = 0;
  Kind kind = Kind::kRequest;
  std::uint64_t request_id = 0;
  std::uint64_t generation = 0;
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  std::uint64_t plan_hash = 0;
  std::uint32_t deadline_ms = 0;
  std::uint32_t meta_bytes = 0;
  std::uint32_t num_arrays = 0;
  std::uint32_t description_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint32_t index_checksum = 0;
};

Header decode_header(std::span<const std::byte> bytes, const FrameLimits& limits);

// A whole frame, checked. Its arrays are views of the bytes it was made from.
class FrameView {
 public:
  // `frame` starts with the header's own bytes, at a multiple of 8.
  FrameView(const Header& header, std::span<const std::byte> frame);

  const Header& header() const { return header_; }
  std::string_view meta() const { return meta_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  ElementType type_of(std::string_view name) const { return get(name).type; }

  // The elements of an array of one dimension. CorruptFrame if it is missing or of another type or shape.
  std::span<const std::int64_t> int64s(std::string_view name) const {
    return elements<std::int64_t>(name, ElementType::kInt64);
  }
  std::span<const std::uint32_t> uint32s(std::string_view name) const {
    return elements<std::uint32_t>(name, ElementType::kUint32);
  }
  std::span<const std::uint64_t> uint64s(std::string_view name) const {
    return elements<std::uint64_t>(name, ElementType::kUint64);
  }
  std::span<const float> floats(std::string_view name) const { return elements<float>(name, ElementType::kFloat32); }
  std::span<const std::uint16_t> halves(std::string_view name) const {
    return elements<std::uint16_t>(name, ElementType::kFloat16);
  }
  std::span<const std::uint8_t> bytes(std::string_view name) const {
    return elements<std::uint8_t>(name, ElementType::kUint8);
  }

 private:
  struct Array {
    std::string_view name;
    ElementType type;
    std::size_t num_dims;
    std::span<const std::byte> bytes;
  };

  void read_arrays(std::span<const std::byte> frame, std::span<const std::byte> descriptions);
  const Array* find(std::string_view name) const;
  const Array& get(std::string_view name) const;
  template <typename T>
  std::span<const T> elements(std::string_view name, ElementType type) const;

  Header header_;
  std::string_view meta_;
  std::vector<Array> arrays_;
};

struct ArraySpec {
  std::string_view name;
  ElementType type;
  std::size_t size = 0;  // elements; arrays that are written here have one dimension
};

// Where everything of a frame to be sent is: the bytes before its first array, and where each array starts.
struct FrameLayout {
  std::vector<std::byte> head;       // header, index, zeros up to the first array that has elements
  std::vector<std::size_t> offsets;  // of each array, from the start of the frame
  std::size_t total_bytes = 0;
};

// Lays out a frame; `fields` has what the caller decides (type, kind, numbers), not the lengths.
FrameLayout lay_out(Header fields, std::span<const ArraySpec> arrays, std::string_view meta = "{}");

// Changes what differs between two sendings of a frame, and its checksum.
void stamp(std::span<std::byte> head, std::uint64_t request_id, std::uint32_t deadline_ms);

// The JSON of an error reply: {"code": ..., "error": ...}.
std::string error_meta(std::string_view code, std::string_view words);

}  // namespace monolith::net
