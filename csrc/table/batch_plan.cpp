#include "table/batch_plan.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "ops/parallel_for.h"
#include "table/id_hash.h"

namespace monolith {

namespace {

// Fewer ids than this are not worth a second thread.
constexpr std::size_t kFewIds = 32768;

// Where a hash goes differs from process to process: nobody can make ids that all go to one place. What the set finds
// does not depend on it.
std::uint64_t scatter(std::uint64_t hash) {
  static const std::uint64_t factor = (std::uint64_t{std::random_device{}()} << 32 | std::random_device{}()) | 1;
  return hash * factor;
}

// Which of `num_shares` equal shares of all hashes one is in; says little about where in a set it goes.
std::uint64_t share_of(std::uint64_t hash, std::size_t num_shares) {
  const std::uint64_t scattered = scatter(hash);
  return ((scattered ^ scattered >> 32) & 0xFFFFFFFF) * num_shares >> 32;
}

// The first position of every id seen so far; open addressing, so that a usual batch stays in the first caches.
class FirstPositions {
 public:
  void reset(std::size_t expected_ids) {
    resize(std::bit_ceil(std::max<std::size_t>(16, 2 * expected_ids)));
    count_ = 0;
  }

  // Returns the first position of the id at `position`, which is `position` itself if the id is new.
  std::uint32_t first_of(std::uint32_t position, const std::uint64_t* hashes) {
    const std::uint64_t hash = hashes[position];
    for (std::size_t slot = slot_of(hash);; slot = (slot + 1) & mask_) {
      const std::uint32_t known = slots_[slot];
      if (known == kNoPosition) {
        slots_[slot] = position;
        if (++count_ * 4 > mask_ * 3) [[unlikely]]
          grow(hashes);
        return position;
      }
      if (hashes[known] == hash) return known;
    }
  }

 private:
  std::size_t slot_of(std::uint64_t hash) const { return scatter(hash) >> shift_; }

  void resize(std::size_t num_slots) {
    if (slots_.size() < num_slots) slots_.resize(num_slots);
    std::fill_n(slots_.begin(), num_slots, kNoPosition);
    mask_ = num_slots - 1;
    shift_ = 64 - std::countr_zero(num_slots);
  }

  // Only where a part of a batch has more different ids than its share.
  void grow(const std::uint64_t* hashes) {
    const std::vector<std::uint32_t> old(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(mask_ + 1));
    resize(2 * old.size());
    for (const std::uint32_t position : old) {
      if (position == kNoPosition) continue;
      std::size_t slot = slot_of(hashes[position]);
      while (slots_[slot] != kNoPosition) slot = (slot + 1) & mask_;
      slots_[slot] = position;
    }
  }

  std::vector<std::uint32_t> slots_;
  std::size_t mask_ = 0;
  int shift_ = 64;
  std::size_t count_ = 0;
};

constexpr std::size_t kPooledBytes = std::size_t{64} << 20;
std::mutex pool_mutex;
// Never destroyed: plans may be dropped by Python after static destructors ran.
std::vector<BatchPlan*>& pool = *new std::vector<BatchPlan*>;
std::size_t pool_bytes = 0;

}  // namespace

void BatchPlan::build(std::span<const std::int64_t> ids, bool merge_repeated) {
  if (ids.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument("a batch holds at most 4294967294 ids, got " + std::to_string(ids.size()));
  }
  merged_ = merge_repeated;
  rows_known_ = false;
  num_ids_ = ids.size();
  fit(num_ids_);
  const std::size_t num_parts = (num_ids_ + kFewIds - 1) / kFewIds;
  parallel_for(num_parts, [&](std::size_t part) {
    const std::size_t end = num_ids_ * (part + 1) / num_parts;
    for (std::size_t i = num_ids_ * part / num_parts; i < end; ++i) hashes_[i] = hash_id(ids[i]);
  });
  if (merged_) {
    merge();
  } else {
    num_groups_ = num_ids_;
  }
}

void BatchPlan::fit(std::size_t num_ids) {
  if (hashes_.size() < num_ids) {
    hashes_.resize(num_ids);
    found_.resize(num_ids);
  }
  if (merged_ && nexts_.size() < num_ids) {
    nexts_.resize(num_ids);
    lasts_.resize(num_ids);
    group_hashes_.resize(num_ids);
    firsts_.resize(num_ids);
  }
}

void BatchPlan::merge() {
  const std::size_t num_parts =
      std::min<std::size_t>((num_ids_ + kFewIds - 1) / kFewIds, static_cast<std::size_t>(num_threads()));
  if (num_parts <= 1) {
    num_groups_ = 0;
    link_repeated(
        num_ids_, [](std::uint64_t) { return true; },
        [this](std::uint32_t position) { add_group(num_groups_++, position); });
    return;
  }
  // Each thread goes through the whole batch, but takes care of a share of the hashes.
  parallel_for(num_parts, [&](std::size_t part) {
    link_repeated(
        num_ids_ / num_parts, [=](std::uint64_t hash) { return share_of(hash, num_parts) == part; },
        [](std::uint32_t) {});
  });
  number_groups();
}

template <typename IsMine, typename OnFirst>
void BatchPlan::link_repeated(std::size_t expected_ids, const IsMine& is_mine, const OnFirst& on_first) {
  thread_local FirstPositions first_positions;
  first_positions.reset(expected_ids);
  for (std::uint32_t i = 0; i < num_ids_; ++i) {
    if (!is_mine(hashes_[i])) continue;
    const std::uint32_t first = first_positions.first_of(i, hashes_.data());
    nexts_[i] = kNoPosition;
    if (first == i) {
      lasts_[i] = i;
      on_first(i);
    } else {
      nexts_[lasts_[first]] = i;
      lasts_[first] = i;
      lasts_[i] = kNoPosition;
    }
  }
}

void BatchPlan::number_groups() {
  const std::size_t num_parts = (num_ids_ + kFewIds - 1) / kFewIds;
  const auto begin_of = [&](std::size_t part) { return num_ids_ * part / num_parts; };
  std::vector<std::size_t> first_group(num_parts + 1, 0);
  parallel_for(num_parts, [&](std::size_t part) {
    std::size_t count = 0;
    for (std::size_t i = begin_of(part); i < begin_of(part + 1); ++i) count += lasts_[i] != kNoPosition;
    first_group[part + 1] = count;
  });
  for (std::size_t part = 0; part < num_parts; ++part) first_group[part + 1] += first_group[part];
  parallel_for(num_parts, [&](std::size_t part) {
    std::size_t g = first_group[part];
    for (std::size_t i = begin_of(part); i < begin_of(part + 1); ++i) {
      if (lasts_[i] != kNoPosition) add_group(g++, static_cast<std::uint32_t>(i));
    }
  });
  num_groups_ = first_group[num_parts];
}

std::size_t BatchPlan::bytes() const {
  return sizeof(BatchPlan) + hashes_.size() * (sizeof(std::uint64_t) + sizeof(FoundRow)) +
         nexts_.size() * (sizeof(std::uint64_t) + 3 * sizeof(std::uint32_t));
}

std::int64_t BatchPlan::id_at(std::size_t position) const { return id_of_hash(hashes_[position]); }

void BatchPlan::write_ids(std::span<std::int64_t> out) const {
  for (std::size_t g = 0; g < num_groups(); ++g) out[g] = id_of_hash(hashes()[g]);
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
  pool_bytes -= plan->bytes();
  return PooledPlan(plan);
}

void PlanReturner::operator()(BatchPlan* plan) const {
  {
    const std::lock_guard lock(pool_mutex);
    if (pool_bytes + plan->bytes() <= kPooledBytes) {
      pool.push_back(plan);
      pool_bytes += plan->bytes();
      return;
    }
  }
  delete plan;
}

}  // namespace monolith
