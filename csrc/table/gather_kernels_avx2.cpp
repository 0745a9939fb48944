#define MONOLITH_SIMD avx2
#include "table/gather_kernels.inl"
