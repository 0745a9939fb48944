#define MONOLITH_SIMD avx512
#include "table/gather_kernels.inl"
