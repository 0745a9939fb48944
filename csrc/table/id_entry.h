// The entries of an index (id_index.h says how they are made up) and how a line of them is searched, for the
// instruction set that the including file is compiled for. Everything here is inlined always: each set has its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "table/id_hash.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace monolith {

inline constexpr std::size_t kLineEntries = 8;
inline constexpr std::uint64_t kMaxDisplacement = 14;
inline constexpr std::size_t kRowsOfChunk = 64;

[[gnu::always_inline]] inline std::uint64_t low_bits_of(std::uint64_t bits, int count) {
  return bits & ((std::uint64_t{1} << count) - 1);
}

[[gnu::always_inline]] inline std::uint64_t home_line_of(std::uint64_t hash, int log2_lines) {
  return low_bits_of(hash >> (64 - kSubTableBits - log2_lines), log2_lines);
}

// Bit i tells that entry i of the line has the tag.
[[gnu::always_inline]] inline unsigned entries_with_tag(const std::uint64_t* line, int row_bits, std::uint64_t tag) {
#if defined(__AVX512F__)
  // The masked form: GCC 12 takes the plain one's don't-care operand for an uninitialised variable.
  const __m512i shifted = _mm512_maskz_srl_epi64(0xFF, _mm512_load_si512(line), _mm_cvtsi32_si128(row_bits));
  return _mm512_cmpeq_epi64_mask(shifted, _mm512_set1_epi64(static_cast<long long>(tag)));
#elif defined(__AVX2__)
  const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(line));
  const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 4));
  const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(tag));
  const __m128i shift = _mm_cvtsi32_si128(row_bits);
  const __m256i low_equal = _mm256_cmpeq_epi64(_mm256_srl_epi64(low, shift), wanted);
  const __m256i high_equal = _mm256_cmpeq_epi64(_mm256_srl_epi64(high, shift), wanted);
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(low_equal))) |
         (static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(high_equal))) << 4);
#else
  unsigned found = 0;
  for (unsigned slot = 0; slot < kLineEntries; ++slot) {
    found |= static_cast<unsigned>((line[slot] >> row_bits) == tag) << slot;
  }
  return found;
#endif
}

[[gnu::always_inline]] inline bool has_room(const std::uint64_t* line) {
  bool room = false;
  for (std::size_t slot = 0; slot < kLineEntries; ++slot) room |= line[slot] == 0;
  return room;
}

}  // namespace monolith
