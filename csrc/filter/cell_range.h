// The cells of one split that concern the ids of one shard, to take a filter apart and to put it together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "filter/sliding_hash_filter.h"
#include "table/hash_shard.h"

namespace monolith {

// Ids start at cells `first` to `last` - 1, and own cells up to `end`: one that finds others' there goes on to the
// next.
class CellRange {
 public:
  using Split = SlidingHashFilter::Split;

  CellRange(const Split& split, HashShard shard)
      : first_(split.start_of_hash(shard.first_hash())),
        // Nobody starts at the cells at the very end: they belong to the last shard.
        last_(shard.index + 1 == shard.count ? split.cells().size() : split.start_of_hash(shard.last_hash()) + 1),
        end_(std::min(last_ + SlidingHashFilter::kMaxStep - 1, split.cells().size())) {}

  bool contains(std::size_t cell) const { return cell >= first_ && cell < end_; }

  // Copies those of `block`, which begins at cell `offset`, that lie in the range.
  void copy(std::span<const std::uint16_t> block, std::size_t offset, Split& to) const {
    const std::size_t first = std::max(first_, offset);
    const std::size_t end = std::min(end_, offset + block.size());
    if (first < end) std::ranges::copy(block.subspan(first - offset, end - first), &to.cells()[first]);
  }

  // Empties what was copied for nothing, since no id of the range gets there, and returns how many cells are in use.
  std::size_t cut(Split& split) const {
    const auto cells = split.cells();
    const auto behind = cells.subspan(last_, end_ - last_);
    std::fill(std::ranges::find(behind, 0), behind.end(), 0);
    const auto own = cells.subspan(first_, last_ - first_);
    return std::min<std::size_t>(own.size() - std::ranges::count(own, 0), split.capacity());
  }

 private:
  std::size_t first_;
  std::size_t last_;
  std::size_t end_;
};

}  // namespace monolith
