#include "net/sharded_batch.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "ops/parallel_for.h"
#include "table/hash_shard.h"

namespace monolith::net {

namespace {
constexpr std::uint32_t kNoGroup = ~0U;

// Fewer ids are grouped by one thread. Helpers gain little, and stay awake while the request is under way: on a small
// machine they keep a table server beside this process from its core.
constexpr std::size_t kManyIds = std::size_t{1} << 18;
}  // namespace

ShardedBatch::ShardedBatch(std::vector<std::size_t> dims, std::size_t num_shards, std::span<const std::int64_t> ids,
                           std::span<const std::int64_t> sizes, bool merge_repeated)
    : dims_(std::move(dims)) {
  std::optional<WorkAlone> alone;
  if (ids.size() < kManyIds) alone.emplace();
  check_num_shards(num_shards);
  if (sizes.size() != dims_.size()) {
    throw std::invalid_argument("sizes must have one number per table: got " + std::to_string(sizes.size()) + " for " +
                                std::to_string(dims_.size()) + " tables");
  }
  parts_.resize(num_shards);
  std::vector<std::uint32_t> group_at;
  for (std::size_t t = 0; t < dims_.size(); ++t) {
    if (sizes[t] < 0 || static_cast<std::size_t>(sizes[t]) > ids.size() - num_ids_) {
      throw std::invalid_argument("the sizes do not add up to the " + std::to_string(ids.size()) + " ids there are");
    }
    const auto size = static_cast<std::size_t>(sizes[t]);
    plans_.push_back(acquire_plan());
    plans_.back()->build(ids.subspan(num_ids_, size), merge_repeated);
    first_float_.push_back(num_floats_);
    num_ids_ += size;
    num_floats_ += size * dims_[t];
    route(t, group_at);
  }
  if (num_ids_ != ids.size()) {
    throw std::invalid_argument("the sizes add up to " + std::to_string(num_ids_) + " ids, got " +
                                std::to_string(ids.size()));
  }
}

void ShardedBatch::route(std::size_t table, std::vector<std::uint32_t>& group_at) {
  const BatchPlan& plan = *plans_[table];
  const auto num_shards = static_cast<std::uint32_t>(parts_.size());
  // In the order of the batch: rows then come back in the order in which they are written to it.
  group_at.assign(plan.num_ids(), kNoGroup);
  for (std::size_t g = 0; g < plan.num_groups(); ++g) group_at[plan.first_position(g)] = static_cast<std::uint32_t>(g);
  for (Part& part : parts_) {
    part.sizes.push_back(-static_cast<std::int64_t>(part.ids.size()));
    const std::size_t expected =
        part.ids.size() + plan.num_groups() / num_shards + plan.num_groups() / (8 * num_shards) + 16;
    part.ids.reserve(expected);
    part.groups.reserve(expected);
    part.counts.reserve(expected);
  }
  for (const std::uint32_t group : group_at) {
    if (group == kNoGroup) continue;
    const std::uint64_t hash = plan.hashes()[group];
    Part& part = parts_[num_shards == 1 ? 0 : shard_of_hash(hash, num_shards)];
    part.ids.push_back(id_of_hash(hash));
    part.groups.push_back(group);
    part.counts.push_back(static_cast<std::uint32_t>(plan.positions(group).size()));
  }
  for (Part& part : parts_) {
    part.sizes.back() += static_cast<std::int64_t>(part.ids.size());
    part.num_floats += static_cast<std::size_t>(part.sizes.back()) * dims_[table];
  }
}

std::size_t ShardedBatch::num_unique() const {
  std::size_t count = 0;
  for (const Part& part : parts_) count += part.ids.size();
  return count;
}

// Of the part's rows of a table.
const std::uint32_t* ShardedBatch::groups_of(std::size_t shard, std::size_t table) const {
  const Part& part = parts_[shard];
  std::size_t before = 0;
  for (std::size_t t = 0; t < table; ++t) before += static_cast<std::size_t>(part.sizes[t]);
  return part.groups.data() + before;
}

void ShardedBatch::scatter(std::size_t shard, std::size_t table, std::size_t first_row, std::size_t count,
                           const float* rows, float* batch) const {
  const std::uint32_t* const groups = groups_of(shard, table) + first_row;
  const std::size_t dim = dims_[table];
  float* const out = batch + first_float_[table];
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::uint32_t position : plans_[table]->positions(groups[i])) {
      std::memcpy(out + position * dim, rows + i * dim, dim * sizeof(float));
    }
  }
}

void ShardedBatch::gather_sums(std::size_t shard, std::size_t table, std::size_t first_row, std::size_t count,
                               const float* batch, float* rows) const {
  const std::uint32_t* const groups = groups_of(shard, table) + first_row;
  const std::size_t dim = dims_[table];
  const float* const from = batch + first_float_[table];
  for (std::size_t i = 0; i < count; ++i, rows += dim) {
    bool is_first = true;
    for (const std::uint32_t position : plans_[table]->positions(groups[i])) {
      const float* const one = from + position * dim;
      if (is_first) {
        std::memcpy(rows, one, dim * sizeof(float));
      } else {
        for (std::size_t d = 0; d < dim; ++d) rows[d] += one[d];
      }
      is_first = false;
    }
  }
}

}  // namespace monolith::net
