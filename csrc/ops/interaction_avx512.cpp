#define MONOLITH_SIMD avx512
#include "ops/interaction_kernels.inl"
