#include "table/batch_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "table/id_hash.h"

namespace monolith {

namespace {

// Groups equal hashes of one sub-table; a scratch hash set that fits the first cache for usual batches.
class Grouper {
 public:
  // Returns the group of `hash`, new or known; groups count from 0.
  void reset(std::size_t items) {
    const std::size_t wanted = std::bit_ceil(std::max<std::size_t>(16, items * 2));
    if (slots_.size() < wanted) slots_.resize(wanted);
    std::fill_n(slots_.begin(), wanted, 0U);
    mask_ = wanted - 1;
  }

  std::uint32_t group_of(std::uint64_t hash, std::vector<std::uint64_t>& groups, std::size_t first_group) {
    for (std::size_t slot = (hash >> 20) & mask_;; slot = (slot + 1) & mask_) {
      const std::uint32_t known = slots_[slot];
      if (known == 0) {
        groups.push_back(hash);
        slots_[slot] = static_cast<std::uint32_t>(groups.size() - first_group);
        return slots_[slot] - 1;
      }
      if (groups[first_group + known - 1] == hash) return known - 1;
    }
  }

 private:
  std::vector<std::uint32_t> slots_;
  std::size_t mask_ = 0;
};

}  // namespace

BatchPlan::BatchPlan(std::span<const std::int64_t> ids, bool merge_repeated) {
  if (ids.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument("a batch holds at most 4294967294 ids, got " + std::to_string(ids.size()));
  }
  // A counting sort by sub-table: stable, so occurrences of an id stay in order.
  std::array<std::uint32_t, kNumSubTables + 1> begins{};
  for (const std::int64_t id : ids) ++begins[sub_table_of_hash(hash_id(id)) + 1];
  for (std::size_t i = 0; i < kNumSubTables; ++i) begins[i + 1] += begins[i];
  const auto items = std::make_unique_for_overwrite<Item[]>(ids.size());
  std::array<std::uint32_t, kNumSubTables> next;
  std::copy_n(begins.begin(), kNumSubTables, next.begin());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint64_t hash = hash_id(ids[i]);
    items[next[sub_table_of_hash(hash)]++] = {hash, static_cast<std::uint32_t>(i)};
  }
  if (merge_repeated) {
    merge({items.get(), ids.size()});
    return;
  }
  hashes_.resize(ids.size());
  positions_.resize(ids.size());
  begins_.resize(ids.size() + 1);
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    hashes_[i] = items[i].hash;
    positions_[i] = items[i].position;
    begins_[i] = i;
  }
  begins_[ids.size()] = static_cast<std::uint32_t>(ids.size());
}

void BatchPlan::merge(std::span<const Item> items) {
  hashes_.reserve(items.size());
  begins_.reserve(items.size() + 1);
  positions_.resize(items.size());
  Grouper grouper;
  std::vector<std::uint32_t> group;
  std::vector<std::uint32_t> ends;
  for (std::size_t first = 0; first < items.size();) {
    std::size_t last = first;
    const std::uint32_t sub_table = sub_table_of_hash(items[first].hash);
    while (last < items.size() && sub_table_of_hash(items[last].hash) == sub_table) ++last;
    const std::size_t first_group = hashes_.size();
    grouper.reset(last - first);
    group.resize(last - first);
    for (std::size_t i = first; i < last; ++i) {
      group[i - first] = grouper.group_of(items[i].hash, hashes_, first_group);
    }
    ends.assign(hashes_.size() - first_group, 0);
    for (const std::uint32_t g : group) ++ends[g];
    auto begin = static_cast<std::uint32_t>(first);
    for (std::uint32_t& end : ends) {
      begins_.push_back(begin);
      begin += end;
      end = begins_.back();
    }
    for (std::size_t i = first; i < last; ++i) positions_[ends[group[i - first]]++] = items[i].position;
    first = last;
  }
  begins_.push_back(static_cast<std::uint32_t>(items.size()));
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

}  // namespace monolith
