// The row kernels for any processor.
#define MONOLITH_SIMD scalar
#include "optim/row_kernels.h"
