#include "table/batch_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "ops/parallel_for.h"
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

// Fewer ids than this are not worth a second thread.
constexpr std::size_t kPartIds = 16384;

constexpr std::size_t kPooledPlans = 16;
std::mutex pool_mutex;
// Never destroyed: plans may be dropped by Python after static destructors ran.
std::vector<BatchPlan*>& pool = *new std::vector<BatchPlan*>;

}  // namespace

void BatchPlan::build(std::span<const std::int64_t> ids, bool merge_repeated) {
  if (ids.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument("a batch holds at most 4294967294 ids, got " + std::to_string(ids.size()));
  }
  merged_ = merge_repeated;
  rows_known_ = false;
  sort_by_sub_table(ids);
  if (merged_) {
    merge();
  } else {
    std::swap(hashes_, sorted_hashes_);
    std::swap(positions_, sorted_positions_);
  }
  found_.resize(hashes_.size());
}

// A stable counting sort, so occurrences of an id stay in order; each thread sorts a stretch of the batch.
void BatchPlan::sort_by_sub_table(std::span<const std::int64_t> ids) {
  const std::size_t num_parts =
      std::clamp<std::size_t>(ids.size() / kPartIds, 1, static_cast<std::size_t>(num_threads()));
  const auto part_begin = [&](std::size_t part) { return ids.size() * part / num_parts; };
  std::vector<std::array<std::uint32_t, kNumSubTables>> next(num_parts);
  parallel_for(num_parts, [&](std::size_t part) {
    next[part].fill(0);
    for (std::size_t i = part_begin(part); i < part_begin(part + 1); ++i) {
      ++next[part][sub_table_of_hash(hash_id(ids[i]))];
    }
  });
  sub_table_begins_.resize(kNumSubTables + 1);
  std::uint32_t begin = 0;
  for (std::size_t sub_table = 0; sub_table < kNumSubTables; ++sub_table) {
    sub_table_begins_[sub_table] = begin;
    for (auto& counts : next) begin += std::exchange(counts[sub_table], begin);
  }
  sub_table_begins_[kNumSubTables] = begin;
  sorted_hashes_.resize(ids.size());
  sorted_positions_.resize(ids.size());
  parallel_for(num_parts, [&](std::size_t part) {
    for (std::size_t i = part_begin(part); i < part_begin(part + 1); ++i) {
      const std::uint64_t hash = hash_id(ids[i]);
      const std::uint32_t place = next[part][sub_table_of_hash(hash)]++;
      sorted_hashes_[place] = hash;
      sorted_positions_[place] = static_cast<std::uint32_t>(i);
    }
  });
}

void BatchPlan::merge() {
  const std::size_t num_ids = sorted_hashes_.size();
  hashes_.resize(num_ids);
  positions_.resize(num_ids);
  begins_.resize(num_ids + 1);
  // Sub-tables are merged apart, each leaving its groups where its ids begin; then the gaps are closed.
  constexpr std::size_t kTasks = 16;
  static_assert(kNumSubTables % kTasks == 0);
  std::array<std::size_t, kTasks> num_groups{};
  const auto first_of = [](std::size_t task) { return task * (kNumSubTables / kTasks); };
  const auto merge_task = [&](std::size_t task) {
    num_groups[task] = merge_sub_tables(first_of(task), first_of(task + 1));
  };
  if (num_ids < kPartIds) {
    for (std::size_t task = 0; task < kTasks; ++task) merge_task(task);
  } else {
    parallel_for(kTasks, merge_task);
  }
  std::size_t end = 0;
  for (std::size_t task = 0; task < kTasks; ++task) {
    const std::size_t from = sub_table_begins_[first_of(task)];
    if (from != end) {
      std::memmove(hashes_.data() + end, hashes_.data() + from, num_groups[task] * sizeof(std::uint64_t));
      std::memmove(begins_.data() + end, begins_.data() + from, num_groups[task] * sizeof(std::uint32_t));
    }
    end += num_groups[task];
  }
  hashes_.resize(end);
  begins_.resize(end + 1);
  begins_[end] = static_cast<std::uint32_t>(num_ids);
}

// Groups the ids of sub-tables first..last - 1; returns how many groups there are.
std::size_t BatchPlan::merge_sub_tables(std::size_t first, std::size_t last) {
  thread_local Grouper grouper;
  thread_local std::vector<std::uint32_t> group;
  thread_local std::vector<std::uint32_t> ends;
  const std::size_t groups_begin = sub_table_begins_[first];
  std::size_t groups_end = groups_begin;
  for (std::size_t sub_table = first; sub_table < last; ++sub_table) {
    const std::size_t begin = sub_table_begins_[sub_table];
    const std::size_t count = sub_table_begins_[sub_table + 1] - begin;
    if (count == 0) continue;
    grouper.reset(count);
    group.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      group[i] = grouper.group_of(sorted_hashes_[begin + i], hashes_.data() + groups_end);
    }
    ends.assign(grouper.num_groups(), 0);
    for (std::size_t i = 0; i < count; ++i) ++ends[group[i]];
    auto next = static_cast<std::uint32_t>(begin);
    for (std::size_t g = 0; g < ends.size(); ++g) {
      begins_[groups_end + g] = next;
      next += std::exchange(ends[g], next);
    }
    for (std::size_t i = 0; i < count; ++i) positions_[ends[group[i]]++] = sorted_positions_[begin + i];
    groups_end += grouper.num_groups();
  }
  return groups_end - groups_begin;
}

std::int64_t BatchPlan::id_at(std::size_t position) const {
  std::size_t g = 0;
  while (std::ranges::find(positions(g), position) == positions(g).end()) ++g;
  return id_of_hash(hashes_[g]);
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
  for (std::size_t g = 0; g < num_groups(); ++g) out[g] = static_cast<std::int32_t>(positions(g).size());
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
