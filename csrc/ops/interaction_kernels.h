// The inner loops of interaction.cpp, one set per instruction set.
#pragma once

#include <cstddef>

#include "ops/interaction.h"

namespace monolith {

// Number of columns of pair_products that are made at a time.
constexpr std::size_t kPairLanes = 8;

// Floats of scratch that a task needs.
inline std::size_t interaction_scratch(const EventRows& events) {
  const std::size_t lanes = (events.count + kPairLanes - 1) / kPairLanes * kPairLanes;
  return (events.dim + 1) * (lanes > 2 ? lanes : 2);
}

// Each does the events [first, last).
struct InteractionKernels {
  void (*pair_sums)(const EventRows& events, std::size_t first, std::size_t last, float* scratch, float* out);
  void (*pair_sums_grad)(const EventRows& events, std::size_t first, std::size_t last, const float* grad,
                         float* scratch, float* grad_rows);
  void (*pair_products)(const EventRows& events, std::size_t first, std::size_t last, float* scratch, float* out);
  void (*pair_products_grad)(const EventRows& events, std::size_t first, std::size_t last, const float* grad,
                             float* grad_rows);
};

namespace scalar {
InteractionKernels interaction_kernels(std::size_t dim);
}
namespace avx2 {
InteractionKernels interaction_kernels(std::size_t dim);
}
namespace avx512 {
InteractionKernels interaction_kernels(std::size_t dim);
}

}  // namespace monolith
