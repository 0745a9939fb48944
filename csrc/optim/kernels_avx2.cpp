// The row kernels for AVX2; elsewhere than on x86-64 plain code that nobody calls.
#define MONOLITH_SIMD avx2
#include "optim/row_kernels.h"
