// float <-> fp16 and bf16 in integer arithmetic, without branches: correct on every processor (round to nearest even,
// subnormals, infinities, NaN), whatever its denormal mode, and fit for vector loops.
#pragma once

#include <bit>
#include <cstdint>

namespace monolith {

inline std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits & 0x80000000U;
  const std::uint32_t magnitude = bits ^ sign;
  // Normal halves: rebias the exponent by 127-15 and round the 13 bits that go, ties to even. A carry runs into the
  // exponent, and from the largest half into infinity, as it should.
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  // Below 2^-14: adding 0.5 makes the processor round to multiples of 2^-24, a subnormal half's unit.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U;
  const std::uint32_t special = magnitude > 0x7F800000U ? 0x7E00U : 0x7C00U;  // NaN stays NaN; 2^16 and more: infinity
  std::uint32_t half = magnitude < (113U << 23) ? subnormal : normal;
  half = magnitude >= (143U << 23) ? special : half;
  return static_cast<std::uint16_t>(half | (sign >> 16));
}

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t magnitude = (half & 0x7FFFU) << 13;
  const std::uint32_t normal = magnitude + (112U << 23);
  // A subnormal half is its fraction under the exponent of 2^-14, less the 1 that the exponent implies.
  const float subnormal = std::bit_cast<float>(magnitude + (113U << 23)) - 0x1p-14F;
  const std::uint32_t quiet = magnitude > (31U << 23) ? 1U << 22 : 0U;  // as processors return a NaN
  const std::uint32_t special = (magnitude + (224U << 23)) | quiet;     // infinity, NaN
  std::uint32_t bits = magnitude < (1U << 23) ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  bits = magnitude >= (31U << 23) ? special : bits;
  return std::bit_cast<float>(bits | sign);
}

inline std::uint16_t float_to_bfloat(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet_nan : rounded);
}

inline float bfloat_to_float(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// The fp16 value below or above `value` (itself if it is one), above with a probability that keeps the expectation:
// (value - below)/(above - below). `random` supplies 24 bits. Values beyond the largest half become the largest half,
// so that rounding never makes an infinity; infinities and NaN stay.
inline float round_to_half_randomly(float value, std::uint64_t random) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude >= 0x7F800000U) return value;
  const std::uint32_t exponent = magnitude >> 23;
  // The distance of neighbouring halves here: 2^(e-10), and 2^-24 below the smallest normal half. Multiplying by a
  // power of two is exact, so the fraction is too.
  const std::uint32_t unit_exponent = (exponent < 113U ? 113U : exponent) - 10U;
  const float unit = std::bit_cast<float>(unit_exponent << 23);
  const float units = std::bit_cast<float>(magnitude) * std::bit_cast<float>((254U - unit_exponent) << 23);
  const auto below = static_cast<float>(static_cast<std::uint32_t>(units < 2048.0F ? units : 2048.0F));
  const float threshold = static_cast<float>(random >> 40) * 0x1p-24F;
  const float rounded = (threshold < units - below ? below + 1.0F : below) * unit;
  const float clipped = rounded < 65504.0F ? rounded : 65504.0F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(clipped) | (bits ^ magnitude));
}

}  // namespace monolith
