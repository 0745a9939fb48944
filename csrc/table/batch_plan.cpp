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

namespace monolith {

namespace {

// Fewer ids than this are not worth a second thread.
constexpr std::size_t kFewIds = 32768;

// About as many ids are in a thread's share at a time.
constexpr std::size_t kShareIds = 4096;

// Where a hash goes differs from process to process: nobody can make ids that all go to one place. What the set finds
// does not depend on it.
std::uint64_t scatter_factor() {
  static const std::uint64_t factor = (std::uint64_t{std::random_device{}()} << 32 | std::random_device{}()) | 1;
  return factor;
}

// Which of `num_shares` equal shares of all hashes one is in, a power of two; says little about where in a set it goes.
std::size_t share_of(std::uint64_t hash, std::uint64_t factor, std::size_t num_shares) {
  const std::uint64_t scattered = hash * factor;
  return (scattered >> 20 ^ scattered >> 36) & (num_shares - 1);
}

// The first place of every id seen so far; open addressing, so that a usual batch stays in the first caches.
class FirstPlaces {
 public:
  void reset(std::size_t expected_ids) {
    factor_ = scatter_factor();
    resize(std::bit_ceil(std::max<std::size_t>(16, 4 * expected_ids)));
    count_ = 0;
  }

  // Returns the first place of the id at `place`, which is `place` itself if the id is new.
  std::uint32_t first_of(std::uint32_t place, const std::uint64_t* hashes) {
    const std::uint64_t hash = hashes[place];
    for (std::size_t slot = slot_of(hash);; slot = (slot + 1) & mask_) {
      const std::uint32_t known = slots_[slot];
      if (known == kNoPosition) {
        slots_[slot] = place;
        if (++count_ * 4 > mask_ * 3) [[unlikely]]
          grow(hashes);
        return place;
      }
      if (hashes[known] == hash) return known;
    }
  }

 private:
  std::size_t slot_of(std::uint64_t hash) const { return hash * factor_ >> shift_; }

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
    for (const std::uint32_t place : old) {
      if (place == kNoPosition) continue;
      std::size_t slot = slot_of(hashes[place]);
      while (slots_[slot] != kNoPosition) slot = (slot + 1) & mask_;
      slots_[slot] = place;
    }
  }

  std::vector<std::uint32_t> slots_;
  std::uint64_t factor_ = 1;
  std::size_t mask_ = 0;
  int shift_ = 64;
  std::size_t count_ = 0;
};

// The groups of a batch that one thread goes through. `Number` is the smallest type that counts them: the set of a
// usual batch then stays in the first cache.
template <typename Number>
class DenseGroups {
 public:
  struct Arrays {
    std::uint64_t* hashes;  // of a group
    std::uint32_t* firsts;
    std::uint32_t* nexts;  // of a position; with one place more, which nothing reads
  };

  // Hashes are computed ahead, for this many ids: an id whose place is taken sends the processor back to where it
  // guessed wrongly, and it need not compute the hashes of the next ids again.
  static constexpr std::size_t kHashesAtOnce = 64;

  // Returns the number of groups. No branch depends on whether an id is new, which no processor can foresee: the next
  // group is written down for every id, and counts if it was needed. Nor does an id's way depend on what was written
  // just before: an empty slot names a group past the last.
  std::size_t find(std::span<const std::int64_t> ids, const TableHash& table_hash, const Arrays& arrays,
                   std::uint64_t factor) {
    const auto nowhere = static_cast<std::uint32_t>(ids.size());
    const std::size_t num_slots = std::bit_ceil(slots_for(ids.size()));
    if (slots_.size() < num_slots) slots_.resize(num_slots);
    std::fill_n(slots_.begin(), num_slots, static_cast<Number>(nowhere));
    if (lasts_.size() <= ids.size()) lasts_.resize(ids.size() + 1);
    lasts_[nowhere] = static_cast<Number>(nowhere);
    const std::size_t mask = num_slots - 1;
    const int shift = 64 - std::countr_zero(num_slots);
    Number* const slots = slots_.data();
    Number* const lasts = lasts_.data();
    const Arrays to = arrays;
    const TableHash hash_of = table_hash;
    std::size_t num_groups = 0;
    std::uint64_t hashes[kHashesAtOnce];
    std::size_t homes[kHashesAtOnce];
    for (std::size_t begin = 0; begin < ids.size(); begin += kHashesAtOnce) {
      const std::size_t count = std::min(kHashesAtOnce, ids.size() - begin);
      for (std::size_t i = 0; i < count; ++i) {
        hashes[i] = hash_of.of(ids[begin + i]);
        homes[i] = hashes[i] * factor >> shift;
      }
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t hash = hashes[i];
        const auto position = static_cast<std::uint32_t>(begin + i);
        to.hashes[num_groups] = hash;
        to.firsts[num_groups] = position;
        std::size_t slot = homes[i];
        std::size_t known = slots[slot];
        while (both(known != nowhere, to.hashes[known] != hash)) [[unlikely]] {
          slot = (slot + 1) & mask;
          known = slots[slot];
        }
        const std::size_t is_new = known == nowhere;
        const std::size_t group = known ^ ((known ^ num_groups) & (0 - is_new));
        slots[slot] = static_cast<Number>(group);
        to.nexts[lasts[known]] = position;
        lasts[group] = static_cast<Number>(position);
        to.nexts[position] = kNoPosition;
        num_groups += is_new;
      }
    }
    return num_groups;
  }

 private:
  // As one branch, where a compiler would make two.
  [[gnu::always_inline]] static bool both(bool one, bool other) {
    unsigned result = static_cast<unsigned>(one) & static_cast<unsigned>(other);
    asm("" : "+r"(result));
    return result != 0;
  }

  // An eighth full, few ids meet another; of many ids a larger set would be out of the nearest caches.
  static std::size_t slots_for(std::size_t num_ids) {
    constexpr std::size_t kFew = 8192;
    return std::max<std::size_t>(16, (num_ids <= kFew ? 8 : 2) * num_ids);
  }

  std::vector<Number> slots_;
  std::vector<Number> lasts_;  // the last position of a group so far; here and not in a plan, to stay in a cache
};

constexpr std::size_t kPooledBytes = std::size_t{64} << 20;
std::mutex pool_mutex;
// Never destroyed: plans may be dropped by Python after static destructors ran.
std::vector<BatchPlan*>& pool = *new std::vector<BatchPlan*>;
std::size_t pool_bytes = 0;

}  // namespace

void BatchPlan::build(std::span<const std::int64_t> ids, bool merge_repeated, const TableHash& hash) {
  if (ids.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument("a batch holds at most 4294967294 ids, got " + std::to_string(ids.size()));
  }
  hash.check(ids);
  hash_ = hash;
  merged_ = merge_repeated;
  rows_known_ = false;
  num_ids_ = ids.size();
  const std::size_t num_parts = (num_ids_ + kFewIds - 1) / kFewIds;
  merged_by_parts_ = merged_ && std::min<std::size_t>(num_parts, static_cast<std::size_t>(num_threads())) > 1;
  fit(num_ids_);
  if (merged_ && !merged_by_parts_) {
    merge_alone(ids);
    return;
  }
  parallel_for(num_parts, [&](std::size_t part) {
    const std::size_t end = num_ids_ * (part + 1) / num_parts;
    for (std::size_t i = num_ids_ * part / num_parts; i < end; ++i) hashes_[i] = hash_.of(ids[i]);
  });
  if (merged_) {
    merge_by_parts();
  } else {
    num_groups_ = num_ids_;
  }
}

void BatchPlan::fit(std::size_t num_ids) {
  if (found_.size() < num_ids) found_.resize(num_ids);
  if ((!merged_ || merged_by_parts_) && hashes_.size() < num_ids) hashes_.resize(num_ids);
  if (merged_by_parts_) shares_.fit(num_ids);
  // The one that is looked at comes last: if memory runs out before it, the next batch tries again.
  if (merged_ && nexts_.size() < num_ids + 1) {
    group_hashes_.resize(num_ids + 1);
    firsts_.resize(num_ids + 1);
    nexts_.resize(num_ids + 1);
  }
}

void BatchPlan::Shares::fit(std::size_t num_ids) {
  if (places.size() >= num_ids) return;
  hashes.resize(num_ids);
  for (auto* numbers : {&positions, &nexts, &lasts, &places}) numbers->resize(num_ids);
}

std::size_t BatchPlan::Shares::bytes() const {
  return places.size() * (sizeof(std::uint64_t) + 4 * sizeof(std::uint32_t));
}

void BatchPlan::merge_alone(std::span<const std::int64_t> ids) {
  const auto find = [&](auto& groups) {
    num_groups_ = groups.find(ids, hash_, {group_hashes_.data(), firsts_.data(), nexts_.data()}, scatter_factor());
  };
  if (num_ids_ < std::numeric_limits<std::uint16_t>::max()) {
    thread_local DenseGroups<std::uint16_t> few;
    find(few);
  } else {
    thread_local DenseGroups<std::uint32_t> many;
    find(many);
  }
}

// A thread takes a share of the hashes at a time, small enough for the first caches. First the positions of every
// stretch of the batch are sorted by share, in their order.
void BatchPlan::merge_by_parts() {
  const std::size_t num_stretches = (num_ids_ + kFewIds - 1) / kFewIds;
  const std::size_t num_shares = std::bit_ceil(num_ids_ / kShareIds);
  const auto begin_of = [&](std::size_t stretch) { return num_ids_ * stretch / num_stretches; };
  const std::uint64_t factor = scatter_factor();
  std::vector<std::vector<std::uint32_t>> begins(num_stretches);  // of each share in a stretch, and the end of the last
  parallel_for(num_stretches, [&](std::size_t stretch) {
    std::vector<std::uint32_t> next(num_shares + 1, 0);
    for (std::size_t i = begin_of(stretch); i < begin_of(stretch + 1); ++i) {
      ++next[share_of(hashes_[i], factor, num_shares) + 1];
    }
    next[0] = static_cast<std::uint32_t>(begin_of(stretch));
    for (std::size_t share = 0; share < num_shares; ++share) next[share + 1] += next[share];
    begins[stretch] = next;
    for (std::size_t i = begin_of(stretch); i < begin_of(stretch + 1); ++i) {
      const std::uint32_t place = next[share_of(hashes_[i], factor, num_shares)]++;
      shares_.hashes[place] = hashes_[i];
      shares_.positions[place] = static_cast<std::uint32_t>(i);
      shares_.places[i] = place;
    }
  });
  parallel_for(num_shares, [&](std::size_t share) {
    thread_local FirstPlaces known_places;
    FirstPlaces& first_places = known_places;
    first_places.reset(num_ids_ / num_shares);
    for (const std::vector<std::uint32_t>& begin : begins) link_repeated(begin[share], begin[share + 1], first_places);
  });
  number_groups();
}

template <typename FirstPlaces>
void BatchPlan::link_repeated(std::size_t first, std::size_t last, FirstPlaces& first_places) {
  const std::uint64_t* const hashes = shares_.hashes.data();
  std::uint32_t* const lasts = shares_.lasts.data();
  std::uint32_t* const nexts = shares_.nexts.data();
  for (std::size_t place = first; place < last; ++place) {
    const auto own = static_cast<std::uint32_t>(place);
    const std::uint32_t earliest = first_places.first_of(own, hashes);
    nexts[own] = kNoPosition;
    lasts[own] = kNoPosition;
    if (earliest != own) nexts[lasts[earliest]] = shares_.positions[own];
    lasts[earliest] = own;
  }
}

void BatchPlan::number_groups() {
  const std::size_t num_parts = (num_ids_ + kFewIds - 1) / kFewIds;
  const auto begin_of = [&](std::size_t part) { return num_ids_ * part / num_parts; };
  std::vector<std::size_t> first_group(num_parts + 1, 0);
  parallel_for(num_parts, [&](std::size_t part) {
    std::size_t count = 0;
    for (std::size_t i = begin_of(part); i < begin_of(part + 1); ++i) {
      count += shares_.lasts[shares_.places[i]] != kNoPosition;
    }
    first_group[part + 1] = count;
  });
  for (std::size_t part = 0; part < num_parts; ++part) first_group[part + 1] += first_group[part];
  parallel_for(num_parts, [&](std::size_t part) {
    std::size_t g = first_group[part];
    for (std::size_t i = begin_of(part); i < begin_of(part + 1); ++i) {
      const std::uint32_t place = shares_.places[i];
      nexts_[i] = shares_.nexts[place];
      if (shares_.lasts[place] != kNoPosition) add_group(g++, static_cast<std::uint32_t>(i));
    }
  });
  num_groups_ = first_group[num_parts];
}

std::size_t BatchPlan::bytes() const {
  return sizeof(BatchPlan) + hashes_.size() * sizeof(std::uint64_t) + found_.size() * sizeof(FoundRow) +
         nexts_.size() * (sizeof(std::uint64_t) + 2 * sizeof(std::uint32_t)) + shares_.bytes();
}

std::int64_t BatchPlan::id_at(std::size_t position) const {
  if (!merged_ || merged_by_parts_) return hash_.id_of(hashes_[position]);
  std::size_t g = 0;
  while (std::find(positions(g).begin(), positions(g).end(), position) == positions(g).end()) ++g;
  return hash_.id_of(group_hashes_[g]);
}

void BatchPlan::write_ids(std::span<std::int64_t> out) const {
  for (std::size_t g = 0; g < num_groups(); ++g) out[g] = id_of_group(g);
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
