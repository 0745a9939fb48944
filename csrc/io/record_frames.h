// Frames of record files: where records begin and end in a stream of bytes, and their payloads put side by side.
//
// Two families. TFRecord: u64 length, u32 masked CRC-32C of the length, payload, u32 masked CRC-32C of the payload.
// PB streams: a header that FrameLayout's switches describe, u64 size, payload; no checksums. All little-endian.
//
// A caller reads a chunk of the file, small enough to stay in the processor's cache, and `decode_frames` checks and
// moves the payloads of its whole frames in one pass; what is left over goes before the next chunk. Nothing is ever
// read or written by the word of a length that was not compared with what is there.
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

// Why a pass went no further.
enum class FrameStop {
  kEnough,     // It found as many frames as it was asked for.
  kInput,      // The input ends within the next frame, or exactly before it.
  kRoom,       // The next frame is whole, but its payload does not fit into what is left of the output.
  kLengthCrc,  // The checksum of a TFRecord length does not fit it.
  kTooLong,    // A length is over max_record_bytes.
  kDeadBeef,   // A size is kDeadBeefSize.
};

struct FramePass {
  std::size_t num_frames = 0;
  std::size_t num_bytes = 0;  // What these frames take of the input; the next frame, or the fault, is here.
  FrameStop stop = FrameStop::kEnough;
  std::uint64_t length = 0;       // kTooLong: the length that was refused.
  std::size_t wanted = 0;         // kInput: bytes the next frame needs at least. kRoom: bytes of its payload.
  std::size_t num_records = 0;    // decode_frames: frames whose checksum held.
  std::size_t payload_bytes = 0;  // decode_frames: theirs.
  std::size_t num_bad = 0;        // decode_frames: frames left out, for their checksum did not hold.
  std::size_t first_bad = 0;      // Place of the first of them in the input, when there is one.
};

// Goes past up to `max_frames` whole frames at the beginning of `input`, by their headers alone.
FramePass skip_frames(std::span<const std::byte> input, const FrameLayout& layout, std::size_t max_frames);

// Where payloads go: behind what earlier passes left there.
struct FrameOutput {
  std::span<std::byte> payloads{};
  std::size_t payload_bytes = 0;         // Of `payloads`, taken already.
  std::span<std::int64_t> row_splits{};  // The end of record i stands in row_splits[i + 1]; row_splits[0] is 0.
  std::size_t num_records = 0;           // Of earlier passes.
  std::span<std::int64_t> headers{};     // With a lagrangex_header: the low 32 bits of each record's; else unused.
};

// Takes up to `max_frames` whole frames from the beginning of `input`, checks them, and appends their payloads. Records
// with a wrong checksum are left out. Throws std::invalid_argument if row_splits or headers have no room for them all.
FramePass decode_frames(std::span<const std::byte> input, const FrameLayout& layout, std::size_t max_frames,
                        const FrameOutput& output);

// Bytes that a frame has beside its payload, as encode_frames writes it.
std::size_t frame_overhead(const FrameLayout& layout);

// Writes the rows of `payloads` as frames to `out`, which has exactly the size of the payloads plus the overhead of
// each. PB headers are zeros (sort id of length 0), but for `headers`: one per row with a lagrangex_header, else none.
void encode_frames(std::span<const std::byte> payloads, std::span<const std::int64_t> row_splits,
                   std::span<const std::int64_t> headers, const FrameLayout& layout, std::span<std::byte> out);

}  // namespace monolith
