// The inner loops of pool.cpp, one set per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/pool.h"

namespace monolith {

// Which task adds to a row: rows go to tasks in blocks, so that small rows of two tasks rarely share a cache line,
// and blocks are scattered, because frequent ids come first in first-seen order.
constexpr int kOwnerBlockBits = 4;

template <class T>
struct PoolKernels {
  // Bags [first, last). Value k is source[index[k]], or source[k] if index is null.
  void (*pool)(const T* source, const std::int64_t* index, const std::int64_t* splits, std::size_t first,
               std::size_t last, std::size_t dim, Pooling kind, T* out);
  // The gradient of bags [first, last) to their values.
  void (*spread)(const T* grad_out, const std::int64_t* splits, std::size_t first, std::size_t last, std::size_t dim,
                 Pooling kind, T* grad_values);
  // Adds the gradient of all bags to those rows that `task` of `num_tasks` owns. `scratch` holds dim elements.
  // Without splits, every occurrence is a bag of its own.
  void (*scatter)(const T* grad_out, const std::int64_t* index, const std::int64_t* splits, std::size_t num_bags,
                  std::size_t dim, Pooling kind, std::uint32_t task, std::uint32_t num_tasks, T* scratch, T* grad_rows);
};

namespace scalar {
PoolKernels<float> pool_kernels_float();
PoolKernels<double> pool_kernels_double();
}  // namespace scalar
namespace avx2 {
PoolKernels<float> pool_kernels_float();
PoolKernels<double> pool_kernels_double();
}  // namespace avx2
namespace avx512 {
PoolKernels<float> pool_kernels_float();
PoolKernels<double> pool_kernels_double();
}  // namespace avx512

}  // namespace monolith
