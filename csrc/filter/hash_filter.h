// One array of counters that never forgets: counts the sightings of up to `capacity` ids.
#pragma once

#include <mutex>

#include "filter/admission_filter.h"
#include "filter/cell_array.h"

namespace monolith {

// 8-bit cells tell 16 signatures apart, 16-bit cells 4096. An id that finds no cell counts as seen 15 times: a full
// filter lets ids pass rather than block them. It has no file format of its own; SlidingHashFilter is what runs save.
template <std::unsigned_integral Cell>
class HashFilter final : public AdmissionFilter {
 public:
  static constexpr std::uint32_t kMaxCount = CellArray<Cell>::kMaxCount;
  static constexpr std::size_t kMaxStep = 64;

  explicit HashFilter(std::size_t capacity, double fill_rate = 1.5) : cells_(capacity, fill_rate) {}
  HashFilter(const HashFilter& other) : HashFilter(other, std::lock_guard(other.mutex_)) {}

  // Counts `count` sightings and returns the count before; counts end at 15.
  std::uint32_t add(std::int64_t id, std::uint32_t count) {
    const std::lock_guard lock(mutex_);
    const Cell signature = cells_.signature(id);
    const auto cell = cells_.find(cells_.start(id), signature, kMaxStep);
    if (!cell) {
      ++failure_count_;
      return kMaxCount;
    }
    if (!cells_.is_empty(*cell)) return cells_.raise(*cell, count);
    if (count > 0) cells_.occupy(*cell, signature, std::min(count, kMaxCount));
    return 0;
  }

  // The count of an id, 15 where it has and finds no cell.
  std::uint32_t get(std::int64_t id) const {
    const std::lock_guard lock(mutex_);
    const auto cell = cells_.find(cells_.start(id), cells_.signature(id), kMaxStep);
    return cell ? cells_.count(*cell) : kMaxCount;
  }

  bool should_be_filtered(std::int64_t id, std::uint32_t count, std::uint32_t threshold) override {
    return threshold > 0 && add(id, count) < threshold;
  }

  std::uint32_t max_threshold() const override { return kMaxCount; }

  std::size_t estimated_total_element() const {
    const std::lock_guard lock(mutex_);
    return cells_.num_elements();
  }
  std::size_t failure_count() const {
    const std::lock_guard lock(mutex_);
    return failure_count_;
  }
  bool full() const {
    const std::lock_guard lock(mutex_);
    return cells_.full();
  }
  bool exceed_limit() const {
    const std::lock_guard lock(mutex_);
    return cells_.exceed_limit();
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    cells_.clear();
    failure_count_ = 0;
  }

  // What a filter of this capacity takes at most, in bytes.
  static std::size_t size_byte(std::size_t capacity, double fill_rate = 1.5) {
    return static_cast<std::size_t>(static_cast<double>(capacity * sizeof(Cell)) * fill_rate) + kMaxStep;
  }

  void save(const std::string&) override { throw std::invalid_argument("HashFilter keeps no files"); }
  void restore(const std::string&) override { throw std::invalid_argument("HashFilter keeps no files"); }

  friend bool operator==(const HashFilter& a, const HashFilter& b) {
    if (&a == &b) return true;
    const std::scoped_lock lock(a.mutex_, b.mutex_);
    return a.failure_count_ == b.failure_count_ && a.cells_ == b.cells_;
  }

 private:
  HashFilter(const HashFilter& other, const std::lock_guard<std::mutex>&)
      : cells_(other.cells_), failure_count_(other.failure_count_) {}

  mutable std::mutex mutex_;
  CellArray<Cell> cells_;
  std::size_t failure_count_ = 0;
};

}  // namespace monolith
