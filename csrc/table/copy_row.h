// Copies of one row of floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace monolith {

// How a row is written: through the caches, or around them. Streaming is for outputs larger than the caches, which
// would only push the table's index out; only where can_stream says so.
enum class Store { kCached, kStreaming };

#if defined(__x86_64__)
template <Store kStore>
inline void store_four(float* out, const float* from) {
  if constexpr (kStore == Store::kStreaming) {
    _mm_stream_ps(out, _mm_loadu_ps(from));
  } else {
    _mm_storeu_ps(out, _mm_loadu_ps(from));
  }
}
#endif

// Rows are short: a call to memcpy would cost as much as the copy.
template <Store kStore = Store::kCached>
inline void copy_row(float* out, const float* row, std::size_t floats) {
#if defined(__x86_64__)
  std::size_t i = 0;
  for (; i + 16 <= floats; i += 16) {
    store_four<kStore>(out + i, row + i);
    store_four<kStore>(out + i + 4, row + i + 4);
    store_four<kStore>(out + i + 8, row + i + 8);
    store_four<kStore>(out + i + 12, row + i + 12);
  }
  for (; i + 4 <= floats; i += 4) store_four<kStore>(out + i, row + i);
  for (; i < floats; ++i) out[i] = row[i];
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
  return reinterpret_cast<std::uintptr_t>(out) % 32 == 0 && stride % 8 == 0 && floats % 8 == 0;
}

}  // namespace monolith
