#include "ops/fused_layout_index.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "ops/parallel_for.h"
#include "ops/shard_fids.h"

namespace monolith {

namespace {

// Ids for which a second thread is worth it.
constexpr std::size_t kIdsPerThread = 32768;

[[noreturn]] void fail(const std::string& problem) {
  throw std::invalid_argument(problem + "; pass what sharding_sparse_fids returned for this batch");
}

}  // namespace

void CheckedIndex::cut_by_feature(const LayoutIndex& index) {
  const std::size_t num_features = plan_.features().size();
  if (index.nfl_offset.size() != num_features + 1) {
    fail("nfl_offset must have one entry per feature and one more, " + std::to_string(num_features + 1) + ", got " +
         std::to_string(index.nfl_offset.size()));
  }
  if (index.nfl_offset.back() != index.feature_offset.size()) {
    fail("nfl_offset must end with the size of feature_offset, " + std::to_string(index.feature_offset.size()) +
         ", got " + std::to_string(index.nfl_offset.back()));
  }
  const auto& offsets = index.feature_offset;
  if (offsets.empty() || offsets.front() != 0 || !std::is_sorted(offsets.begin(), offsets.end()) ||
      static_cast<std::size_t>(offsets.back()) != index.fid_offset.size()) {
    fail("feature_offset must go up from 0 to the size of fid_offset, " + std::to_string(index.fid_offset.size()));
  }
  rows_.resize(num_features);
  const std::size_t num_rows = offsets.size() - 1;
  for (std::size_t f = 0; f < num_features; ++f) {
    const std::size_t first = index.nfl_offset[f] & ~kSharedFeature;
    const std::size_t last = f + 1 == num_features ? num_rows : index.nfl_offset[f + 1] & ~kSharedFeature;
    const bool shared = (index.nfl_offset[f] & kSharedFeature) != 0;
    const std::size_t expected = shared ? 1 : index.batch_size;
    if (first > last || last > num_rows || (f == 0 && first != 0)) fail("nfl_offset must go up from 0");
    if (last != first && last - first != expected) {
      fail("feature '" + plan_.features()[f].name + "' has " + std::to_string(last - first) + " rows, expected " +
           std::to_string(expected));
    }
    rows_[f] = {offsets.data() + first, last - first, shared};
  }
}

void CheckedIndex::check_feature(const LayoutIndex& index, std::size_t feature,
                                 const std::vector<std::size_t>& block_sizes) {
  const LayoutFeature& config = plan_.features()[feature];
  const auto dim = static_cast<std::uint64_t>(config.dim);
  const std::uint64_t first_block = static_cast<std::uint64_t>(config.table) * num_ps_;
  const std::size_t end = rows_[feature].last_fid();
  for (std::size_t k = rows_[feature].offsets[0]; k < end; ++k) {
    const std::uint64_t server = (index.fid_offset[k] >> 32) - first_block;
    const std::uint64_t offset = index.fid_offset[k] & 0xFFFFFFFFu;
    if (server >= num_ps_) {
      fail("an id of feature '" + config.name + "' names block " + std::to_string(index.fid_offset[k] >> 32) +
           ", which is not of its table");
    }
    if (offset + dim > block_sizes[first_block + server]) {
      fail("embeddings of block " + std::to_string(first_block + server) + " have " +
           std::to_string(block_sizes[first_block + server]) + " floats, but feature '" + config.name +
           "' has a row of " + std::to_string(dim) + " at " + std::to_string(offset));
    }
  }
}

void CheckedIndex::find_ranges(std::size_t feature) {
  const auto dim = static_cast<std::uint64_t>(plan_.features()[feature].dim);
  const std::uint64_t first_block = static_cast<std::uint64_t>(plan_.features()[feature].table) * num_ps_;
  FloatRange* const ranges = ranges_.data() + feature * num_ps_;
  for (std::size_t k = rows_[feature].offsets[0]; k < rows_[feature].last_fid(); ++k) {
    FloatRange& range = ranges[(fid_offset_[k] >> 32) - first_block];
    const std::uint64_t offset = fid_offset_[k] & 0xFFFFFFFFu;
    // Most rows lie inside the range of earlier rows: a branch that is not taken costs less than two stores.
    if (offset >= range.first && offset + dim <= range.last) [[likely]]
      continue;
    range.first = range.last == 0 ? offset : std::min(range.first, offset);
    range.last = std::max(range.last, offset + dim);
  }
}

CheckedIndex::CheckedIndex(const FusedLayoutPlan& plan, const LayoutIndex& index,
                           const std::vector<std::size_t>& block_sizes, bool for_writing)
    : plan_(plan),
      fid_offset_(index.fid_offset),
      num_ps_(plan.num_tables() == 0 ? 0 : block_sizes.size() / plan.num_tables()) {
  if (num_ps_ * plan.num_tables() != block_sizes.size() || (num_ps_ == 0 && plan.num_tables() > 0)) {
    throw std::invalid_argument("embeddings must be one tensor per table and server, for " +
                                std::to_string(plan.num_tables()) + " tables, got " +
                                std::to_string(block_sizes.size()));
  }
  cut_by_feature(index);
  if (for_writing) ranges_.resize(rows_.size() * num_ps_);
  const auto check = [&](std::size_t feature) {
    check_feature(index, feature, block_sizes);
    if (for_writing) find_ranges(feature);
  };
  if (index.fid_offset.size() < kIdsPerThread) {
    for (std::size_t f = 0; f < rows_.size(); ++f) check(f);
  } else {
    parallel_for(rows_.size(), check);
  }
}

bool CheckedIndex::features_are_apart() const {
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> by_block(num_ps_ * plan_.num_tables());
  for (std::size_t cell = 0; cell < ranges_.size(); ++cell) {
    if (ranges_[cell].last == 0) continue;
    const auto table = static_cast<std::size_t>(plan_.features()[cell / num_ps_].table);
    by_block[table * num_ps_ + cell % num_ps_].emplace_back(ranges_[cell].first, ranges_[cell].last);
  }
  for (auto& block : by_block) {
    std::sort(block.begin(), block.end());
    for (std::size_t i = 1; i < block.size(); ++i) {
      if (block[i].first < block[i - 1].second) return false;
    }
  }
  return true;
}

bool CheckedIndex::is_regular(std::size_t feature) const {
  const auto dim = static_cast<std::uint64_t>(plan_.features()[feature].dim);
  const std::uint64_t first_block = static_cast<std::uint64_t>(plan_.features()[feature].table) * num_ps_;
  for (std::size_t k = rows_[feature].offsets[0]; k < rows_[feature].last_fid(); ++k) {
    const std::uint64_t server = (fid_offset_[k] >> 32) - first_block;
    const std::uint64_t distance = (fid_offset_[k] & 0xFFFFFFFFu) - ranges_[feature * num_ps_ + server].first;
    if (distance % dim != 0) return false;
  }
  return true;
}

}  // namespace monolith
