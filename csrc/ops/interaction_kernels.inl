// Included by interaction_scalar.cpp, interaction_avx2.cpp and interaction_avx512.cpp, each of which defines
// MONOLITH_SIMD. No templates of the standard library here: the linker keeps one copy of each, and it might keep the
// AVX-512 one.
#include "ops/interaction_kernels.h"

namespace monolith::MONOLITH_SIMD {
namespace {

typedef float Lanes __attribute__((vector_size(kPairLanes * sizeof(float)), aligned(alignof(float)), may_alias));

// sum[d] = sum over the rows of an event; kDim is the width of a row, or 0 for any.
template <std::size_t kDim>
void sum_rows(const float* __restrict rows, std::size_t count, std::size_t any_dim, float* __restrict sum) {
  const std::size_t dim = kDim == 0 ? any_dim : kDim;
  for (std::size_t d = 0; d < dim; ++d) sum[d] = 0;
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t d = 0; d < dim; ++d) sum[d] += rows[row * dim + d];
  }
}

// Half of (square of the sum less sum of the squares).
template <std::size_t kDim>
void pair_sums(const EventRows& events, std::size_t first, std::size_t last, float* __restrict scratch, float* out) {
  const std::size_t dim = kDim == 0 ? events.dim : kDim;
  float* __restrict sum = scratch;
  float* __restrict squares = scratch + dim;
  for (std::size_t event = first; event < last; ++event) {
    const float* __restrict rows = events.rows + event * events.count * dim;
    sum_rows<kDim>(rows, events.count, dim, sum);
    for (std::size_t d = 0; d < dim; ++d) squares[d] = 0;
    for (std::size_t row = 0; row < events.count; ++row) {
      for (std::size_t d = 0; d < dim; ++d) squares[d] += rows[row * dim + d] * rows[row * dim + d];
    }
    float total = 0;
    for (std::size_t d = 0; d < dim; ++d) total += sum[d] * sum[d] - squares[d];
    out[event] = 0.5F * total;
  }
}

// A row's gradient is the sum of the others.
template <std::size_t kDim>
void pair_sums_grad(const EventRows& events, std::size_t first, std::size_t last, const float* grad,
                    float* __restrict scratch, float* grad_rows) {
  const std::size_t dim = kDim == 0 ? events.dim : kDim;
  for (std::size_t event = first; event < last; ++event) {
    const float* __restrict rows = events.rows + event * events.count * dim;
    float* __restrict out = grad_rows + event * events.count * dim;
    sum_rows<kDim>(rows, events.count, dim, scratch);
    const float weight = grad[event];
    for (std::size_t row = 0; row < events.count; ++row) {
      for (std::size_t d = 0; d < dim; ++d) out[row * dim + d] = weight * (scratch[d] - rows[row * dim + d]);
    }
  }
}

// With the rows of an event on their side, eight products are made at once and nothing need be added across lanes.
template <std::size_t kDim>
void pair_products(const EventRows& events, std::size_t first, std::size_t last, float* __restrict scratch,
                   float* out) {
  const std::size_t dim = kDim == 0 ? events.dim : kDim;
  const std::size_t count = events.count;
  const std::size_t stride = (count + kPairLanes - 1) / kPairLanes * kPairLanes;
  float* __restrict columns = scratch;
  float* __restrict products = scratch + dim * stride;
  for (std::size_t i = 0; i < dim * stride; ++i) columns[i] = 0;
  for (std::size_t event = first; event < last; ++event) {
    const float* __restrict rows = events.rows + event * count * dim;
    for (std::size_t row = 0; row < count; ++row) {
      for (std::size_t d = 0; d < dim; ++d) columns[d * stride + row] = rows[row * dim + d];
    }
    float* __restrict to = out + event * (count * (count - 1) / 2);
    for (std::size_t left = 0; left + 1 < count; ++left) {
      const float* __restrict row = rows + left * dim;
      for (std::size_t begin = (left + 1) / kPairLanes * kPairLanes; begin < count; begin += kPairLanes) {
        Lanes sums = {};
        for (std::size_t d = 0; d < dim; ++d) {
          sums += row[d] * *reinterpret_cast<const Lanes*>(columns + d * stride + begin);
        }
        *reinterpret_cast<Lanes*>(products + begin) = sums;
      }
      __builtin_memcpy(to, products + left + 1, (count - left - 1) * sizeof(float));
      to += count - left - 1;
    }
  }
}

// to[] = the sum of weight * row over the other rows of an event. The pair (other, row) of a smaller `other` is
// `count - 2 - other` places behind the one before.
template <std::size_t kDim>
void add_others(const float* __restrict rows, const float* __restrict weights, std::size_t count, std::size_t row,
                float* __restrict to) {
  constexpr std::size_t kVectors = kDim / kPairLanes;
  Lanes sums[kVectors] = {};
  const auto add = [&](std::size_t other, float weight) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[v] += weight * *reinterpret_cast<const Lanes*>(rows + other * kDim + v * kPairLanes);
    }
  };
  std::size_t pair = row - 1;
  for (std::size_t other = 0; other < row; ++other) {
    add(other, weights[pair]);
    pair += count - 2 - other;
  }
  pair = row * count - row * (row + 1) / 2;
  for (std::size_t other = row + 1; other < count; ++other) add(other, weights[pair++]);
  for (std::size_t v = 0; v < kVectors; ++v) *reinterpret_cast<Lanes*>(to + v * kPairLanes) = sums[v];
}

void add_others_any(const float* __restrict rows, const float* __restrict weights, std::size_t count, std::size_t dim,
                    std::size_t row, float* __restrict to) {
  const auto add = [&](std::size_t other, float weight) {
    for (std::size_t d = 0; d < dim; ++d) to[d] += weight * rows[other * dim + d];
  };
  for (std::size_t d = 0; d < dim; ++d) to[d] = 0;
  std::size_t pair = row - 1;
  for (std::size_t other = 0; other < row; ++other) {
    add(other, weights[pair]);
    pair += count - 2 - other;
  }
  pair = row * count - row * (row + 1) / 2;
  for (std::size_t other = row + 1; other < count; ++other) add(other, weights[pair++]);
}

template <std::size_t kDim>
void pair_products_grad(const EventRows& events, std::size_t first, std::size_t last, const float* grad,
                        float* grad_rows) {
  const std::size_t dim = kDim == 0 ? events.dim : kDim;
  const std::size_t count = events.count;
  for (std::size_t event = first; event < last; ++event) {
    const float* __restrict rows = events.rows + event * count * dim;
    const float* __restrict weights = grad + event * (count * (count - 1) / 2);
    float* __restrict out = grad_rows + event * count * dim;
    for (std::size_t row = 0; row < count; ++row) {
      if constexpr (kDim == 0) {
        add_others_any(rows, weights, count, dim, row, out + row * dim);
      } else {
        add_others<kDim>(rows, weights, count, row, out + row * dim);
      }
    }
  }
}

}  // namespace

// Usual widths get loops of their own, whose sums stay in registers.
InteractionKernels interaction_kernels(std::size_t dim) {
  switch (dim) {
    case 8:
      return {pair_sums<8>, pair_sums_grad<8>, pair_products<8>, pair_products_grad<8>};
    case 16:
      return {pair_sums<16>, pair_sums_grad<16>, pair_products<16>, pair_products_grad<16>};
    case 32:
      return {pair_sums<32>, pair_sums_grad<32>, pair_products<32>, pair_products_grad<32>};
    default:
      return {pair_sums<0>, pair_sums_grad<0>, pair_products<0>, pair_products_grad<0>};
  }
}

}  // namespace monolith::MONOLITH_SIMD
