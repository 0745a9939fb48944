#define MONOLITH_SIMD scalar
#include "ops/pool_kernels.inl"
