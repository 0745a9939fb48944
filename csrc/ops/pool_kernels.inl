// Included by pool_scalar.cpp, pool_avx2.cpp and pool_avx512.cpp, each of which defines MONOLITH_SIMD.
// No templates of the standard library here: the linker keeps one copy of each, and it might keep the AVX-512 one.
#include "ops/pool_kernels.h"

namespace monolith::MONOLITH_SIMD {
namespace {

// N bytes of T as one value. N must not exceed a register, or the compiler keeps the value in memory.
template <class T, int N>
struct Wide {
  typedef T Type __attribute__((vector_size(N), aligned(alignof(T)), may_alias));
};

#if defined(__AVX512F__)
constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__)
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif

template <class T>
T divisor_of(Pooling kind, std::int64_t count) {
  if (kind == Pooling::kSum || count <= 1) return T(1);
  return kind == Pooling::kMean ? T(count) : static_cast<T>(__builtin_sqrt(static_cast<double>(count)));
}

constexpr std::int64_t kPrefetchDistance = 12;

// Columns from `at` on, `Count` vectors of N bytes at a time, summed in registers. Returns the first column left over.
template <class T, int N, int Count>
inline std::size_t pool_columns(const T* source, const std::int64_t* index, std::int64_t begin, std::int64_t end,
                                std::size_t dim, T divisor, std::size_t at, T* out) {
  using Vector = typename Wide<T, N>::Type;
  constexpr std::size_t kWidth = Count * N / sizeof(T);
  for (; at + kWidth <= dim; at += kWidth) {
    Vector sum[Count] = {};
    for (std::int64_t k = begin; k < end; ++k) {
      const T* row = source + static_cast<std::size_t>(index ? index[k] : k) * dim + at;
      for (int i = 0; i < Count; ++i) sum[i] += reinterpret_cast<const Vector*>(row)[i];
    }
    for (int i = 0; i < Count; ++i) {
      if (divisor != T(1)) sum[i] /= divisor;
      reinterpret_cast<Vector*>(out + at)[i] = sum[i];
    }
  }
  return at;
}

template <class T>
void pool(const T* source, const std::int64_t* index, const std::int64_t* splits, std::size_t first, std::size_t last,
          std::size_t dim, Pooling kind, T* out) {
  for (std::size_t bag = first; bag < last; ++bag) {
    const std::int64_t begin = splits[bag];
    const std::int64_t end = splits[bag + 1];
    if (index) {
      // Rows of the bags to come; the chunk's last bag bounds how far index may be read.
      const std::int64_t limit = splits[last];
      for (std::int64_t k = begin + kPrefetchDistance; k < end + kPrefetchDistance && k < limit; ++k) {
        const T* row = source + static_cast<std::size_t>(index[k]) * dim;
        for (std::size_t at = 0; at < dim; at += 64 / sizeof(T)) __builtin_prefetch(row + at);
      }
    }
    const T divisor = divisor_of<T>(kind, end - begin);
    T* to = out + bag * dim;
    std::size_t at = pool_columns<T, kRegisterBytes, 4>(source, index, begin, end, dim, divisor, 0, to);
    at = pool_columns<T, kRegisterBytes, 2>(source, index, begin, end, dim, divisor, at, to);
    at = pool_columns<T, kRegisterBytes, 1>(source, index, begin, end, dim, divisor, at, to);
    if constexpr (kRegisterBytes > 32) at = pool_columns<T, 32, 1>(source, index, begin, end, dim, divisor, at, to);
    if constexpr (kRegisterBytes > 16) at = pool_columns<T, 16, 1>(source, index, begin, end, dim, divisor, at, to);
    for (; at < dim; ++at) {
      T sum = 0;
      for (std::int64_t k = begin; k < end; ++k)
        sum += source[static_cast<std::size_t>(index ? index[k] : k) * dim + at];
      to[at] = sum / divisor;
    }
  }
}

template <class T>
void spread(const T* grad_out, const std::int64_t* splits, std::size_t first, std::size_t last, std::size_t dim,
            Pooling kind, T* grad_values) {
  for (std::size_t bag = first; bag < last; ++bag) {
    const T divisor = divisor_of<T>(kind, splits[bag + 1] - splits[bag]);
    const T* from = grad_out + bag * dim;
    for (std::int64_t k = splits[bag]; k < splits[bag + 1]; ++k) {
      T* to = grad_values + static_cast<std::size_t>(k) * dim;
      if (divisor == T(1)) {
        for (std::size_t at = 0; at < dim; ++at) to[at] = from[at];
      } else {
        for (std::size_t at = 0; at < dim; ++at) to[at] = from[at] / divisor;
      }
    }
  }
}

inline std::uint32_t owner_of(std::int64_t row, std::uint32_t num_tasks) {
  const std::uint32_t mixed = static_cast<std::uint32_t>(row >> kOwnerBlockBits) * 0x9E3779B1u;
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(mixed) * num_tasks) >> 32);
}

template <class T>
void scatter(const T* grad_out, const std::int64_t* index, const std::int64_t* splits, std::size_t num_bags,
             std::size_t dim, Pooling kind, std::uint32_t task, std::uint32_t num_tasks, T* scratch, T* grad_rows) {
  for (std::size_t bag = 0; bag < num_bags; ++bag) {
    const std::int64_t begin = splits ? splits[bag] : static_cast<std::int64_t>(bag);
    const std::int64_t end = splits ? splits[bag + 1] : begin + 1;
    const T* grad = grad_out + bag * dim;
    const T divisor = divisor_of<T>(kind, end - begin);
    if (divisor != T(1)) {
      for (std::size_t at = 0; at < dim; ++at) scratch[at] = grad[at] / divisor;
      grad = scratch;
    }
    for (std::int64_t k = begin; k < end; ++k) {
      if (num_tasks > 1 && owner_of(index[k], num_tasks) != task) continue;
      T* __restrict to = grad_rows + static_cast<std::size_t>(index[k]) * dim;
      for (std::size_t at = 0; at < dim; ++at) to[at] += grad[at];
    }
  }
}

}  // namespace

PoolKernels<float> pool_kernels_float() { return {&pool<float>, &spread<float>, &scatter<float>}; }
PoolKernels<double> pool_kernels_double() { return {&pool<double>, &spread<double>, &scatter<double>}; }

}  // namespace monolith::MONOLITH_SIMD
