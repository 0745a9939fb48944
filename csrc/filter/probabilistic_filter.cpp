#include "filter/probabilistic_filter.h"

#include <cmath>

#include "filter/mix.h"

namespace monolith {

ProbabilisticFilter::ProbabilisticFilter(bool equal_probability, std::uint64_t seed)
    : equal_probability_(equal_probability), key_(mix64(seed)) {}

std::uint32_t ProbabilisticFilter::draw() {
  const std::uint64_t n = num_draws_.fetch_add(1, std::memory_order_relaxed);
  return static_cast<std::uint32_t>(mix64(key_ ^ mix64(n)) >> 32);
}

bool ProbabilisticFilter::should_be_filtered(std::int64_t, std::uint32_t count, std::uint32_t threshold) {
  if (threshold == 0) return false;
  constexpr std::uint64_t kMaxDraw = 0xFFFFFFFFULL;
  if (equal_probability_) {
    const double admitted = 1.0 - std::pow(0.05, static_cast<double>(count) / threshold);
    return draw() >= admitted * 4294967296.0;
  }
  return std::uint64_t{draw()} * threshold >= kMaxDraw * count && count < threshold;
}

}  // namespace monolith
