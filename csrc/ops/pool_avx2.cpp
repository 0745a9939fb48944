#define MONOLITH_SIMD avx2
#include "ops/pool_kernels.inl"
