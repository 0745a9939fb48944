// Many floats to fp16 and back, with the bits of half.h on every processor; eight at a time where there is F16C.
#pragma once

#include <cstdint>
#include <span>

namespace monolith {

// Values beyond the largest half become infinite.
void floats_to_halves(std::span<const float> from, std::uint16_t* to);

// Finite values beyond the largest half, and infinities, become the largest half; NaN stays.
void floats_to_finite_halves(std::span<const float> from, std::uint16_t* to);

void halves_to_floats(std::span<const std::uint16_t> from, float* to);

}  // namespace monolith
