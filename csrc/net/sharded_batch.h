// The client's side of a batch: which table server has which ids, and where their rows stand in the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "table/batch_plan.h"

namespace monolith::net {

class ShardedBatch {
 public:
  // What goes to one table server: the ids of table 0, then of table 1, and so on.
  struct Part {
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> sizes;    // ids per table
    std::vector<std::uint32_t> counts;  // how often each id occurs in the batch
    std::vector<std::uint32_t> groups;  // of each id, in the plan of its table
    std::size_t num_floats = 0;
  };

  // Routes `ids`, `sizes[t]` of them for table t, whose rows have `dims[t]` floats. With `merge_repeated`, every id
  // goes out once per table, otherwise as often as it occurs. Parts have the order of first occurrence.
  ShardedBatch(std::vector<std::size_t> dims, std::size_t num_shards, std::span<const std::int64_t> ids,
               std::span<const std::int64_t> sizes, bool merge_repeated);

  ShardedBatch(const ShardedBatch&) = delete;
  ShardedBatch& operator=(const ShardedBatch&) = delete;

  std::size_t num_shards() const { return parts_.size(); }
  std::size_t num_tables() const { return dims_.size(); }
  std::size_t num_ids() const { return num_ids_; }
  std::size_t num_unique() const;
  std::size_t num_floats() const { return num_floats_; }  // of one row per id of the batch, all tables
  std::size_t dim(std::size_t table) const { return dims_[table]; }
  const Part& part(std::size_t shard) const { return parts_[shard]; }

  // The rows of a table in the batch, if a part has them as they stand there: all ids differ, and one server has them
  // all.
  template <typename Float>
  Float* in_place(std::size_t table, Float* batch) const {
    const bool is_same = parts_.size() == 1 && plans_[table]->num_groups() == plans_[table]->num_ids();
    return is_same ? batch + first_float_[table] : nullptr;
  }

  // Writes `count` rows of one table, from `first_row` of the part's rows of that table on, to their places in the
  // batch.
  void scatter(std::size_t shard, std::size_t table, std::size_t first_row, std::size_t count, const float* rows,
               float* batch) const;

  // The opposite: each of the part's rows is the sum of its id's rows in the batch, added up in the order of the batch.
  void gather_sums(std::size_t shard, std::size_t table, std::size_t first_row, std::size_t count, const float* batch,
                   float* rows) const;

 private:
  void route(std::size_t table, std::vector<std::uint32_t>& group_at);
  const std::uint32_t* groups_of(std::size_t shard, std::size_t table) const;

  std::vector<std::size_t> dims_;
  std::vector<PooledPlan> plans_;
  std::vector<std::size_t> first_float_;  // of each table, in the batch
  std::vector<Part> parts_;
  std::size_t num_ids_ = 0;
  std::size_t num_floats_ = 0;
};

}  // namespace monolith::net
