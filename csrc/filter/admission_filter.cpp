#include "filter/admission_filter.h"

#include <algorithm>
#include <stdexcept>

namespace monolith {

SlotThresholds::SlotThresholds(std::uint32_t default_threshold, const std::map<std::int64_t, std::uint32_t>& by_slot)
    : default_(default_threshold), max_(default_threshold) {
  if (by_slot.empty()) return;
  by_slot_.assign(kNumSlots, default_threshold);
  for (const auto& [slot, threshold] : by_slot) {
    if (slot < 0 || slot >= static_cast<std::int64_t>(kNumSlots)) {
      throw std::invalid_argument("occurrence threshold given for slot " + std::to_string(slot) + "; slots are 0 to " +
                                  std::to_string(kNumSlots - 1));
    }
    by_slot_[static_cast<std::size_t>(slot)] = threshold;
    max_ = std::max(max_, threshold);
  }
}

void check_thresholds(const AdmissionFilter& filter, const SlotThresholds& thresholds) {
  if (thresholds.max() <= filter.max_threshold()) return;
  throw std::invalid_argument(
      "occurrence threshold " + std::to_string(thresholds.max()) + " can never be passed: this filter counts up to " +
      std::to_string(filter.max_threshold()) + "; lower the threshold or use the probabilistic filter");
}

void filter_ids(AdmissionFilter& filter, const SlotThresholds& thresholds, std::span<const std::int64_t> ids,
                std::span<bool> filtered) {
  if (filtered.size() != ids.size()) throw std::invalid_argument("filtered must have one element per id");
  if (!filter.decides_without_table()) {
    std::fill(filtered.begin(), filtered.end(), false);
    return;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    filtered[i] = filter.should_be_filtered(ids[i], 1, thresholds.threshold(ids[i]));
  }
}

}  // namespace monolith
