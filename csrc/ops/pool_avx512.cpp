#define MONOLITH_SIMD avx512
#include "ops/pool_kernels.inl"
