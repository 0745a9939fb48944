#include "ops/pool.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/parallel_for.h"
#include "ops/pool_kernels.h"
#include "ops/simd.h"

namespace monolith {

namespace {

// Below this many elements a second thread costs more than it saves.
constexpr std::size_t kElementsPerTask = 16384;

template <class T>
PoolKernels<T> kernels() {
  const SimdLevel level = simd_level();
  if constexpr (std::is_same_v<T, float>) {
    if (level == SimdLevel::kAvx512) return avx512::pool_kernels_float();
    return level == SimdLevel::kAvx2 ? avx2::pool_kernels_float() : scalar::pool_kernels_float();
  } else {
    if (level == SimdLevel::kAvx512) return avx512::pool_kernels_double();
    return level == SimdLevel::kAvx2 ? avx2::pool_kernels_double() : scalar::pool_kernels_double();
  }
}

std::size_t task_count(std::size_t elements, std::size_t tasks_per_thread) {
  return std::clamp<std::size_t>(elements / kElementsPerTask, 1,
                                 tasks_per_thread * static_cast<std::size_t>(num_threads()));
}

// Calls work(first, last) for ranges of bags that hold about as many values each.
template <class Work>
void for_bag_ranges(Int64Span splits, std::size_t dim, const Work& work) {
  const std::size_t num_bags = splits.size() - 1;
  const std::size_t total = static_cast<std::size_t>(splits.back()) + num_bags;
  const std::size_t num_tasks = task_count(total * dim, 4);
  const auto boundary = [&](std::size_t task) {
    const std::size_t target = total * task / num_tasks;
    std::size_t low = 0;
    std::size_t high = num_bags;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (static_cast<std::size_t>(splits[middle]) + middle < target) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  parallel_for(num_tasks, [&](std::size_t task) {
    const std::size_t last = task + 1 == num_tasks ? num_bags : boundary(task + 1);
    work(task == 0 ? 0 : boundary(task), last);
  });
}

void check_size(std::size_t elements, std::size_t rows, std::size_t dim, std::string_view what) {
  if (dim == 0) throw std::invalid_argument("rows must have at least one column, got a width of 0");
  if (elements != rows * dim) {
    throw std::invalid_argument(std::string(what) + " has " + std::to_string(elements) + " elements, expected " +
                                std::to_string(rows) + " rows of " + std::to_string(dim));
  }
}

std::size_t count_rows(std::size_t elements, std::size_t dim, std::string_view what) {
  check_size(elements, dim == 0 ? 0 : elements / dim, dim, what);
  return elements / dim;
}

template <class T>
void scatter_all(std::span<const T> grad_out, Int64Span index, const std::int64_t* splits, std::size_t num_bags,
                 std::size_t dim, Pooling kind, std::span<T> grad_rows) {
  check_indices(index, count_rows(grad_rows.size(), dim, "the gradient of the rows"), "inverse");
  const PoolKernels<T> kernel = kernels<T>();
  // Each task walks over all occurrences and adds those it owns, so one task per thread.
  const std::size_t num_tasks = task_count(index.size() * dim, 1);
  parallel_for(num_tasks, [&](std::size_t task) {
    std::vector<T> scratch(dim);
    kernel.scatter(grad_out.data(), index.data(), splits, num_bags, dim, kind, static_cast<std::uint32_t>(task),
                   static_cast<std::uint32_t>(num_tasks), scratch.data(), grad_rows.data());
  });
}

}  // namespace

template <class T>
void pool(std::span<const T> values, Int64Span row_splits, std::size_t dim, Pooling kind, std::span<T> out) {
  check_row_splits(row_splits, count_rows(values.size(), dim, "values"));
  check_size(out.size(), row_splits.size() - 1, dim, "out");
  const PoolKernels<T> kernel = kernels<T>();
  for_bag_ranges(row_splits, dim, [&](std::size_t first, std::size_t last) {
    kernel.pool(values.data(), nullptr, row_splits.data(), first, last, dim, kind, out.data());
  });
}

template <class T>
void pool_grad(std::span<const T> grad_out, Int64Span row_splits, std::size_t dim, Pooling kind,
               std::span<T> grad_values) {
  check_row_splits(row_splits, count_rows(grad_values.size(), dim, "the gradient of the values"));
  check_size(grad_out.size(), row_splits.size() - 1, dim, "the gradient of the pooled rows");
  const PoolKernels<T> kernel = kernels<T>();
  for_bag_ranges(row_splits, dim, [&](std::size_t first, std::size_t last) {
    kernel.spread(grad_out.data(), row_splits.data(), first, last, dim, kind, grad_values.data());
  });
}

template <class T>
void pool_unique(std::span<const T> rows, Int64Span inverse, Int64Span row_splits, std::size_t dim, Pooling kind,
                 std::span<T> out) {
  check_row_splits(row_splits, inverse.size());
  check_indices(inverse, count_rows(rows.size(), dim, "rows"), "inverse");
  check_size(out.size(), row_splits.size() - 1, dim, "out");
  const PoolKernels<T> kernel = kernels<T>();
  for_bag_ranges(row_splits, dim, [&](std::size_t first, std::size_t last) {
    kernel.pool(rows.data(), inverse.data(), row_splits.data(), first, last, dim, kind, out.data());
  });
}

template <class T>
void pool_unique_grad(std::span<const T> grad_out, Int64Span inverse, Int64Span row_splits, std::size_t dim,
                      Pooling kind, std::span<T> grad_rows) {
  check_row_splits(row_splits, inverse.size());
  check_size(grad_out.size(), row_splits.size() - 1, dim, "the gradient of the pooled rows");
  scatter_all(grad_out, inverse, row_splits.data(), row_splits.size() - 1, dim, kind, grad_rows);
}

template <class T>
void first_n(std::span<const T> values, Int64Span row_splits, std::size_t dim, std::size_t length, std::span<T> out) {
  check_row_splits(row_splits, count_rows(values.size(), dim, "values"));
  check_size(out.size(), (row_splits.size() - 1) * length, dim, "out");
  for_bag_ranges(row_splits, dim, [&](std::size_t first, std::size_t last) {
    for (std::size_t bag = first; bag < last; ++bag) {
      const auto begin = static_cast<std::size_t>(row_splits[bag]);
      const std::size_t kept = std::min(length, static_cast<std::size_t>(row_splits[bag + 1]) - begin) * dim;
      T* to = out.data() + bag * length * dim;
      std::copy_n(values.data() + begin * dim, kept, to);
      std::fill(to + kept, to + length * dim, T(0));
    }
  });
}

template <class T>
void first_n_grad(std::span<const T> grad_out, Int64Span row_splits, std::size_t dim, std::size_t length,
                  std::span<T> grad_values) {
  check_row_splits(row_splits, count_rows(grad_values.size(), dim, "the gradient of the values"));
  check_size(grad_out.size(), (row_splits.size() - 1) * length, dim, "the gradient of the sequence");
  for_bag_ranges(row_splits, dim, [&](std::size_t first, std::size_t last) {
    for (std::size_t bag = first; bag < last; ++bag) {
      const auto begin = static_cast<std::size_t>(row_splits[bag]) * dim;
      const std::size_t size = static_cast<std::size_t>(row_splits[bag + 1]) * dim - begin;
      const std::size_t kept = std::min(length * dim, size);
      std::copy_n(grad_out.data() + bag * length * dim, kept, grad_values.data() + begin);
      std::fill_n(grad_values.data() + begin + kept, size - kept, T(0));
    }
  });
}

template <class T>
void gather_rows(std::span<const T> rows, Int64Span index, std::size_t dim, std::span<T> out) {
  check_indices(index, count_rows(rows.size(), dim, "rows"), "index");
  check_size(out.size(), index.size(), dim, "out");
  const std::size_t num_tasks = task_count(index.size() * dim, 4);
  parallel_for(num_tasks, [&](std::size_t task) {
    const std::size_t last = index.size() * (task + 1) / num_tasks;
    for (std::size_t i = index.size() * task / num_tasks; i < last; ++i) {
      std::memcpy(out.data() + i * dim, rows.data() + static_cast<std::size_t>(index[i]) * dim, dim * sizeof(T));
    }
  });
}

template <class T>
void scatter_add_rows(std::span<const T> grad_out, Int64Span index, std::size_t dim, std::span<T> grad_rows) {
  check_size(grad_out.size(), index.size(), dim, "the gradient of the gathered rows");
  scatter_all(grad_out, index, nullptr, index.size(), dim, Pooling::kSum, grad_rows);
}

#define INSTANTIATE(T)                                                                                          \
  template void pool(std::span<const T>, Int64Span, std::size_t, Pooling, std::span<T>);                        \
  template void pool_grad(std::span<const T>, Int64Span, std::size_t, Pooling, std::span<T>);                   \
  template void pool_unique(std::span<const T>, Int64Span, Int64Span, std::size_t, Pooling, std::span<T>);      \
  template void pool_unique_grad(std::span<const T>, Int64Span, Int64Span, std::size_t, Pooling, std::span<T>); \
  template void first_n(std::span<const T>, Int64Span, std::size_t, std::size_t, std::span<T>);                 \
  template void first_n_grad(std::span<const T>, Int64Span, std::size_t, std::size_t, std::span<T>);            \
  template void gather_rows(std::span<const T>, Int64Span, std::size_t, std::span<T>);                          \
  template void scatter_add_rows(std::span<const T>, Int64Span, std::size_t, std::span<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace monolith
