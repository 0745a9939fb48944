// Admission by chance: no memory, and an id that comes often gets its row soon.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "filter/admission_filter.h"

namespace monolith {

// A sighting is admitted with probability
//   count / threshold                     unequal mode, at most 1
//   1 - 0.05^(count / threshold)          equal mode: 95 % are in after `threshold` sightings, however they are batched
// Draw number n depends on the seed and n alone, so a run that restores num_draws goes on exactly.
class ProbabilisticFilter final : public AdmissionFilter {
 public:
  explicit ProbabilisticFilter(bool equal_probability = false, std::uint64_t seed = 0);

  bool should_be_filtered(std::int64_t id, std::uint32_t count, std::uint32_t threshold) override;

  // Without a table every id looks new each time, and a drawn answer would be noise.
  bool decides_without_table() const override { return false; }

  bool equal_probability() const { return equal_probability_; }
  std::uint64_t num_draws() const { return num_draws_.load(std::memory_order_relaxed); }
  void set_num_draws(std::uint64_t num_draws) { num_draws_.store(num_draws, std::memory_order_relaxed); }

  // There are no files: num_draws is all it remembers.
  void save(const std::string&) override {}
  void restore(const std::string&) override {}

 private:
  std::uint32_t draw();

  bool equal_probability_;
  std::uint64_t key_;
  std::atomic<std::uint64_t> num_draws_{0};
};

}  // namespace monolith
