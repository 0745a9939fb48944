#include "ops/plain_train.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "ops/parallel_for.h"
#include "ops/simd.h"

namespace monolith {

namespace {

// How many rows ahead; a step fetches two parts of each.
struct Distances {
  std::size_t gather;
  std::size_t step;
};
constexpr Distances kNear{16, 12};
constexpr Distances kFar{64, 48};
constexpr std::size_t kLineFloats = 16;

struct Work {
  float* rows;
  std::size_t dim;
  const std::int64_t* ids;
  float* out;
  const float* gradients;
  float learning_rate;
  Distances ahead;
};

using Pass = void (*)(const Work&, std::size_t begin, std::size_t end);

// kDim: the width, known to the compiler, or 0 for any. Always inlined into a function for one instruction set.
template <std::size_t kDim>
[[gnu::always_inline]] inline void gather_rows(const Work& work, std::size_t begin, std::size_t end) {
  const std::size_t dim = kDim > 0 ? kDim : work.dim;
  const auto row = [&](std::size_t i) { return work.rows + static_cast<std::size_t>(work.ids[i]) * 2 * dim; };
  const std::size_t ahead = work.ahead.gather;
  for (std::size_t i = begin; i < end; ++i) {
    if (i + ahead < end) {
      for (std::size_t d = 0; d < dim; d += kLineFloats) __builtin_prefetch(row(i + ahead) + d);
    }
    const float* from = row(i);
    float* to = work.out + i * dim;
    for (std::size_t d = 0; d < dim; ++d) to[d] = from[d];
  }
}

template <std::size_t kDim>
[[gnu::always_inline]] inline void step_rows(const Work& work, std::size_t begin, std::size_t end) {
  const std::size_t dim = kDim > 0 ? kDim : work.dim;
  const auto row = [&](std::size_t i) { return work.rows + static_cast<std::size_t>(work.ids[i]) * 2 * dim; };
  const std::size_t ahead = work.ahead.step;
  for (std::size_t i = begin; i < end; ++i) {
    if (i + ahead < end) {
      for (std::size_t d = 0; d < 2 * dim; d += kLineFloats) __builtin_prefetch(row(i + ahead) + d, 1);
    }
    float* __restrict weights = row(i);
    float* __restrict state = weights + dim;
    const float* __restrict gradient = work.gradients + i * dim;
    for (std::size_t d = 0; d < dim; ++d) {
      state[d] += gradient[d] * gradient[d];
      weights[d] -= work.learning_rate / __builtin_sqrtf(state[d]) * gradient[d];
    }
  }
}

// Both passes for one instruction set.
#define MONOLITH_PLAIN_PASSES(NAME, TARGET)                                         \
  template <std::size_t kDim>                                                       \
  TARGET void gather_##NAME(const Work& work, std::size_t begin, std::size_t end) { \
    gather_rows<kDim>(work, begin, end);                                            \
  }                                                                                 \
  template <std::size_t kDim>                                                       \
  TARGET void step_##NAME(const Work& work, std::size_t begin, std::size_t end) {   \
    step_rows<kDim>(work, begin, end);                                              \
  }

MONOLITH_PLAIN_PASSES(scalar, )
#if defined(__x86_64__)
MONOLITH_PLAIN_PASSES(avx2, __attribute__((target("avx2"))))
MONOLITH_PLAIN_PASSES(avx512, __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512"))))
#endif
#undef MONOLITH_PLAIN_PASSES

struct Passes {
  Pass gather;
  Pass step;
};

template <std::size_t kDim>
Passes passes_for_level() {
#if defined(__x86_64__)
  if (simd_level() == SimdLevel::kAvx512) return {gather_avx512<kDim>, step_avx512<kDim>};
  if (simd_level() == SimdLevel::kAvx2) return {gather_avx2<kDim>, step_avx2<kDim>};
#endif
  return {gather_scalar<kDim>, step_scalar<kDim>};
}

Passes passes_for(std::size_t dim) {
  switch (dim) {
    case 16:
      return passes_for_level<16>();
    case 32:
      return passes_for_level<32>();
    case 64:
      return passes_for_level<64>();
    default:
      return passes_for_level<0>();
  }
}

void check(bool holds, const std::string& message) {
  if (!holds) throw std::invalid_argument(message);
}

}  // namespace

void plain_train(std::span<float> rows, std::size_t dim, std::span<const std::int64_t> ids, std::span<float> out,
                 std::span<const float> gradients, float learning_rate, std::size_t ids_per_task, FetchAhead ahead) {
  check(dim > 0 && rows.size() % (2 * dim) == 0, "rows has " + std::to_string(rows.size()) +
                                                     " floats, which is no whole number of rows of " +
                                                     std::to_string(2 * dim) + ": weights and as much state");
  check(out.size() == ids.size() * dim && gradients.size() == ids.size() * dim,
        "out and gradients must have " + std::to_string(ids.size() * dim) + " floats, " + std::to_string(dim) +
            " per id; they have " + std::to_string(out.size()) + " and " + std::to_string(gradients.size()));
  check(ids_per_task > 0, "ids_per_task is 0; give a thread at least one id at a time");
  const std::size_t num_rows = rows.size() / (2 * dim);
  const auto outside =
      std::ranges::find_if(ids, [&](std::int64_t id) { return static_cast<std::uint64_t>(id) >= num_rows; });
  check(outside == ids.end(), outside == ids.end()
                                  ? ""
                                  : "row number " + std::to_string(*outside) + " is outside the array of " +
                                        std::to_string(num_rows) + " rows");
  const Work work{rows.data(),
                  dim,
                  ids.data(),
                  out.data(),
                  gradients.data(),
                  learning_rate,
                  ahead == FetchAhead::kFar ? kFar : kNear};
  const Passes passes = passes_for(dim);
  for (const Pass pass : {passes.gather, passes.step}) {
    parallel_for((ids.size() + ids_per_task - 1) / ids_per_task, [&](std::size_t task) {
      pass(work, task * ids_per_task, std::min(ids.size(), (task + 1) * ids_per_task));
    });
  }
}

}  // namespace monolith
