// Frames of record files: where records begin and end in a stream of bytes, and their payloads put side by side.
//
// Two families. TFRecord: u64 length, u32 masked CRC-32C of the length, payload, u32 masked CRC-32C of the payload.
// PB streams: a header that FrameLayout's switches describe, u64 size, payload; no checksums. All little-endian.
//
// Reading is done in two passes over bytes that are in the cache: `find_frames` looks at headers alone and says how
// much there is, so that the caller allocates exactly; `copy_frames` then checks and moves the payloads in one go.
// Nothing is ever allocated, read or written by the word of a length that was not compared with what is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace monolith {

// What stands around a payload.
struct FrameLayout {
  // TFRecord; the switches below are for PB streams.
  bool tf_record = false;
  // u64 header: the low byte is the type of the message, the rest of the low 32 bits the data source key. Alone.
  bool lagrangex_header = false;
  // u64 length and as many bytes of a sort id.
  bool sort_id = false;
  // One u64 before the size.
  bool kafka_dump = false;
  // A u64 before all else. Zero: another u64 follows. Otherwise it stands for the length of the sort id, which is
  // then not written again (without `sort_id` the value means nothing).
  bool kafka_dump_prefix = false;
  // A longer record, or sort id, is taken for damage.
  std::uint64_t max_record_bytes = std::uint64_t{1} << 30;
};

// A size field with this value marks damage in PB streams.
inline constexpr std::uint64_t kDeadBeefSize = 0xFEFEFEFEU;

// Why find_frames went no further.
enum class FrameStop {
  kEnough,     // It found as many frames as it was asked for.
  kInput,      // The input ends within the next frame, or exactly before it.
  kLengthCrc,  // The checksum of a TFRecord length does not fit it.
  kTooLong,    // A length is over max_record_bytes.
  kDeadBeef,   // A size is kDeadBeefSize.
};

struct FoundFrames {
  std::size_t num_frames = 0;
  std::size_t num_bytes = 0;      // What these frames take of the input; the next frame, or the fault, is here.
  std::size_t payload_bytes = 0;  // Of all of them.
  FrameStop stop = FrameStop::kEnough;
  std::uint64_t length = 0;  // kTooLong: the length that was refused.
  std::size_t wanted = 0;    // kInput: the next frame needs at least so many bytes from num_bytes on.
};

// Finds up to `max_frames` whole frames at the beginning of `input`.
FoundFrames find_frames(std::span<const std::byte> input, const FrameLayout& layout, std::size_t max_frames);

struct CopiedFrames {
  std::size_t num_records = 0;    // Whose checksum held.
  std::size_t payload_bytes = 0;  // Theirs.
  std::size_t num_bad = 0;        // Left out: their checksum did not hold.
  std::size_t first_bad = 0;      // Place of the first of them in the input, when there is one.
};

// Copies the payloads of the `num_frames` frames that find_frames found at the beginning of `input` to `payloads`, end
// to end, with `row_splits` (num_frames + 1 entries; those behind the records are left alone) and, if there is a
// lagrangex_header, the low 32 bits of each header to `headers`. Records with a wrong checksum are left out.
// Throws std::invalid_argument if the frames are not there or an output is too small.
CopiedFrames copy_frames(std::span<const std::byte> input, const FrameLayout& layout, std::size_t num_frames,
                         std::span<std::byte> payloads, std::span<std::int64_t> row_splits,
                         std::span<std::int64_t> headers);

// Bytes that a frame has beside its payload, as encode_frames writes it.
std::size_t frame_overhead(const FrameLayout& layout);

// Writes the rows of `payloads` as frames to `out`, which has exactly the size of the payloads plus the overhead of
// each. PB headers are zeros (sort id of length 0), but for `headers`: one per row with a lagrangex_header, else none.
void encode_frames(std::span<const std::byte> payloads, std::span<const std::int64_t> row_splits,
                   std::span<const std::int64_t> headers, const FrameLayout& layout, std::span<std::byte> out);

}  // namespace monolith
