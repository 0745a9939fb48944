// What the row kernels have in common: loops that vectorise and sums that do not depend on the vector width.
//
// Promise: scalar, AVX2 and AVX-512 give the same bits (tolerance 0). Three things keep it: the build contracts
// nothing to FMA, square roots and divisions are the exact IEEE ones, and a sum over a row is always made in sixteen
// partial sums (element i goes to partial sum i % 16) that are then added pairwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "optim/kernel_types.h"

#ifndef MONOLITH_SIMD
#error "define MONOLITH_SIMD as scalar, avx2 or avx512 before including a row kernel"
#endif

// Before a loop whose iterations touch different elements: arrays inside one row's state never overlap. Clang checks
// that itself at run time; its own pragma would make a loop it cannot vectorise an error.
#if defined(__clang__)
#define MONOLITH_VECTOR_LOOP
#else
#define MONOLITH_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

// A step is inlined into its wrappers for common dims, where the trip count is a constant.
#define MONOLITH_ROW_STEP [[gnu::always_inline]] static inline

namespace monolith::MONOLITH_SIMD {

inline constexpr std::size_t kSumLanes = 16;

// The builtins, because std::sqrt and its like are inline functions outside this namespace.
[[gnu::always_inline]] inline float square_root(float x) { return __builtin_sqrtf(x); }
[[gnu::always_inline]] inline float larger(float a, float b) { return a > b ? a : b; }

// Added to a divisor that may be 0 (its numerator is 0 too then), so that 0/0 is 0, not NaN. The smallest normal float
// changes no divisor above 2^-102; a test for 0 would keep the loop from vectorising.
inline constexpr float kTiny = 0x1p-126F;

// Four neighbouring elements; GCC and Clang have it on every processor.
typedef float Quad __attribute__((vector_size(16)));
typedef float Sixteen __attribute__((vector_size(64)));

struct Add {
  template <class Value>
  [[gnu::always_inline]] static void fold(Value& into, const Value& value) {
    into = into + value;
  }
};
struct Max {
  template <class Value>
  [[gnu::always_inline]] static void fold(Value& into, const Value& value) {
    into = into > value ? into : value;
  }
};

// How a term of a sum reads a row: at(w) is w[i], or w[i] ... w[i + 3] at once.
struct OneAt {
  std::size_t i;
  [[gnu::always_inline]] float operator()(const float* row) const { return row[i]; }
};
struct QuadAt {
  std::size_t i;
  [[gnu::always_inline]] Quad operator()(const float* row) const {
    Quad quad;
    __builtin_memcpy(&quad, row + i, sizeof quad);
    return quad;
  }
};

// Folds the up to four terms from i on into `quad`.
template <class Fold, class Term>
[[gnu::always_inline]] inline void fold_quad(std::size_t i, std::size_t dim, Term term, Quad& quad) {
  if (i + 4 <= dim) {
    Fold::fold(quad, term(QuadAt{i}));
  } else if (i < dim) {
    Quad rest = {};
    rest[0] = term(OneAt{i});
    if (i + 1 < dim) rest[1] = term(OneAt{i + 1});
    if (i + 2 < dim) rest[2] = term(OneAt{i + 2});
    Fold::fold(quad, rest);
  }
}

// The terms of a row folded in the fixed order; they must not be negative (an empty lane counts as 0).
template <class Fold, class Term>
[[gnu::always_inline]] inline float fold_row(std::size_t dim, Term term) {
  Quad a = {}, b = {}, c = {}, d = {};  // sixteen lanes
  for (std::size_t i = 0; i < dim; i += kSumLanes) {
    fold_quad<Fold>(i, dim, term, a);
    fold_quad<Fold>(i + 4, dim, term, b);
    fold_quad<Fold>(i + 8, dim, term, c);
    fold_quad<Fold>(i + 12, dim, term, d);
  }
  Fold::fold(a, c);
  Fold::fold(b, d);
  Fold::fold(a, b);
  float even = a[0];
  float odd = a[1];
  Fold::fold(even, static_cast<float>(a[2]));
  Fold::fold(odd, static_cast<float>(a[3]));
  Fold::fold(even, odd);
  return even;
}

// term(at) gives one term; it is called with OneAt and QuadAt, so it is written once for both.
template <class Term>
[[gnu::always_inline]] inline float sum_row(std::size_t dim, Term term) {
  return fold_row<Add>(dim, term);
}

template <class Term>
[[gnu::always_inline]] inline float max_row(std::size_t dim, Term term) {
  return fold_row<Max>(dim, term);
}

inline void fill_row(float* out, std::size_t count, float value) {
  for (std::size_t i = 0; i < count; ++i) out[i] = value;
}

// Rows are short: a call to memcpy, which the compiler makes of a plain loop, would cost as much as the copy.
[[gnu::always_inline]] inline void copy_floats(float* out, const float* from, std::size_t count) {
  const std::size_t sixteens = count / 16 * 16;
  const std::size_t fours = count / 4 * 4;
  for (std::size_t i = 0; i < sixteens; i += 16) __builtin_memcpy(out + i, from + i, 16 * sizeof(float));
  for (std::size_t i = sixteens; i < fours; i += 4) __builtin_memcpy(out + i, from + i, 4 * sizeof(float));
  for (std::size_t i = fours; i < count; ++i) __builtin_memcpy(out + i, from + i, sizeof(float));
}

// Whether no value is NaN or infinite, which have an exponent of all ones. A row is too short for the sum over lanes
// that a compiler would end a loop with: each instruction set has a shorter way to ask whether any lane has one.
[[gnu::always_inline]] inline bool all_finite(const float* values, std::size_t count) {
  std::size_t done = 0;
  bool found = false;
#if defined(__AVX512DQ__)
  constexpr int kNanOrInfinity = 0x99;
  __mmask16 any = 0;
  done = count / 16 * 16;
  for (std::size_t i = 0; i < done; i += 16) {
    any |= _mm512_fpclass_ps_mask(_mm512_loadu_ps(values + i), kNanOrInfinity);
  }
  if (done + 8 <= count) {
    any |= _mm256_fpclass_ps_mask(_mm256_loadu_ps(values + done), kNanOrInfinity);
    done += 8;
  }
  if (done + 4 <= count) {
    any |= _mm_fpclass_ps_mask(_mm_loadu_ps(values + done), kNanOrInfinity);
    done += 4;
  }
  found = any != 0;
#elif defined(__AVX2__)
  const __m256i exponent = _mm256_set1_epi32(0x7F800000);
  __m256i any = _mm256_setzero_si256();
  done = count / 8 * 8;
  for (std::size_t i = 0; i < done; i += 8) {
    const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(values + i));
    any = _mm256_or_si256(any, _mm256_cmpeq_epi32(_mm256_and_si256(bits, exponent), exponent));
  }
  found = _mm256_movemask_epi8(any) != 0;
#elif defined(__SSE2__)
  const __m128i exponent = _mm_set1_epi32(0x7F800000);
  __m128i any = _mm_setzero_si128();
  done = count / 4 * 4;
  for (std::size_t i = 0; i < done; i += 4) {
    const __m128i bits = _mm_castps_si128(_mm_loadu_ps(values + i));
    any = _mm_or_si128(any, _mm_cmpeq_epi32(_mm_and_si128(bits, exponent), exponent));
  }
  found = _mm_movemask_epi8(any) != 0;
#endif
  // One by one: a vector over what was just written float by float would wait until it is in the cache.
  for (std::size_t i = done; i < count; ++i) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, values + i, sizeof bits);
    found |= (bits & 0x7F800000U) == 0x7F800000U;
  }
  return !found;
}

// The 64 bits of a step number in the two floats of a slot of Extent::kStep; all-zero floats are step 0.
[[gnu::always_inline]] inline std::int64_t load_step(const float* slot) {
  std::int64_t step;
  __builtin_memcpy(&step, slot, sizeof step);
  return step;
}
[[gnu::always_inline]] inline void store_step(float* slot, std::int64_t step) {
  __builtin_memcpy(slot, &step, sizeof step);
}

// Steps from `last` to `now`; wraps instead of overflowing on a state that never came from here.
[[gnu::always_inline]] inline std::int64_t steps_between(std::int64_t last, std::int64_t now) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(now) - static_cast<std::uint64_t>(last));
}

}  // namespace monolith::MONOLITH_SIMD
