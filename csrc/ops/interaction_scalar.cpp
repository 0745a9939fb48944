#define MONOLITH_SIMD scalar
#include "ops/interaction_kernels.inl"
