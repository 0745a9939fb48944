// Many tables behind one call: the ids of table 0, then of table 1, and so on, flattened.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "table/row_table.h"

namespace monolith {

class MultiBatchPlan {
 public:
  // Groups `ids`, `sizes[t]` of them for table t. Throws std::invalid_argument if the sizes do not add up.
  MultiBatchPlan(std::vector<std::shared_ptr<RowTable>> tables, std::span<const std::int64_t> ids,
                 std::span<const std::int64_t> sizes, bool merge_repeated);
  // The last plan goes back first: a table's next batch gets the memory of this one, which the same thread has used.
  ~MultiBatchPlan();
  MultiBatchPlan(const MultiBatchPlan&) = delete;
  MultiBatchPlan& operator=(const MultiBatchPlan&) = delete;

  std::size_t num_tables() const { return tables_.size(); }
  std::size_t num_ids() const { return num_ids_; }
  std::size_t num_floats() const { return num_floats_; }  // of one row per id, all tables
  std::size_t num_groups() const;
  BatchPlan& plan(std::size_t table) { return *plans_[table]; }

  // The part of `values`, which has num_floats() floats, that belongs to one table.
  std::span<const float> values_of(std::size_t table, std::span<const float> values) const {
    return values.subspan(first_float_[table], plans_[table]->num_ids() * tables_[table]->dim());
  }

  // One row per id, table after table: num_floats() floats. Returns how many ids were found.
  std::size_t lookup(float* out);

  // Changes rows; `request.values` is laid out like lookup's output, `request.learning_rates` has the values of table
  // 0's segments, then table 1's, and so on. NotFiniteRow is thrown after all tables were changed.
  ChangeResult change(const ChangeRequest& request);

 private:
  std::size_t take_table(std::size_t first, std::vector<std::atomic<bool>>& is_taken) const;

  std::vector<std::shared_ptr<RowTable>> tables_;
  std::vector<PooledPlan> plans_;
  std::vector<std::size_t> first_float_;
  std::size_t num_ids_ = 0;
  std::size_t num_floats_ = 0;
};

}  // namespace monolith
