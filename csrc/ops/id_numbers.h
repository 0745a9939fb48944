// A small map from id to number, for the ids of one batch.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace monolith {

// Open addressing with linear probing, at most half full. Not for concurrent writers.
class IdNumbers {
 public:
  static constexpr std::int64_t kMissing = -1;

  // `expected` is a hint: the index grows as needed.
  explicit IdNumbers(std::size_t expected = 0) : slots_(std::bit_ceil(expected * 2 + 16)) {}

  // Returns the number stored under id; a new id gets `value`, which must not be negative.
  std::int64_t insert(std::int64_t id, std::int64_t value) {
    Slot& slot = slots_[place(id)];
    if (slot.value != kMissing) return slot.value;
    slot = {id, value};
    if (++size_ * 2 > slots_.size()) grow();
    return value;
  }

  // Returns the number stored under id, or kMissing.
  std::int64_t find(std::int64_t id) const { return slots_[place(id)].value; }

  std::size_t size() const { return size_; }

 private:
  struct Slot {
    std::int64_t id = 0;
    std::int64_t value = kMissing;
  };

  std::size_t place(std::int64_t id) const {
    // Ids carry their slot in the top bits and are often consecutive below: all bits must reach the low ones.
    auto mixed = static_cast<std::uint64_t>(id);
    mixed = (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93u;
    mixed = (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93u;
    mixed ^= mixed >> 32;
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = mixed & mask;
    while (slots_[at].value != kMissing && slots_[at].id != id) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.value != kMissing) slots_[place(slot.id)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace monolith
