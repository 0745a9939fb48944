#include "table/batch_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>

#include "table/id_hash.h"

namespace monolith {

namespace {

// Groups equal hashes of one sub-table; a scratch hash set that fits the first cache for usual batches.
class Grouper {
 public:
  void reset(std::size_t max_items) {
    const std::size_t wanted = std::bit_ceil(std::max<std::size_t>(16, max_items * 2));
    if (slots_.size() < wanted) slots_.resize(wanted);
    std::fill_n(slots_.begin(), wanted, 0U);
    mask_ = wanted - 1;
    num_groups_ = 0;
  }

  std::size_t num_groups() const { return num_groups_; }

  // Returns the group of `hash`, known or new; groups count from 0 and `hash_of_group` holds their hashes.
  std::uint32_t group_of(std::uint64_t hash, std::uint64_t* hash_of_group) {
    for (std::size_t slot = (hash >> 20) & mask_;; slot = (slot + 1) & mask_) {
      const std::uint32_t known = slots_[slot];
      if (known == 0) {
        hash_of_group[num_groups_] = hash;
        slots_[slot] = static_cast<std::uint32_t>(++num_groups_);
        return slots_[slot] - 1;
      }
      if (hash_of_group[known - 1] == hash) return known - 1;
    }
  }

 private:
  std::vector<std::uint32_t> slots_;
  std::size_t mask_ = 0;
  std::size_t num_groups_ = 0;
};

constexpr std::size_t kPooledPlans = 16;
std::mutex pool_mutex;
// Never destroyed: plans may be dropped by Python after static destructors ran.
std::vector<BatchPlan*>& pool = *new std::vector<BatchPlan*>;

}  // namespace

void BatchPlan::build(std::span<const std::int64_t> ids, bool merge_repeated) {
  if (ids.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument("a batch holds at most 4294967294 ids, got " + std::to_string(ids.size()));
  }
  // A counting sort by sub-table: stable, so occurrences of an id stay in order.
  std::array<std::uint32_t, kNumSubTables + 1> begins{};
  for (const std::int64_t id : ids) ++begins[sub_table_of_hash(hash_id(id)) + 1];
  for (std::size_t i = 0; i < kNumSubTables; ++i) begins[i + 1] += begins[i];
  items_.resize(ids.size());
  std::array<std::uint32_t, kNumSubTables> next;
  std::copy_n(begins.begin(), kNumSubTables, next.begin());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint64_t hash = hash_id(ids[i]);
    items_[next[sub_table_of_hash(hash)]++] = {hash, static_cast<std::uint32_t>(i)};
  }
  found_.resize(ids.size());
  rows_known_ = false;
  positions_.resize(ids.size());
  hashes_.resize(ids.size());
  begins_.resize(ids.size() + 1);
  if (merge_repeated) {
    merge();
    return;
  }
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    hashes_[i] = items_[i].hash;
    positions_[i] = items_[i].position;
    begins_[i] = i;
  }
  begins_[ids.size()] = static_cast<std::uint32_t>(ids.size());
}

void BatchPlan::merge() {
  thread_local Grouper grouper;
  thread_local std::vector<std::uint32_t> group;
  thread_local std::vector<std::uint32_t> ends;
  std::size_t num_groups = 0;
  for (std::size_t first = 0; first < items_.size();) {
    std::size_t last = first;
    const std::uint32_t sub_table = sub_table_of_hash(items_[first].hash);
    while (last < items_.size() && sub_table_of_hash(items_[last].hash) == sub_table) ++last;
    const std::size_t first_group = num_groups;
    grouper.reset(last - first);
    group.resize(last - first);
    for (std::size_t i = first; i < last; ++i) {
      group[i - first] = grouper.group_of(items_[i].hash, hashes_.data() + first_group);
    }
    num_groups += grouper.num_groups();
    ends.assign(grouper.num_groups(), 0);
    for (std::size_t i = 0; i < last - first; ++i) ++ends[group[i]];
    auto begin = static_cast<std::uint32_t>(first);
    for (std::size_t g = 0; g < ends.size(); ++g) {
      begins_[first_group + g] = begin;
      begin += ends[g];
      ends[g] = begins_[first_group + g];
    }
    for (std::size_t i = first; i < last; ++i) positions_[ends[group[i - first]]++] = items_[i].position;
    first = last;
  }
  begins_[num_groups] = static_cast<std::uint32_t>(items_.size());
  hashes_.resize(num_groups);
  begins_.resize(num_groups + 1);
  found_.resize(num_groups);
}

void BatchPlan::write_ids(std::span<std::int64_t> out) const {
  for (std::size_t g = 0; g < num_groups(); ++g) out[g] = id_of_hash(hashes_[g]);
}

void BatchPlan::write_inverse(std::span<std::int32_t> out) const {
  for (std::size_t g = 0; g < num_groups(); ++g) {
    for (const std::uint32_t position : positions(g)) out[position] = static_cast<std::int32_t>(g);
  }
}

void BatchPlan::write_counts(std::span<std::int32_t> out) const {
  for (std::size_t g = 0; g < num_groups(); ++g) out[g] = static_cast<std::int32_t>(begins_[g + 1] - begins_[g]);
}

PooledPlan acquire_plan() {
  const std::lock_guard lock(pool_mutex);
  if (pool.empty()) return PooledPlan(new BatchPlan);
  BatchPlan* plan = pool.back();
  pool.pop_back();
  return PooledPlan(plan);
}

void PlanReturner::operator()(BatchPlan* plan) const {
  {
    const std::lock_guard lock(pool_mutex);
    if (pool.size() < kPooledPlans) {
      pool.push_back(plan);
      return;
    }
  }
  delete plan;
}

}  // namespace monolith
