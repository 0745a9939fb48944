// The row kernels for AVX-512; elsewhere than on x86-64 plain code that nobody calls.
#define MONOLITH_SIMD avx512
#include "optim/row_kernels.h"
