#include "ops/interaction.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/interaction_kernels.h"
#include "ops/parallel_for.h"
#include "ops/simd.h"

namespace monolith {

namespace {

constexpr std::size_t kTaskEvents = 256;

InteractionKernels kernels(std::size_t dim) {
  switch (simd_level()) {
    case SimdLevel::kAvx512:
      return avx512::interaction_kernels(dim);
    case SimdLevel::kAvx2:
      return avx2::interaction_kernels(dim);
    default:
      return scalar::interaction_kernels(dim);
  }
}

// Calls task(first, last, scratch) for blocks of events.
template <typename Task>
void for_event_blocks(const EventRows& events, const Task& task) {
  parallel_for((events.num_events + kTaskEvents - 1) / kTaskEvents, [&](std::size_t number) {
    std::vector<float> scratch(interaction_scratch(events));
    const std::size_t first = number * kTaskEvents;
    task(first, std::min(events.num_events, first + kTaskEvents), scratch.data());
  });
}

void check_size(std::string_view what, std::size_t got, std::size_t expected) {
  if (got == expected) return;
  throw std::invalid_argument(std::string(what) + " must have " + std::to_string(expected) + " floats, got " +
                              std::to_string(got));
}

std::size_t num_floats(const EventRows& events) { return events.num_events * events.count * events.dim; }

std::size_t num_products(const EventRows& events) {
  return events.count == 0 ? 0 : events.num_events * (events.count * (events.count - 1) / 2);
}

}  // namespace

void pair_sums(const EventRows& events, std::span<float> out) {
  check_size("out", out.size(), events.num_events);
  const InteractionKernels kernel = kernels(events.dim);
  for_event_blocks(events, [&](std::size_t first, std::size_t last, float* scratch) {
    kernel.pair_sums(events, first, last, scratch, out.data());
  });
}

void pair_sums_grad(const EventRows& events, std::span<const float> grad, std::span<float> grad_rows) {
  check_size("grad", grad.size(), events.num_events);
  check_size("grad_rows", grad_rows.size(), num_floats(events));
  const InteractionKernels kernel = kernels(events.dim);
  for_event_blocks(events, [&](std::size_t first, std::size_t last, float* scratch) {
    kernel.pair_sums_grad(events, first, last, grad.data(), scratch, grad_rows.data());
  });
}

void pair_products(const EventRows& events, std::span<float> out) {
  check_size("out", out.size(), num_products(events));
  const InteractionKernels kernel = kernels(events.dim);
  for_event_blocks(events, [&](std::size_t first, std::size_t last, float* scratch) {
    kernel.pair_products(events, first, last, scratch, out.data());
  });
}

void pair_products_grad(const EventRows& events, std::span<const float> grad, std::span<float> grad_rows) {
  check_size("grad", grad.size(), num_products(events));
  check_size("grad_rows", grad_rows.size(), num_floats(events));
  const InteractionKernels kernel = kernels(events.dim);
  for_event_blocks(events, [&](std::size_t first, std::size_t last, float*) {
    kernel.pair_products_grad(events, first, last, grad.data(), grad_rows.data());
  });
}

}  // namespace monolith
