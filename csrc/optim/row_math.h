// What the row kernels have in common: loops that vectorise and sums that do not depend on the vector width.
//
// Promise: scalar, AVX2 and AVX-512 give the same bits (tolerance 0). Three things keep it: the build contracts
// nothing to FMA, square roots and divisions are the exact IEEE ones, and a sum over a row is always made in sixteen
// partial sums (element i goes to partial sum i % 16) that are then added pairwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "optim/kernel_types.h"

#ifndef MONOLITH_SIMD
#error "define MONOLITH_SIMD as scalar, avx2 or avx512 before including a row kernel"
#endif

// Before a loop whose iterations touch different elements: arrays inside one row's state never overlap.
#if defined(__clang__)
#define MONOLITH_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
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

struct Add {
  [[gnu::always_inline]] float operator()(float a, float b) const { return a + b; }
};
struct Max {
  [[gnu::always_inline]] float operator()(float a, float b) const { return larger(a, b); }
};

// term(0) ... term(dim - 1) folded in the fixed order; the terms must not be negative (empty lanes count as 0).
template <class Fold, class Term>
[[gnu::always_inline]] inline float fold_row(std::size_t dim, Fold fold, Term term) {
  float lanes[kSumLanes] = {};
  std::size_t begin = 0;
  for (; begin + kSumLanes <= dim; begin += kSumLanes) {
    MONOLITH_VECTOR_LOOP
    for (std::size_t lane = 0; lane < kSumLanes; ++lane) lanes[lane] = fold(lanes[lane], term(begin + lane));
  }
  for (std::size_t lane = 0; begin + lane < dim; ++lane) lanes[lane] = fold(lanes[lane], term(begin + lane));
  for (std::size_t width = kSumLanes / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] = fold(lanes[lane], lanes[lane + width]);
  }
  return lanes[0];
}

template <class Term>
[[gnu::always_inline]] inline float sum_row(std::size_t dim, Term term) {
  return fold_row(dim, Add{}, term);
}

template <class Term>
[[gnu::always_inline]] inline float max_row(std::size_t dim, Term term) {
  return fold_row(dim, Max{}, term);
}

inline void fill_row(float* out, std::size_t count, float value) {
  for (std::size_t i = 0; i < count; ++i) out[i] = value;
}

// A 64-bit step number inside the state, bit by bit in two floats; all-zero floats are step 0.
inline constexpr std::size_t kStepFloats = 2;
[[gnu::always_inline]] inline std::int64_t load_step(const float* slot) {
  std::int64_t step;
  __builtin_memcpy(&step, slot, sizeof step);
  return step;
}
[[gnu::always_inline]] inline void store_step(float* slot, std::int64_t step) {
  __builtin_memcpy(slot, &step, sizeof step);
}

}  // namespace monolith::MONOLITH_SIMD
