#define MONOLITH_SIMD scalar
#include "table/gather_kernels.inl"
