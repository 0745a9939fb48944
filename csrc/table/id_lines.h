// The lines of an index: eight bytes an entry, one cache line a look.
//
// A line holds eight entries. The top bits of a hash name the sub-table, the next ones the entry's home line, and an
// entry keeps just the rest of the hash (the hash is a bijection, so nothing is lost), how many lines it sits past
// its home, and its row number:
//
//   [ rest of the hash: 56 - log2_lines | displacement + 1: 4 | row: log2_lines + 3 ]      0 means empty
//
// An entry that finds its home line full goes to the next line with room. So a search may stop at the first line with
// an empty place, and erasing pulls a later entry back where that would break (no tombstones in the index).
// Not safe for concurrent use: the sub-table's lock guards them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "table/found_row.h"
#include "table/id_entry.h"
#include "table/id_hash.h"

namespace monolith {

class IdLines {
 public:
  IdLines() = default;
  ~IdLines() { release(); }
  IdLines(const IdLines&) = delete;
  IdLines& operator=(const IdLines&) = delete;

  // The sub-table's number is the top of every hash in it.
  void set_sub_table(std::uint32_t sub_table) { sub_table_ = sub_table; }
  std::uint32_t sub_table() const { return sub_table_; }

  // Takes 2 ** log2_lines empty lines in place of the present ones. Throws std::bad_alloc.
  void allocate(int log2_lines);
  void release();
  void swap(IdLines& other);

  // The lines themselves, 2 ** log2_lines() of them; nullptr while there are none.
  const std::uint64_t* data() const { return lines_.load(std::memory_order_relaxed); }
  int log2_lines() const { return log2_lines_.load(std::memory_order_relaxed); }
  std::size_t count() const { return lines_ == nullptr ? 0 : std::size_t{1} << log2_lines_; }
  std::size_t bytes() const { return count() * kLineBytes; }
  std::uint64_t home(std::uint64_t hash) const { return home_line_of(hash, log2_lines()); }

  // Brings the home line of a hash into the cache. Needs no lock: if the lines are swapped meanwhile, the wrong one is
  // fetched and nothing else happens.
  [[gnu::always_inline]] void prefetch(std::uint64_t hash) const {
    const std::uint64_t* lines = lines_.load(std::memory_order_relaxed);
    __builtin_prefetch(lines + home(hash) * kLineEntries);
  }

  // Writes the row number of each hash, or kNoRow.
  void find_rows(const std::uint64_t* hashes, std::size_t count, std::uint32_t* rows) const;

  // Adds an absent hash; false if its home and the fourteen lines after it are full.
  bool place(std::uint64_t hash, std::uint32_t row);

  // Removes a hash; false if absent.
  bool erase(std::uint64_t hash);

  // Calls visit(hash, row) for the entries in lines [first, last). They are in order of hash, up to displacement.
  template <typename Visit>
  void visit_lines(std::size_t first, std::size_t last, Visit&& visit) const {
    for (std::size_t line = first; line < last; ++line) {
      for (std::size_t slot = 0; slot < kLineEntries; ++slot) {
        const std::uint64_t entry = lines_[line * kLineEntries + slot];
        if (entry != 0) visit(hash_of_entry(entry, line), row_of(entry));
      }
    }
  }

  // Calls visit(hash, row) for the entries whose home is `first`, wherever they stand, until it returns false. Returns
  // whether it never did.
  template <typename Visit>
  bool visit_home(std::uint64_t first, Visit&& visit) const {
    for (std::uint64_t displacement = 0; displacement <= max_displacement(); ++displacement) {
      const std::uint64_t line = (first + displacement) & line_mask();
      bool room = false;
      for (std::size_t slot = 0; slot < kLineEntries; ++slot) {
        const std::uint64_t entry = lines_[line * kLineEntries + slot];
        room |= entry == 0;
        if (entry == 0 || displacement_of(entry) != displacement) continue;
        if (!visit(hash_of_entry(entry, line), row_of(entry))) return false;
      }
      if (room) return true;
    }
    return true;
  }

  static constexpr std::size_t kLineBytes = 64;

 private:
  int row_bits() const { return log2_lines_ + 3; }
  std::uint64_t line_mask() const { return (std::uint64_t{1} << log2_lines_) - 1; }
  std::uint64_t rest_of(std::uint64_t hash) const { return hash & ((std::uint64_t{1} << (56 - log2_lines_)) - 1); }
  // What an entry of `hash` holds above its row number.
  std::uint64_t tag(std::uint64_t hash, std::uint64_t displacement) const {
    return (rest_of(hash) << 4) | (displacement + 1);
  }
  std::uint32_t row_of(std::uint64_t entry) const {
    return static_cast<std::uint32_t>(entry & ((std::uint64_t{1} << row_bits()) - 1));
  }
  std::uint64_t displacement_of(std::uint64_t entry) const { return ((entry >> row_bits()) & 15) - 1; }
  std::uint64_t hash_of_entry(std::uint64_t entry, std::uint64_t line) const {
    const std::uint64_t first = (line - displacement_of(entry)) & line_mask();
    const std::uint64_t below = (first << (56 - log2_lines_)) | (entry >> (row_bits() + 4));
    return (std::uint64_t{sub_table_} << (64 - kSubTableBits)) | below;
  }
  std::uint64_t max_displacement() const { return line_mask() < kMaxDisplacement ? line_mask() : kMaxDisplacement; }
  std::uint64_t* find(std::uint64_t hash, std::uint64_t* line) const;

  // Atomic for prefetch alone; everything else runs under the lock.
  std::atomic<std::uint64_t*> lines_{nullptr};
  std::atomic<int> log2_lines_{0};
  std::uint32_t sub_table_ = 0;
};

}  // namespace monolith
