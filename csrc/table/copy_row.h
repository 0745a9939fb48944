// Copies of one row of floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace monolith {

inline void prefetch_lines(const void* begin, std::size_t bytes) {
  const char* address = static_cast<const char*>(begin);
  for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(address + i);
}

inline void copy_row(float* out, const float* row, std::size_t floats) {
#if defined(__x86_64__)
  // Rows are short: a call to memcpy would cost as much as the copy.
  std::size_t i = 0;
  for (; i + 4 <= floats; i += 4) _mm_storeu_ps(out + i, _mm_loadu_ps(row + i));
  for (; i < floats; ++i) out[i] = row[i];
#else
  std::memcpy(out, row, floats * sizeof(float));
#endif
}

// Writes around the caches: for outputs larger than them, which would only push the table's index out.
// `out` must be aligned to 16 bytes and `floats` a multiple of four.
inline void stream_row(float* out, const float* row, std::size_t floats) {
#if defined(__x86_64__)
  for (std::size_t i = 0; i < floats; i += 4) _mm_stream_ps(out + i, _mm_loadu_ps(row + i));
#else
  std::memcpy(out, row, floats * sizeof(float));
#endif
}

inline void finish_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

inline bool can_stream(const float* out, std::size_t stride, std::size_t floats) {
  return reinterpret_cast<std::uintptr_t>(out) % 16 == 0 && stride % 4 == 0 && floats % 4 == 0;
}

}  // namespace monolith
