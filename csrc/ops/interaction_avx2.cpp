#define MONOLITH_SIMD avx2
#include "ops/interaction_kernels.inl"
