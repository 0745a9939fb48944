#include "io/record_stream.h"

#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace monolith {
namespace {

// Makes room behind the window, if it is at the end of its buffer; false if only a larger buffer has any.
bool make_room(ReadWindow& window) {
  if (window.end < window.buffer.size()) return true;
  const std::size_t rest = window.end - window.begin;
  if (rest > window.buffer.size() / 2) return false;
  std::memmove(window.buffer.data(), window.buffer.data() + window.begin, rest);
  window.begin = 0;
  window.end = rest;
  return true;
}

// Reads on behind the window, and returns how much that gave.
std::size_t fill(int file, ReadWindow& window) {
  if (file == kNoFile || !make_room(window)) return 0;
  const ssize_t count = ::read(file, window.buffer.data() + window.end, window.buffer.size() - window.end);
  if (count <= 0) return 0;
  window.end += static_cast<std::size_t>(count);
  return static_cast<std::size_t>(count);
}

void add(FrameRead& total, const FramePass& pass) {
  if (pass.num_bad > 0 && total.num_bad == 0) total.first_bad = total.num_bytes + pass.first_bad;
  total.num_bad += pass.num_bad;
  total.num_frames += pass.num_frames;
  total.num_bytes += pass.num_bytes;
  total.num_records += pass.num_records;
  total.payload_bytes += pass.payload_bytes;
  total.stop = pass.stop;
  total.length = pass.length;
  total.wanted = pass.wanted;
}

}  // namespace

FrameRead read_frames(int file, ReadWindow window, const FrameLayout& layout, std::size_t max_frames,
                      FrameOutput output) {
  if (window.begin > window.end || window.end > window.buffer.size()) {
    throw std::invalid_argument("a window must lie in its buffer");
  }
  FrameRead total;
  while (true) {
    const std::span<const std::byte> held = window.buffer.subspan(window.begin, window.end - window.begin);
    const FramePass pass = decode_frames(held, layout, max_frames - total.num_frames, output);
    add(total, pass);
    window.begin += pass.num_bytes;
    output.payload_bytes += pass.payload_bytes;
    output.num_records += pass.num_records;
    if (pass.stop != FrameStop::kInput || total.num_bad > 0) break;
    const std::size_t count = fill(file, window);
    if (count == 0) break;
    total.num_read += count;
  }
  total.begin = window.begin;
  total.end = window.end;
  return total;
}

}  // namespace monolith
