// Looks for NaN and infinity.
#pragma once

#include <cstddef>
#include <span>

namespace monolith {

// The place of the first value that is not finite, or values.size().
std::size_t first_not_finite(std::span<const float> values);

}  // namespace monolith
