// Products of the rows of an event with each other: what a factorization machine and DLRM make of them, and the
// gradients. One pass over the rows each way, without the arrays in between that elementwise operations would write.
//
// `rows` is [events, count, dim], row-major. Sums have a fixed order: the same bits for every instruction set and any
// number of threads.
#pragma once

#include <cstddef>
#include <span>

namespace monolith {

struct EventRows {
  const float* rows;
  std::size_t num_events;
  std::size_t count;
  std::size_t dim;
};

// out[e] = the sum of the dot products of all pairs of different rows of event e.
void pair_sums(const EventRows& events, std::span<float> out);
void pair_sums_grad(const EventRows& events, std::span<const float> grad, std::span<float> grad_rows);

// out[e] = the dot products themselves, count * (count - 1) / 2: (0, 1), (0, 2), ..., (1, 2), ...
void pair_products(const EventRows& events, std::span<float> out);
void pair_products_grad(const EventRows& events, std::span<const float> grad, std::span<float> grad_rows);

}  // namespace monolith
