// Small counters addressed by id: the array both hash filters are made of.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "filter/zeroed_array.h"
#include "table/id_hash.h"

namespace monolith {

// A cell is (signature << 4) | count; 0 is an empty cell. An id starts at a cell and owns the first of the next cells
// that is empty or bears its signature: two ids of one signature close together share a count, which is the filter's
// error. Starts ascend with the hash, so the ids of a shard (table/hash_shard.h) lie in a run of cells. The
// signature is the low end of the hash, on which no start depends: neighbours share it by chance alone, also where ids
// are consecutive numbers. Not thread-safe.
template <std::unsigned_integral Cell>
class CellArray {
 public:
  static constexpr std::uint32_t kMaxCount = 15;
  static constexpr std::size_t kPadding = 64;  // cells past total_size, so a probe never wraps

  CellArray(std::size_t capacity, double fill_rate)
      : capacity_(capacity), fill_rate_(fill_rate), cells_(checked_total_size(capacity, fill_rate) + kPadding) {}

  std::size_t capacity() const { return capacity_; }
  double fill_rate() const { return fill_rate_; }
  std::size_t total_size() const { return cells_.size() - kPadding; }
  std::size_t num_elements() const { return num_elements_; }
  bool full() const { return num_elements_ + 1 >= capacity_; }
  bool exceed_limit() const { return num_elements_ >= capacity_; }

  std::size_t start(std::int64_t id) const { return start_of_hash(hash_id(id)); }

  // The cell at which ids of a hash start; it ascends with the hash.
  std::size_t start_of_hash(std::uint64_t hash) const {
    return static_cast<std::size_t>((static_cast<unsigned __int128>(hash) * total_size()) >> 64);
  }

  static Cell signature(std::int64_t id) {
    return static_cast<Cell>(hash_id(id) & (std::numeric_limits<Cell>::max() >> 4));
  }

  void prefetch(std::size_t start) const { __builtin_prefetch(&cells_[start]); }

  // The cell of an id within `max_step` cells from its start, or none.
  std::optional<std::size_t> find(std::size_t start, Cell signature, std::size_t max_step) const {
    for (std::size_t cell = start; cell < start + max_step; ++cell) {
      if (cells_[cell] == 0 || (cells_[cell] >> 4) == signature) return cell;
    }
    return std::nullopt;
  }

  std::uint32_t count(std::size_t cell) const { return cells_[cell] & kMaxCount; }
  Cell signature_at(std::size_t cell) const { return static_cast<Cell>(cells_[cell] >> 4); }
  bool is_empty(std::size_t cell) const { return cells_[cell] == 0; }

  // Gives an empty cell to an id. The count must not be 0: the cell of signature 0 would still look empty.
  void occupy(std::size_t cell, Cell signature, std::uint32_t count) {
    cells_[cell] = pack(signature, count);
    if (num_elements_ < capacity_) ++num_elements_;
  }

  // Adds to a cell in use, up to kMaxCount, and returns what it held.
  std::uint32_t raise(std::size_t cell, std::uint32_t count) {
    const std::uint32_t old = this->count(cell);
    cells_[cell] = pack(signature_at(cell), saturated(old, count));
    return old;
  }

  // Gives a cell in use another signature and the count 1: its ids are unknown from now on, and ids behind it are found
  // as before. An empty cell would hide those.
  void disown(std::size_t cell, Cell signature) { cells_[cell] = pack(signature, 1); }

  static std::uint32_t saturated(std::uint32_t a, std::uint32_t b) {
    return std::min(kMaxCount, std::min(a, kMaxCount) + std::min(b, kMaxCount));
  }

  // Empties all cells and gives their memory back.
  void clear() {
    cells_ = ZeroedArray<Cell>(cells_.size());
    num_elements_ = 0;
  }

  // All cells, for save and restore.
  std::span<const Cell> cells() const { return cells_.span(); }
  std::span<Cell> cells() { return cells_.span(); }
  void set_num_elements(std::size_t num_elements) { num_elements_ = num_elements; }

  friend bool operator==(const CellArray& a, const CellArray& b) {
    return a.capacity_ == b.capacity_ && a.fill_rate_ == b.fill_rate_ && a.num_elements_ == b.num_elements_ &&
           std::ranges::equal(a.cells(), b.cells());
  }

 private:
  static Cell pack(Cell signature, std::uint32_t count) {
    return static_cast<Cell>((static_cast<std::uint32_t>(signature) << 4) | count);
  }

  static std::size_t checked_total_size(std::size_t capacity, double fill_rate) {
    constexpr std::size_t kMaxCapacity = std::size_t{1} << 40;
    const bool rate_ok = fill_rate >= 1.0 && fill_rate <= 1024.0;
    if (capacity == 0 || capacity > kMaxCapacity || !rate_ok) {
      throw std::invalid_argument("hash filter: capacity must be 1 to 2^40 and fill_rate 1 to 1024, got capacity " +
                                  std::to_string(capacity) + " and fill_rate " + std::to_string(fill_rate));
    }
    return static_cast<std::size_t>(static_cast<double>(capacity) * fill_rate);
  }

  std::size_t capacity_;
  double fill_rate_;
  std::size_t num_elements_ = 0;
  ZeroedArray<Cell> cells_;
};

}  // namespace monolith
