// The ids of one batch, grouped for one table: by sub-table, and each id once.
//
// Computed once per batch and used forward and backward. The order is fixed by the ids alone, never by threads:
// groups are in order of sub-table, inside it in order of first occurrence; the positions of a group ascend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "table/id_index.h"

namespace monolith {

class BatchPlan {
 public:
  BatchPlan() = default;
  BatchPlan(std::span<const std::int64_t> ids, bool merge_repeated) { build(ids, merge_repeated); }

  // Groups `ids`. Without `merge_repeated`, every occurrence is a group of its own. Memory of an earlier build is used
  // again.
  void build(std::span<const std::int64_t> ids, bool merge_repeated);

  std::size_t num_ids() const { return positions_.size(); }
  std::size_t num_groups() const { return hashes_.size(); }

  bool is_merged() const { return merged_; }

  // One hash a group.
  std::span<const std::uint64_t> hashes() const { return hashes_; }

  // Where in the batch group `g` occurs.
  std::span<const std::uint32_t> positions(std::size_t g) const {
    if (!merged_) return {positions_.data() + g, 1};
    return {positions_.data() + begins_[g], begins_[g + 1] - begins_[g]};
  }
  std::uint32_t first_position(std::size_t g) const { return positions_[merged_ ? begins_[g] : g]; }

  // The id at a place of the batch. It is searched for: meant for messages.
  std::int64_t id_at(std::size_t position) const;

  // unique id, inverse and count of groups, for callers that want them as arrays.
  void write_ids(std::span<std::int64_t> out) const;
  void write_inverse(std::span<std::int32_t> out) const;
  void write_counts(std::span<std::int32_t> out) const;

  // Rows found by an earlier pass over this plan, so that the next one need not search again, nor ask the sub-table
  // where its chunks are: that is a cache line of its own. Only good while the sub-table's erase_version is the one
  // noted beside it.
  struct FoundRow {
    std::byte* chunk = nullptr;
    std::uint32_t row = kNoRow;
    std::uint32_t erase_version = ~0U;
  };
  std::vector<FoundRow>& found() { return found_; }
  bool rows_are_known() const { return rows_known_; }
  void set_rows_known(bool known) { rows_known_ = known; }

  // How many times the table had erased rows when that pass began: if more since, ids it found may be gone.
  std::uint64_t erase_count() const { return erase_count_; }
  void set_erase_count(std::uint64_t count) { erase_count_ = count; }

 private:
  void sort_by_sub_table(std::span<const std::int64_t> ids);
  void merge();
  std::size_t merge_sub_tables(std::size_t first, std::size_t last);

  bool merged_ = false;
  bool rows_known_ = false;
  std::uint64_t erase_count_ = 0;
  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint32_t> begins_;  // merged: where a group's positions begin
  std::vector<std::uint32_t> positions_;
  std::vector<FoundRow> found_;
  std::vector<std::uint32_t> sub_table_begins_;  // in the sorted batch
  // Scratch of build.
  std::vector<std::uint64_t> sorted_hashes_;
  std::vector<std::uint32_t> sorted_positions_;
};

// A plan that goes back to a pool when dropped. Fresh memory for each batch would cost more in page faults than the
// grouping itself.
struct PlanReturner {
  void operator()(BatchPlan* plan) const;
};
using PooledPlan = std::unique_ptr<BatchPlan, PlanReturner>;
PooledPlan acquire_plan();

}  // namespace monolith
