// Looks for NaN and infinity.
#pragma once

#include <cstddef>
#include <span>

namespace monolith {

// The place of the first value that is not finite, or values.size(). Uses several threads for many values.
std::size_t first_not_finite(std::span<const float> values);

// Whether `count` floats, which need not be aligned, are all finite.
bool all_finite(const std::byte* floats, std::size_t count);

}  // namespace monolith
