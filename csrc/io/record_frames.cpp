#include "io/record_frames.h"

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

// Takes the payload to `to`; false if its checksum does not hold.
bool copy_payload(std::span<const std::byte> input, const Frame& frame, bool has_crc, std::byte* to) {
  const std::byte* from = input.data() + frame.payload;
  if (!has_crc) {
    if (frame.size > 0) std::memcpy(to, from, frame.size);
    return true;
  }
  return mask_crc(copy_with_crc32c({from, frame.size}, to)) == load<std::uint32_t>(from + frame.size);
}

void check_layout(const FrameLayout& layout) {
  // So that sizes and their sums stay far from the end of 64 bits.
  if (layout.max_record_bytes > std::uint64_t{1} << 48) {
    throw std::invalid_argument("max_record_bytes must be at most 2^48, got " +
                                std::to_string(layout.max_record_bytes));
  }
}

}  // namespace

namespace {

// The loop of a pass; `take` does what is to be done with a frame, and is false if that needs more room.
template <typename Take>
FramePass pass_frames(std::span<const std::byte> input, const FrameLayout& layout, std::size_t max_frames, Take take) {
  check_layout(layout);
  FramePass pass;
  while (pass.num_frames < max_frames) {
    HeaderCursor cursor(input, pass.num_bytes, layout);
    Frame frame;
    pass.stop = cursor.read(frame);
    if (pass.stop != FrameStop::kEnough) {
      pass.length = cursor.length();
      pass.wanted = cursor.wanted();
      break;
    }
    if (!take(frame, pass)) {
      pass.stop = FrameStop::kRoom;
      pass.wanted = frame.size;
      break;
    }
    ++pass.num_frames;
    pass.num_bytes = frame.end;
  }
  return pass;
}

void check_output(const FrameLayout& layout, std::size_t max_frames, const FrameOutput& output, bool has_headers) {
  const bool has_splits =
      output.row_splits.size() > output.num_records && output.row_splits.size() - output.num_records - 1 >= max_frames;
  const bool fits_headers = !has_headers || (output.headers.size() >= output.num_records &&
                                             output.headers.size() - output.num_records >= max_frames);
  if (!has_splits || !fits_headers || output.payload_bytes > output.payloads.size()) {
    throw std::invalid_argument("no room for " + std::to_string(max_frames) + " records behind " +
                                std::to_string(output.num_records) + " in row_splits (" +
                                std::to_string(output.row_splits.size()) + "), headers (" +
                                std::to_string(output.headers.size()) + ") or payloads");
  }
  check_layout(layout);
}

}  // namespace

FramePass skip_frames(std::span<const std::byte> input, const FrameLayout& layout, std::size_t max_frames) {
  return pass_frames(input, layout, max_frames, [](const Frame&, FramePass&) { return true; });
}

FramePass decode_frames(std::span<const std::byte> input, const FrameLayout& layout, std::size_t max_frames,
                        const FrameOutput& output) {
  const bool has_headers = layout.lagrangex_header && !layout.tf_record;
  check_output(layout, max_frames, output, has_headers);
  return pass_frames(input, layout, max_frames, [&](const Frame& frame, FramePass& pass) {
    const std::size_t at = output.payload_bytes + pass.payload_bytes;
    if (frame.size > output.payloads.size() - at) return false;
    if (!copy_payload(input, frame, layout.tf_record, output.payloads.data() + at)) {
      if (pass.num_bad++ == 0) pass.first_bad = pass.num_bytes;
      return true;
    }
    const std::size_t record = output.num_records + pass.num_records;
    if (has_headers) output.headers[record] = frame.header;
    output.row_splits[record + 1] = static_cast<std::int64_t>(at + frame.size);
    pass.payload_bytes += frame.size;
    ++pass.num_records;
    return true;
  });
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
