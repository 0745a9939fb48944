#include "optim/halves.h"

#include <algorithm>
#include <cstddef>

#include "ops/simd.h"
#include "optim/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace monolith {

namespace {

constexpr float kMaxHalf = 65504.0F;

template <bool kFinite>
void to_halves_one_by_one(std::span<const float> from, std::uint16_t* to) {
  for (const float value : from) *to++ = float_to_half(kFinite ? std::clamp(value, -kMaxHalf, kMaxHalf) : value);
}

#if defined(__x86_64__)
constexpr std::size_t kLanes = 8;

// Both return how many they converted, a multiple of eight.
template <bool kFinite>
__attribute__((target("avx2,f16c"))) std::size_t to_halves_by_eight(std::span<const float> from, std::uint16_t* to) {
  const __m256 largest = _mm256_set1_ps(kMaxHalf);
  const __m256 smallest = _mm256_set1_ps(-kMaxHalf);
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const __m256 quiet_nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000));
  std::size_t i = 0;
  for (; i + kLanes <= from.size(); i += kLanes) {
    __m256 values = _mm256_loadu_ps(from.data() + i);
    // Of two operands, one of them NaN, these return the second.
    if constexpr (kFinite) values = _mm256_max_ps(smallest, _mm256_min_ps(largest, values));
    // The instruction keeps part of a NaN's bits; half.h has one NaN of each sign.
    const __m256 one_nan = _mm256_or_ps(_mm256_and_ps(values, sign), quiet_nan);
    values = _mm256_blendv_ps(values, one_nan, _mm256_cmp_ps(values, values, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}

__attribute__((target("avx2,f16c"))) std::size_t to_floats_by_eight(std::span<const std::uint16_t> from, float* to) {
  std::size_t i = 0;
  for (; i + kLanes <= from.size(); i += kLanes) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + i))));
  }
  return i;
}
#endif

template <bool kFinite>
void to_halves(std::span<const float> from, std::uint16_t* to) {
  std::size_t done = 0;
#if defined(__x86_64__)
  if (simd_level() != SimdLevel::kScalar) done = to_halves_by_eight<kFinite>(from, to);
#endif
  to_halves_one_by_one<kFinite>(from.subspan(done), to + done);
}

}  // namespace

void floats_to_halves(std::span<const float> from, std::uint16_t* to) { to_halves<false>(from, to); }

void floats_to_finite_halves(std::span<const float> from, std::uint16_t* to) { to_halves<true>(from, to); }

void halves_to_floats(std::span<const std::uint16_t> from, float* to) {
  std::size_t done = 0;
#if defined(__x86_64__)
  if (simd_level() != SimdLevel::kScalar) done = to_floats_by_eight(from, to);
#endif
  std::ranges::transform(from.subspan(done), to + done, half_to_float);
}

}  // namespace monolith
