#include "ops/plain_gather.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "ops/parallel_for.h"
#include "ops/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace monolith {

namespace {

constexpr std::size_t kNearRows = 16;
constexpr std::size_t kFarRows = 64;
constexpr std::size_t kCacheLineBytes = 64;
// Small enough to balance threads of unequal speed, large enough that taking a range costs nothing.
constexpr std::size_t kIdsPerTask = 8192;

struct Gather {
  const float* rows;
  std::size_t dim;
  const std::int64_t* ids;
  float* out;
  std::size_t rows_ahead;
};

using GatherRange = void (*)(const Gather&, std::size_t begin, std::size_t end);

inline void prefetch_row(const float* row, std::size_t dim) {
  const auto* first = reinterpret_cast<const char*>(row);
  for (std::size_t byte = 0; byte < dim * sizeof(float); byte += kCacheLineBytes) __builtin_prefetch(first + byte);
}

void gather_any(const Gather& g, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (i + g.rows_ahead < end) prefetch_row(g.rows + g.ids[i + g.rows_ahead] * g.dim, g.dim);
    std::memcpy(g.out + i * g.dim, g.rows + g.ids[i] * g.dim, g.dim * sizeof(float));
  }
}

#if defined(__x86_64__)
constexpr std::size_t kFloatsPerVector = 8;

// kDim > 0: the width is known and the copy unrolled; 0: any multiple of eight floats.
template <std::size_t kDim, bool kStream>
__attribute__((target("avx2"))) void gather_avx2(const Gather& g, std::size_t begin, std::size_t end) {
  const std::size_t dim = kDim > 0 ? kDim : g.dim;
  const std::size_t ahead = g.rows_ahead;
  for (std::size_t i = begin; i < end; ++i) {
    if (i + ahead < end) prefetch_row(g.rows + g.ids[i + ahead] * dim, dim);
    const float* from = g.rows + g.ids[i] * dim;
    float* to = g.out + i * dim;
#pragma GCC unroll 8
    for (std::size_t d = 0; d < dim; d += kFloatsPerVector) {
      const __m256 values = _mm256_loadu_ps(from + d);
      if constexpr (kStream) {
        _mm256_stream_ps(to + d, values);
      } else {
        _mm256_storeu_ps(to + d, values);
      }
    }
  }
  // Streaming stores are weakly ordered: make them visible before another thread is told that the task ended.
  if constexpr (kStream) _mm_sfence();
}

template <bool kStream>
GatherRange choose_avx2(std::size_t dim) {
  switch (dim) {
    case 16:
      return gather_avx2<16, kStream>;
    case 32:
      return gather_avx2<32, kStream>;
    case 64:
      return gather_avx2<64, kStream>;
    default:
      return gather_avx2<0, kStream>;
  }
}
#endif

GatherRange choose([[maybe_unused]] std::size_t dim, [[maybe_unused]] const float* out,
                   [[maybe_unused]] GatherStores stores) {
#if defined(__x86_64__)
  if (simd_level() != SimdLevel::kScalar && dim % kFloatsPerVector == 0) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(out) % sizeof(__m256) == 0;
    return stores == GatherStores::kStreaming && aligned ? choose_avx2<true>(dim) : choose_avx2<false>(dim);
  }
#endif
  return gather_any;
}

template <typename Task>
void for_each_range(std::size_t count, const Task& task) {
  parallel_for((count + kIdsPerTask - 1) / kIdsPerTask,
               [&](std::size_t index) { task(index * kIdsPerTask, std::min(count, (index + 1) * kIdsPerTask)); });
}

void check_ids(std::span<const std::int64_t> ids, std::size_t num_rows) {
  for_each_range(ids.size(), [&](std::size_t begin, std::size_t end) {
    std::uint64_t largest = 0;  // a negative id is a huge unsigned one
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, static_cast<std::uint64_t>(ids[i]));
    if (largest >= num_rows) {
      throw std::invalid_argument("row number " + std::to_string(static_cast<std::int64_t>(largest)) +
                                  " is outside the array of " + std::to_string(num_rows) +
                                  " rows; pass numbers from 0 to one less than that");
    }
  });
}

}  // namespace

void plain_gather(std::span<const float> rows, std::size_t dim, std::span<const std::int64_t> ids, std::span<float> out,
                  GatherStores stores, FetchAhead ahead) {
  if (dim == 0 || rows.size() % dim != 0) {
    throw std::invalid_argument("rows has " + std::to_string(rows.size()) +
                                " floats, which is no whole number of rows of " + std::to_string(dim) +
                                "; pass a contiguous [rows, dim] array with dim > 0");
  }
  if (out.size() != ids.size() * dim) {
    throw std::invalid_argument("out has " + std::to_string(out.size()) + " floats, but " + std::to_string(ids.size()) +
                                " ids of " + std::to_string(dim) + " floats need " + std::to_string(ids.size() * dim));
  }
  check_ids(ids, rows.size() / dim);
  const Gather gather{rows.data(), dim, ids.data(), out.data(), ahead == FetchAhead::kFar ? kFarRows : kNearRows};
  const GatherRange range = choose(dim, out.data(), stores);
  for_each_range(ids.size(), [&](std::size_t begin, std::size_t end) { range(gather, begin, end); });
}

}  // namespace monolith
