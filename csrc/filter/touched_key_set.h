// The ids touched since somebody last took them: what a delta or a sync has to send.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace monolith {

// A set of ids bounded by dropping everything: an insert that finds more than `capacity` ids clears the set first.
// Thread-safe; ids are spread over stripes with a lock each, and memory is taken as ids arrive.
class TouchedKeySet {
 public:
  // `concurrency_level` is rounded up to a power of two: the number of locks. Throws std::invalid_argument when
  // capacity is 0 or concurrency_level is not 1 to 65536.
  TouchedKeySet(std::size_t capacity, std::size_t concurrency_level);
  ~TouchedKeySet();

  // Returns the number of ids dropped to make room: the size before if this insert cleared the set, else 0.
  std::size_t insert(std::int64_t id);

  // Inserts one by one, in order, and returns the sum of the ids dropped.
  std::size_t insert(std::span<const std::int64_t> ids);

  // Returns all ids, in no particular order, and leaves the set empty. Inserts wait meanwhile.
  std::vector<std::int64_t> steal();

  // Exact while nobody inserts.
  std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  std::size_t capacity() const { return capacity_; }
  std::size_t num_locks() const { return stripe_mask_ + 1; }

 private:
  struct Stripe;
  struct Grouping;
  class AllStripes;

  std::size_t insert_hashed(std::int64_t id, std::uint64_t hash);
  void insert_group(std::span<const std::int64_t> ids, Grouping& scratch);
  std::size_t clear_if_over_capacity();

  const std::size_t capacity_;
  std::size_t stripe_mask_;
  std::unique_ptr<Stripe[]> stripes_;
  std::mutex clear_mutex_;  // one clear or steal at a time
  std::atomic<std::size_t> size_{0};
};

}  // namespace monolith
