// Frames of a file that is read piece by piece, until there are enough of them.
#pragma once

#include <cstddef>
#include <span>

#include "io/record_frames.h"

namespace monolith {

// What was read of a file and not yet taken: bytes `begin` to `end` of a buffer.
struct ReadWindow {
  std::span<std::byte> buffer{};
  std::size_t begin = 0;
  std::size_t end = 0;
};

// A pass over all pieces together: its places count from where the window began.
struct FrameRead : FramePass {
  std::size_t begin = 0;  // Of the window afterwards.
  std::size_t end = 0;
  std::size_t num_read = 0;  // Bytes that came from the file.
};

inline constexpr int kNoFile = -1;

// As decode_frames with what the window holds, and as it runs empty with what the file behind it gives: so that a batch
// is one call, whatever the size of the buffer. Goes no further than decode_frames after a record with a wrong
// checksum, and at kInput where the file gives nothing more for now, or the next frame needs a larger buffer: at its
// end, and on errors, the caller asks the system again for what is the matter. With kNoFile nothing is read.
FrameRead read_frames(int file, ReadWindow window, const FrameLayout& layout, std::size_t max_frames,
                      FrameOutput output);

}  // namespace monolith
