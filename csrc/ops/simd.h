// Which instruction set the kernels use.
//
// A kernel is written once, in plain loops, inside `namespace MONOLITH_SIMD`, and compiled three times
// (files *_scalar.cpp, *_avx2.cpp, *_avx512.cpp). Nothing is contracted to FMA and reductions have a fixed order,
// so all three give the same bits.
#pragma once

#include <string_view>

namespace monolith {

enum class SimdLevel { kScalar = 0, kAvx2 = 1, kAvx512 = 2 };

// The best level that this build and this processor have.
SimdLevel best_simd_level();

// The level in use: the best one, unless `set_simd_level` chose another.
SimdLevel simd_level();

// Forces a level; throws std::invalid_argument if this processor or build lacks it.
void set_simd_level(SimdLevel level);

std::string_view simd_level_name(SimdLevel level);  // "scalar", "avx2", "avx512"
SimdLevel simd_level_from_name(std::string_view name);

}  // namespace monolith
