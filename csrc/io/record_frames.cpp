#include "io/record_frames.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

#include "io/crc32c.h"

namespace monolith {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read in the order of a little-endian machine");

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kCrc = sizeof(std::uint32_t);
// The checksum reads what the copy brought into the nearest cache; a multiple of the lanes of crc32c.
constexpr std::size_t kCopyBlock = 4 * 6144;

template <typename Number>
Number load(const std::byte* from) {
  Number number;
  std::memcpy(&number, from, sizeof(number));
  return number;
}

template <typename Number>
std::byte* store(std::byte* to, Number number) {
  std::memcpy(to, &number, sizeof(number));
  return to + sizeof(number);
}

struct Frame {
  std::size_t payload = 0;  // Place in the input.
  std::size_t size = 0;
  std::size_t end = 0;
  std::uint32_t header = 0;
};

// Goes through the header of one frame. Every step first asks whether its bytes are there, by subtraction: no sum of
// hostile numbers can wrap around.
class HeaderCursor {
 public:
  HeaderCursor(std::span<const std::byte> input, std::size_t at, const FrameLayout& layout)
      : input_(input), layout_(layout), begin_(at), at_(at) {}

  FrameStop read(Frame& frame) { return layout_.tf_record ? read_tf_record(frame) : read_pb(frame); }

  std::uint64_t length() const { return length_; }
  std::size_t wanted() const { return wanted_; }

 private:
  FrameStop read_tf_record(Frame& frame) {
    if (!has(kWord + kCrc)) return FrameStop::kInput;
    const std::byte* head = input_.data() + at_;
    const auto size = load<std::uint64_t>(head);
    if (mask_crc(crc32c({head, kWord})) != load<std::uint32_t>(head + kWord)) return FrameStop::kLengthCrc;
    at_ += kWord + kCrc;
    return finish(frame, size, kCrc);
  }

  FrameStop read_pb(Frame& frame) {
    std::uint64_t word = 0;
    if (layout_.lagrangex_header) {
      if (!take(word)) return FrameStop::kInput;
      frame.header = static_cast<std::uint32_t>(word);
    } else {
      const FrameStop stop = skip_prefixes();
      if (stop != FrameStop::kEnough) return stop;
    }
    if (!take(word)) return FrameStop::kInput;
    return finish(frame, word, 0);
  }

  FrameStop skip_prefixes() {
    std::uint64_t sort_id_size = 0, ignored = 0;
    if (layout_.kafka_dump_prefix) {
      if (!take(sort_id_size)) return FrameStop::kInput;
      if (sort_id_size == 0 && !take(ignored)) return FrameStop::kInput;
    }
    if (layout_.sort_id) {
      if (sort_id_size == 0 && !take(sort_id_size)) return FrameStop::kInput;
      const FrameStop stop = check(sort_id_size);
      if (stop != FrameStop::kEnough) return stop;
      if (!has(sort_id_size)) return FrameStop::kInput;
      at_ += sort_id_size;
    }
    return layout_.kafka_dump && !take(ignored) ? FrameStop::kInput : FrameStop::kEnough;
  }

  FrameStop finish(Frame& frame, std::uint64_t size, std::size_t tail) {
    const FrameStop stop = check(size);
    if (stop != FrameStop::kEnough) return stop;
    if (!has(size + tail)) return FrameStop::kInput;  // At most max_record_bytes + 4.
    frame.payload = at_;
    frame.size = size;
    frame.end = at_ + size + tail;
    return FrameStop::kEnough;
  }

  FrameStop check(std::uint64_t size) {
    if (size == kDeadBeefSize && !layout_.tf_record) return FrameStop::kDeadBeef;
    if (size <= layout_.max_record_bytes) return FrameStop::kEnough;
    length_ = size;
    return FrameStop::kTooLong;
  }

  bool take(std::uint64_t& word) {
    if (!has(kWord)) return false;
    word = load<std::uint64_t>(input_.data() + at_);
    at_ += kWord;
    return true;
  }

  bool has(std::uint64_t count) {
    if (count <= input_.size() - at_) return true;
    wanted_ = at_ - begin_ + count;
    return false;
  }

  std::span<const std::byte> input_;
  const FrameLayout& layout_;
  std::size_t begin_;
  std::size_t at_;
  std::uint64_t length_ = 0;
  std::size_t wanted_ = 0;
};

std::uint32_t copy_with_crc(const std::byte* from, std::size_t size, std::byte* to) {
  std::uint32_t crc = 0;
  while (size > 0) {
    const std::size_t block = std::min(size, kCopyBlock);
    std::memcpy(to, from, block);
    crc = crc32c({from, block}, crc);
    from += block;
    to += block;
    size -= block;
  }
  return crc;
}

// Takes the payload to `to`; false if its checksum does not hold.
bool copy_payload(std::span<const std::byte> input, const Frame& frame, bool has_crc, std::byte* to) {
  const std::byte* from = input.data() + frame.payload;
  if (!has_crc) {
    if (frame.size > 0) std::memcpy(to, from, frame.size);
    return true;
  }
  return mask_crc(copy_with_crc(from, frame.size, to)) == load<std::uint32_t>(from + frame.size);
}

void check_layout(const FrameLayout& layout) {
  // So that sizes and their sums stay far from the end of 64 bits.
  if (layout.max_record_bytes > std::uint64_t{1} << 48) {
    throw std::invalid_argument("max_record_bytes must be at most 2^48, got " +
                                std::to_string(layout.max_record_bytes));
  }
}

}  // namespace

FoundFrames find_frames(std::span<const std::byte> input, const FrameLayout& layout, std::size_t max_frames) {
  check_layout(layout);
  FoundFrames found;
  while (found.num_frames < max_frames) {
    HeaderCursor cursor(input, found.num_bytes, layout);
    Frame frame;
    found.stop = cursor.read(frame);
    if (found.stop != FrameStop::kEnough) {
      found.length = cursor.length();
      found.wanted = cursor.wanted();
      break;
    }
    ++found.num_frames;
    found.num_bytes = frame.end;
    found.payload_bytes += frame.size;
  }
  return found;
}

CopiedFrames copy_frames(std::span<const std::byte> input, const FrameLayout& layout, std::size_t num_frames,
                         std::span<std::byte> payloads, std::span<std::int64_t> row_splits,
                         std::span<std::int64_t> headers) {
  check_layout(layout);
  const std::size_t num_headers = layout.lagrangex_header && !layout.tf_record ? num_frames : 0;
  if (row_splits.size() < num_frames + 1 || headers.size() < num_headers) {
    throw std::invalid_argument("row_splits and headers must have room for " + std::to_string(num_frames) +
                                " records, got " + std::to_string(row_splits.size()) + " and " +
                                std::to_string(headers.size()) + " entries");
  }
  CopiedFrames copied;
  row_splits[0] = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < num_frames; ++i) {
    Frame frame;
    const bool is_whole = HeaderCursor(input, at, layout).read(frame) == FrameStop::kEnough;
    if (!is_whole || frame.size > payloads.size() - copied.payload_bytes) {
      throw std::invalid_argument("frame " + std::to_string(i) +
                                  " is not in the input, or payloads has no room for it; call find_frames first");
    }
    if (copy_payload(input, frame, layout.tf_record, payloads.data() + copied.payload_bytes)) {
      if (num_headers > 0) headers[copied.num_records] = frame.header;
      copied.payload_bytes += frame.size;
      row_splits[++copied.num_records] = static_cast<std::int64_t>(copied.payload_bytes);
    } else if (copied.num_bad++ == 0) {
      copied.first_bad = at;
    }
    at = frame.end;
  }
  return copied;
}

std::size_t frame_overhead(const FrameLayout& layout) {
  if (layout.tf_record) return kWord + 2 * kCrc;
  if (layout.lagrangex_header) return 2 * kWord;
  std::size_t words = 1;
  if (layout.kafka_dump_prefix) words += 2;
  if (layout.sort_id) words += 1;
  if (layout.kafka_dump) words += 1;
  return words * kWord;
}

void encode_frames(std::span<const std::byte> payloads, std::span<const std::int64_t> row_splits,
                   std::span<const std::int64_t> headers, const FrameLayout& layout, std::span<std::byte> out) {
  if (row_splits.empty()) throw std::invalid_argument("row_splits must have at least one entry");
  const std::size_t num_rows = row_splits.size() - 1;
  const bool has_headers = layout.lagrangex_header && !layout.tf_record;
  if (headers.size() != (has_headers ? num_rows : 0) ||
      out.size() != payloads.size() + num_rows * frame_overhead(layout)) {
    throw std::invalid_argument("headers or out have the wrong size for " + std::to_string(num_rows) + " records");
  }
  const std::size_t num_zeros = layout.tf_record || has_headers ? 0 : frame_overhead(layout) - kWord;
  std::byte* to = out.data();
  for (std::size_t row = 0; row < num_rows; ++row) {
    const std::int64_t begin = row_splits[row], end = row_splits[row + 1];
    if ((row == 0 && begin != 0) || begin > end || static_cast<std::uint64_t>(end) > payloads.size() ||
        (row + 1 == num_rows && static_cast<std::uint64_t>(end) != payloads.size())) {
      throw std::invalid_argument("row_splits must rise from 0 to the number of payload bytes");
    }
    const auto size = static_cast<std::size_t>(end - begin);
    const std::byte* payload = payloads.data() + begin;
    std::memset(to, 0, num_zeros);
    to += num_zeros;
    if (has_headers) to = store(to, static_cast<std::uint64_t>(headers[row]));
    const std::byte* length = to;
    to = store(to, static_cast<std::uint64_t>(size));
    if (layout.tf_record) to = store(to, mask_crc(crc32c({length, kWord})));
    if (size > 0) std::memcpy(to, payload, size);
    to += size;
    if (layout.tf_record) to = store(to, mask_crc(crc32c({payload, size})));
  }
}

}  // namespace monolith
