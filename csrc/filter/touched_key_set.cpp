#include "filter/touched_key_set.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "filter/mix.h"

namespace monolith {
namespace {

constexpr std::size_t kMaxConcurrencyLevel = 65536;
constexpr std::size_t kFirstSlots = 16;
constexpr std::int64_t kEmpty = INT64_MIN + 1;  // marks a free slot; the id of that value is kept as a flag

// Ids of a batch are grouped by stripe, which takes each lock once and keeps the work in the caches. A group is bounded
// because threads that insert groups at once may exceed the capacity by that much together.
constexpr std::size_t kMinGroup = 64;
constexpr std::size_t kMaxGroup = 32768;

// One byte, and a clear may hold all of them at once, which a mutex checker would not believe.
class SpinLock {
 public:
  void lock() {
    for (int spins = 0; flag_.test_and_set(std::memory_order_acquire); ++spins) {
      if (spins > 100) std::this_thread::yield();
    }
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

}  // namespace

// A part of the ids, by hash: linear probing in a power of two of slots, at most 3/4 full.
struct alignas(64) TouchedKeySet::Stripe {
  SpinLock mutex;
  bool has_empty_id = false;
  std::size_t num_slots_used = 0;
  std::vector<std::int64_t> slots;

  // True if the id is new.
  bool insert(std::int64_t id, std::uint64_t hash) {
    if (id == kEmpty) return !std::exchange(has_empty_id, true);
    if (4 * (num_slots_used + 1) > 3 * slots.size()) grow();
    std::int64_t& slot = slots[find(id, hash)];
    if (slot == id) return false;
    slot = id;
    ++num_slots_used;
    return true;
  }

  void prefetch(std::uint64_t hash) const {
    if (!slots.empty()) __builtin_prefetch(&slots[(hash >> 16) & (slots.size() - 1)], 1);
  }

  void clear() {
    std::fill(slots.begin(), slots.end(), kEmpty);
    num_slots_used = 0;
    has_empty_id = false;
  }

  void append_to(std::vector<std::int64_t>& ids) const {
    std::copy_if(slots.begin(), slots.end(), std::back_inserter(ids), [](std::int64_t id) { return id != kEmpty; });
    if (has_empty_id) ids.push_back(kEmpty);
  }

 private:
  // The slot of the id, or the free one it would take. The low hash bits chose the stripe, so these are others.
  std::size_t find(std::int64_t id, std::uint64_t hash) const {
    const std::size_t mask = slots.size() - 1;
    std::size_t slot = (hash >> 16) & mask;
    while (slots[slot] != id && slots[slot] != kEmpty) slot = (slot + 1) & mask;
    return slot;
  }

  void grow() {
    std::vector<std::int64_t> old(std::max(kFirstSlots, (slots.size() < 1024 ? 4 : 2) * slots.size()), kEmpty);
    old.swap(slots);
    for (const std::int64_t id : old) {
      if (id != kEmpty) slots[find(id, mix64(static_cast<std::uint64_t>(id)))] = id;
    }
  }
};

struct TouchedKeySet::Grouping {
  std::vector<std::uint64_t> hashes;
  std::vector<std::pair<std::int64_t, std::uint64_t>> sorted;
  std::vector<std::size_t> ends;
};

// Holds every stripe, always taken in the same order.
class TouchedKeySet::AllStripes {
 public:
  explicit AllStripes(TouchedKeySet& set) : set_(set) {
    for (std::size_t i = 0; i < set_.num_locks(); ++i) set_.stripes_[i].mutex.lock();
  }
  ~AllStripes() {
    for (std::size_t i = 0; i < set_.num_locks(); ++i) set_.stripes_[i].mutex.unlock();
  }
  AllStripes(const AllStripes&) = delete;
  AllStripes& operator=(const AllStripes&) = delete;

 private:
  TouchedKeySet& set_;
};

TouchedKeySet::TouchedKeySet(std::size_t capacity, std::size_t concurrency_level) : capacity_(capacity) {
  if (capacity == 0 || concurrency_level == 0 || concurrency_level > kMaxConcurrencyLevel) {
    throw std::invalid_argument("touched key set: capacity must be at least 1 and concurrency_level 1 to " +
                                std::to_string(kMaxConcurrencyLevel) + ", got capacity " + std::to_string(capacity) +
                                " and concurrency_level " + std::to_string(concurrency_level));
  }
  const std::size_t num_stripes = std::bit_ceil(concurrency_level);
  stripe_mask_ = num_stripes - 1;
  stripes_ = std::make_unique<Stripe[]>(num_stripes);
}

TouchedKeySet::~TouchedKeySet() = default;

std::size_t TouchedKeySet::clear_if_over_capacity() {
  const std::lock_guard clearing(clear_mutex_);
  const AllStripes all(*this);
  const std::size_t size = size_.load(std::memory_order_relaxed);
  if (size <= capacity_) return 0;  // another thread was first
  for (std::size_t i = 0; i < num_locks(); ++i) stripes_[i].clear();
  size_.store(0, std::memory_order_relaxed);
  return size;
}

std::size_t TouchedKeySet::insert_hashed(std::int64_t id, std::uint64_t hash) {
  const std::size_t dropped = size_.load(std::memory_order_relaxed) > capacity_ ? clear_if_over_capacity() : 0;
  Stripe& stripe = stripes_[hash & stripe_mask_];
  const std::lock_guard lock(stripe.mutex);
  if (stripe.insert(id, hash)) size_.fetch_add(1, std::memory_order_relaxed);
  return dropped;
}

std::size_t TouchedKeySet::insert(std::int64_t id) { return insert_hashed(id, mix64(static_cast<std::uint64_t>(id))); }

std::size_t TouchedKeySet::insert(std::span<const std::int64_t> ids) {
  std::size_t dropped = 0;
  Grouping scratch;
  while (!ids.empty()) {
    // None of this many inserts starts with the set over its capacity, whatever their order.
    const std::size_t size = size_.load(std::memory_order_relaxed);
    const std::size_t room = size > capacity_ ? 0 : capacity_ - size + 1;
    std::size_t num_ids = std::min({ids.size(), room, kMaxGroup});
    if (num_ids >= kMinGroup) {
      insert_group(ids.first(num_ids), scratch);
    } else {
      num_ids = std::min(ids.size(), kMinGroup);
      for (const std::int64_t id : ids.first(num_ids)) dropped += insert(id);
    }
    ids = ids.subspan(num_ids);
  }
  return dropped;
}

void TouchedKeySet::insert_group(std::span<const std::int64_t> ids, Grouping& scratch) {
  // A counting sort by stripe: after it, ends[s] is where the ids of stripe s end.
  scratch.hashes.resize(ids.size());
  scratch.sorted.resize(ids.size());
  scratch.ends.assign(num_locks() + 1, 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    scratch.hashes[i] = mix64(static_cast<std::uint64_t>(ids[i]));
    ++scratch.ends[(scratch.hashes[i] & stripe_mask_) + 1];
  }
  for (std::size_t s = 1; s <= num_locks(); ++s) scratch.ends[s] += scratch.ends[s - 1];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    scratch.sorted[scratch.ends[scratch.hashes[i] & stripe_mask_]++] = {ids[i], scratch.hashes[i]};
  }
  for (std::size_t s = 0, begin = 0; s < num_locks(); begin = scratch.ends[s++]) {
    if (begin == scratch.ends[s]) continue;
    Stripe& stripe = stripes_[s];
    const std::lock_guard lock(stripe.mutex);
    std::size_t num_new = 0;
    for (std::size_t i = begin; i < scratch.ends[s]; ++i) stripe.prefetch(scratch.sorted[i].second);
    for (std::size_t i = begin; i < scratch.ends[s]; ++i) {
      num_new += stripe.insert(scratch.sorted[i].first, scratch.sorted[i].second) ? 1 : 0;
    }
    size_.fetch_add(num_new, std::memory_order_relaxed);
  }
}

std::vector<std::int64_t> TouchedKeySet::steal() {
  const std::lock_guard clearing(clear_mutex_);
  const AllStripes all(*this);
  std::vector<std::int64_t> ids;
  ids.reserve(size_.load(std::memory_order_relaxed));
  for (std::size_t i = 0; i < num_locks(); ++i) {
    stripes_[i].append_to(ids);
    stripes_[i].clear();
  }
  size_.store(0, std::memory_order_relaxed);
  return ids;
}

}  // namespace monolith
