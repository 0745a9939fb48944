#include "net/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "io/crc32c.h"

namespace monolith::net {

static_assert(std::endian::native == std::endian::little, "frames are read in place, and are little-endian");

namespace {

constexpr std::string_view kMagic = "MNLWIRE\n";
constexpr std::uint16_t kVersion = 2;
constexpr std::size_t kMaxDims = 8;
constexpr std::size_t kDescriptionBytes = 4;
constexpr std::size_t kMaxErrorBytes = 10'000;

// Offsets in a header.
constexpr std::size_t kRequestIdAt = 16;
constexpr std::size_t kDeadlineAt = 56;
constexpr std::size_t kChecksumAt = 84;

template <typename T>
T read(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <typename T>
void write(std::span<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::size_t aligned(std::size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_lengths(const Header& header, const FrameLimits& limits) {
  const std::uint64_t index_bytes = std::uint64_t{header.meta_bytes} + header.description_bytes;
  if (header.total_bytes > limits.max_frame_bytes) {
    throw CorruptFrame("a frame of " + std::to_string(header.total_bytes) + " bytes is beyond the limit of " +
                       std::to_string(limits.max_frame_bytes) + "; send less at a time or raise max_frame_bytes");
  }
  if (index_bytes > limits.max_index_bytes || header.num_arrays > limits.max_arrays) {
    throw CorruptFrame("a frame with " + std::to_string(header.num_arrays) + " arrays and an index of " +
                       std::to_string(index_bytes) + " bytes is beyond the limits of " +
                       std::to_string(limits.max_arrays) + " and " + std::to_string(limits.max_index_bytes));
  }
  if (kHeaderBytes + index_bytes > header.total_bytes) {
    throw CorruptFrame("a frame of " + std::to_string(header.total_bytes) + " bytes cannot hold an index of " +
                       std::to_string(index_bytes));
  }
  if (std::uint64_t{header.num_arrays} * kDescriptionBytes > header.description_bytes) {
    throw CorruptFrame(std::to_string(header.description_bytes) + " bytes cannot describe " +
                       std::to_string(header.num_arrays) + " arrays");
  }
}

void write_header(std::span<std::byte> to, const Header& header) {
  std::memcpy(to.data(), kMagic.data(), kMagic.size());
  write(to, 8, kVersion);
  write(to, 10, kVersion);
  write(to, 12, header.type);
  write(to, 14, header.kind);
  write(to, kRequestIdAt, header.request_id);
  write(to, 24, header.generation);
  write(to, 32, header.epoch);
  write(to, 40, header.sequence);
  write(to, 48, header.plan_hash);
  write(to, kDeadlineAt, header.deadline_ms);
  write(to, 60, header.meta_bytes);
  write(to, 64, header.num_arrays);
  write(to, 68, header.description_bytes);
  write(to, 72, header.total_bytes);
  write(to, 80, header.index_checksum);
  write(to, kChecksumAt, crc32c(to.first(kChecksumAt)));
}

}  // namespace

std::size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kInt32:
    case ElementType::kUint32:
    case ElementType::kFloat32:
      return 4;
    case ElementType::kInt64:
    case ElementType::kUint64:
      return 8;
    case ElementType::kUint8:
    case ElementType::kBool:
      return 1;
    case ElementType::kFloat16:
      return 2;
  }
  throw CorruptFrame("an array of type " + std::to_string(static_cast<int>(type)) + " is not allowed in a frame");
}

Header decode_header(std::span<const std::byte> bytes, const FrameLimits& limits) {
  if (bytes.size() != kHeaderBytes) {
    throw CorruptFrame("a frame header has 88 bytes, got " + std::to_string(bytes.size()));
  }
  if (as_text(bytes.first(kMagic.size())) != kMagic) {
    throw CorruptFrame("a frame starts with MNLWIRE and a line feed: the other side speaks something else");
  }
  if (read<std::uint32_t>(bytes, kChecksumAt) != crc32c(bytes.first(kChecksumAt))) {
    throw CorruptFrame("the checksum of a frame header is wrong: the frame is damaged");
  }
  const auto version_min = read<std::uint16_t>(bytes, 8);
  const auto version_max = read<std::uint16_t>(bytes, 10);
  if (version_min > kVersion || version_max < kVersion) {
    throw CorruptFrame("the other side speaks frame versions " + std::to_string(version_min) + " to " +
                       std::to_string(version_max) + ", this one " + std::to_string(kVersion) + "; update the older");
  }
  const auto kind = read<std::uint16_t>(bytes, 14);
  if (kind > static_cast<std::uint16_t>(Kind::kHandshake)) {
    throw CorruptFrame("a frame is of kind 0, 1, 2 or 3, got " + std::to_string(kind));
  }
  Header header;
  header.type = read<std::uint16_t>(bytes, 12);
  header.kind = static_cast<Kind>(kind);
  header.request_id = read<std::uint64_t>(bytes, kRequestIdAt);
  header.generation = read<std::uint64_t>(bytes, 24);
  header.epoch = read<std::uint64_t>(bytes, 32);
  header.sequence = read<std::uint64_t>(bytes, 40);
  header.plan_hash = read<std::uint64_t>(bytes, 48);
  header.deadline_ms = read<std::uint32_t>(bytes, kDeadlineAt);
  header.meta_bytes = read<std::uint32_t>(bytes, 60);
  header.num_arrays = read<std::uint32_t>(bytes, 64);
  header.description_bytes = read<std::uint32_t>(bytes, 68);
  header.total_bytes = read<std::uint64_t>(bytes, 72);
  header.index_checksum = read<std::uint32_t>(bytes, 80);
  check_lengths(header, limits);
  return header;
}

FrameView::FrameView(const Header& header, std::span<const std::byte> frame) : header_(header) {
  if (frame.size() != header.total_bytes) {
    throw CorruptFrame("the frame has " + std::to_string(header.total_bytes) + " bytes, got " +
                       std::to_string(frame.size()));
  }
  if (reinterpret_cast<std::uintptr_t>(frame.data()) % alignof(std::uint64_t) != 0) {
    throw std::logic_error("a frame must start at a multiple of 8 bytes in memory");
  }
  const auto index = frame.subspan(kHeaderBytes, std::size_t{header.meta_bytes} + header.description_bytes);
  if (crc32c(index) != header.index_checksum) {
    throw CorruptFrame("the checksum of a frame's index is wrong: the frame is damaged");
  }
  meta_ = as_text(index.first(header.meta_bytes));
  read_arrays(frame, index.subspan(header.meta_bytes));
}

void FrameView::read_arrays(std::span<const std::byte> frame, std::span<const std::byte> descriptions) {
  std::size_t at = 0;
  std::size_t end = kHeaderBytes + header_.meta_bytes + descriptions.size();
  const auto need = [&](std::size_t count) {
    if (count > descriptions.size() - at) throw CorruptFrame("the descriptions of a frame's arrays are cut short");
  };
  for (std::uint32_t i = 0; i < header_.num_arrays; ++i) {
    need(kDescriptionBytes);
    const auto type = static_cast<ElementType>(read<std::uint8_t>(descriptions, at));
    const std::size_t num_dims = read<std::uint8_t>(descriptions, at + 1);
    const std::size_t name_bytes = read<std::uint16_t>(descriptions, at + 2);
    at += kDescriptionBytes;
    std::size_t bytes = element_bytes(type);
    if (num_dims > kMaxDims) {
      throw CorruptFrame("an array with " + std::to_string(num_dims) + " dimensions is not allowed in a frame");
    }
    need(num_dims * sizeof(std::uint64_t) + name_bytes);
    for (std::size_t dim = 0; dim < num_dims; ++dim, at += sizeof(std::uint64_t)) {
      if (__builtin_mul_overflow(bytes, read<std::uint64_t>(descriptions, at), &bytes)) {
        throw CorruptFrame("an array does not fit into its frame");
      }
    }
    const std::string_view name = as_text(descriptions.subspan(at, name_bytes));
    at += name_bytes;
    if (has(name)) throw CorruptFrame("a frame has two arrays of one name");
    const std::size_t start = bytes != 0 ? aligned(end) : end;
    if (start > frame.size() || bytes > frame.size() - start) {
      throw CorruptFrame("an array does not fit into its frame");
    }
    arrays_.push_back({name, type, num_dims, frame.subspan(start, bytes)});
    end = start + bytes;
  }
  if (at != descriptions.size() || end != frame.size()) {
    throw CorruptFrame("a frame has bytes that belong to none of its arrays");
  }
}

const FrameView::Array* FrameView::find(std::string_view name) const {
  const auto found = std::ranges::find(arrays_, name, &Array::name);
  return found == arrays_.end() ? nullptr : &*found;
}

const FrameView::Array& FrameView::get(std::string_view name) const {
  const Array* array = find(name);
  if (array == nullptr) throw CorruptFrame("the request lacks the array '" + std::string(name) + "'");
  return *array;
}

template <typename T>
std::span<const T> FrameView::elements(std::string_view name, ElementType type) const {
  const Array& array = get(name);
  if (array.type != type || array.num_dims != 1) {
    throw CorruptFrame("the array '" + std::string(name) + "' must have one dimension and elements of type " +
                       std::to_string(static_cast<int>(type)) + ", got " + std::to_string(array.num_dims) + " and " +
                       std::to_string(static_cast<int>(array.type)));
  }
  return {reinterpret_cast<const T*>(array.bytes.data()), array.bytes.size() / sizeof(T)};
}

template std::span<const std::int64_t> FrameView::elements(std::string_view, ElementType) const;
template std::span<const std::uint64_t> FrameView::elements(std::string_view, ElementType) const;
template std::span<const std::uint32_t> FrameView::elements(std::string_view, ElementType) const;
template std::span<const std::uint16_t> FrameView::elements(std::string_view, ElementType) const;
template std::span<const std::uint8_t> FrameView::elements(std::string_view, ElementType) const;
template std::span<const float> FrameView::elements(std::string_view, ElementType) const;

FrameLayout lay_out(Header fields, std::span<const ArraySpec> arrays, std::string_view meta) {
  std::size_t description_bytes = 0;
  for (const ArraySpec& array : arrays)
    description_bytes += kDescriptionBytes + sizeof(std::uint64_t) + array.name.size();
  fields.meta_bytes = static_cast<std::uint32_t>(meta.size());
  fields.num_arrays = static_cast<std::uint32_t>(arrays.size());
  fields.description_bytes = static_cast<std::uint32_t>(description_bytes);

  FrameLayout layout;
  std::size_t end = kHeaderBytes + meta.size() + description_bytes;
  std::size_t head_bytes = end;
  for (const ArraySpec& array : arrays) {
    const std::size_t start = array.size != 0 ? aligned(end) : end;
    if (array.size != 0 && layout.total_bytes == 0) head_bytes = layout.total_bytes = start;
    layout.offsets.push_back(start);
    end = start + array.size * element_bytes(array.type);
  }
  layout.total_bytes = end;
  fields.total_bytes = end;

  layout.head.resize(head_bytes);
  const std::span<std::byte> head = layout.head;
  std::size_t at = kHeaderBytes;
  std::memcpy(head.data() + at, meta.data(), meta.size());
  at += meta.size();
  for (const ArraySpec& array : arrays) {
    write(head, at, array.type);
    write(head, at + 1, std::uint8_t{1});
    write(head, at + 2, static_cast<std::uint16_t>(array.name.size()));
    write(head, at + kDescriptionBytes, static_cast<std::uint64_t>(array.size));
    at += kDescriptionBytes + sizeof(std::uint64_t);
    std::memcpy(head.data() + at, array.name.data(), array.name.size());
    at += array.name.size();
  }
  fields.index_checksum = crc32c(head.subspan(kHeaderBytes, meta.size() + description_bytes));
  write_header(head, fields);
  return layout;
}

void stamp(std::span<std::byte> head, std::uint64_t request_id, std::uint32_t deadline_ms) {
  write(head, kRequestIdAt, request_id);
  write(head, kDeadlineAt, deadline_ms);
  write(head, kChecksumAt, crc32c(head.first(kChecksumAt)));
}

std::string error_meta(std::string_view code, std::string_view words) {
  std::string meta = "{\"code\":\"" + std::string(code) + "\",\"error\":\"";
  for (const char character : words.substr(0, kMaxErrorBytes)) {
    const auto byte = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      meta += '\\';
      meta += character;
    } else {
      // Names of tables are the only text here that is not ours; what is not ASCII in them may have been cut in two.
      meta += byte < 0x20 || byte >= 0x7F ? '?' : character;
    }
  }
  return meta + "\"}";
}

}  // namespace monolith::net
