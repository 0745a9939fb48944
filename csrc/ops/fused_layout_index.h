// The index of a batch, checked and cut by feature. Only fused_layout.cpp needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/fused_layout.h"

namespace monolith {

// The samples of one feature.
struct FeatureRows {
  const std::int32_t* offsets = nullptr;  // `rows` starts in fid_offset, and the end
  std::size_t rows = 0;                   // the batch size; 1 if shared; 0 if the batch lacks the feature
  bool shared = false;

  std::size_t begin(std::size_t sample) const { return offsets[shared || rows == 0 ? 0 : sample]; }
  std::size_t end(std::size_t sample) const {
    return rows == 0 ? offsets[0] : static_cast<std::size_t>(offsets[shared ? 1 : sample + 1]);
  }
  std::size_t last_fid() const { return static_cast<std::size_t>(offsets[rows]); }  // exclusive
  std::size_t num_fids() const { return static_cast<std::size_t>(offsets[rows] - offsets[0]); }
};

// The floats of a block that the rows of a feature lie in: [first, last); empty if it has none there.
struct FloatRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

// Throws std::invalid_argument unless every row that the index names lies inside its block.
class CheckedIndex {
 public:
  // `for_writing` looks at where the features lie to each other, too; features_are_apart needs it.
  CheckedIndex(const FusedLayoutPlan& plan, const LayoutIndex& index, const std::vector<std::size_t>& block_sizes,
               bool for_writing);

  const FeatureRows& rows(std::size_t feature) const { return rows_[feature]; }
  // Whether different features never name the same float, as is so behind shard_fids.
  bool features_are_apart() const;
  // Whether the rows of the feature lie whole widths apart: two are the same or have no float in common.
  bool is_regular(std::size_t feature) const;

 private:
  void cut_by_feature(const LayoutIndex& index);
  void check_feature(const LayoutIndex& index, std::size_t feature, const std::vector<std::size_t>& block_sizes);
  void find_ranges(std::size_t feature);

  const FusedLayoutPlan& plan_;
  std::span<const std::uint64_t> fid_offset_;
  std::size_t num_ps_;
  std::vector<FeatureRows> rows_;
  std::vector<FloatRange> ranges_;  // [feature][server]
};

}  // namespace monolith
