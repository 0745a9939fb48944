// Finds the row number of an id inside one sub-table: eight bytes an entry, one cache line a look.
//
// A line holds eight entries. The top bits of a hash name the sub-table, the next ones the entry's home line, and an
// entry keeps just the rest of the hash (the hash is a bijection, so nothing is lost), how many lines it sits past
// its home, and its row number:
//
//   [ rest of the hash: 56 - log2_lines | displacement + 1: 4 | row: log2_lines + 3 ]      0 means empty
//
// An entry that finds its home line full goes to the next line with room. So a search may stop at the first line with
// an empty place, and erasing pulls a later entry back where that would break (no tombstones in the index).
// Not safe for concurrent use: the sub-table's lock guards it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "table/found_row.h"
#include "table/id_entry.h"
#include "table/id_hash.h"

namespace monolith {

class IdIndex {
 public:
  IdIndex() = default;
  ~IdIndex() { release(); }
  IdIndex(const IdIndex&) = delete;
  IdIndex& operator=(const IdIndex&) = delete;

  std::size_t size() const { return size_; }
  std::size_t bytes() const { return lines_ == nullptr ? 0 : num_lines() * kLineBytes; }

  // Brings the home line of a hash into the cache, for a find_rows that follows. The one call that needs no lock: if
  // the index grows meanwhile, the wrong line is fetched and nothing else happens.
  [[gnu::always_inline]] void prefetch(std::uint64_t hash) const {
    const std::uint64_t* lines = lines_.load(std::memory_order_relaxed);
    const int log2_lines = log2_lines_.load(std::memory_order_relaxed);
    __builtin_prefetch(lines + home_line_of(hash, log2_lines) * kLineEntries);
  }

  // Writes the row number of each hash, or kNoRow.
  void find_rows(const std::uint64_t* hashes, std::size_t count, std::uint32_t* rows) const;
  std::uint32_t find_row(std::uint64_t hash) const {
    std::uint32_t row;
    find_rows(&hash, 1, &row);
    return row;
  }

  // The lines themselves, 2 ** log2_lines() of them; nullptr while there are none.
  const std::uint64_t* lines() const { return lines_.load(std::memory_order_relaxed); }
  int log2_lines() const { return log2_lines_.load(std::memory_order_relaxed); }

  // What an index of this many entries takes.
  std::size_t bytes_for(std::size_t size) const;

  // What insert will need, so that a caller can keep to a memory limit: bytes allocated if one more entry comes.
  std::size_t bytes_to_grow_for_one() const;

  // Grows until `num_entries` fit without growing again. Throws std::bad_alloc and stays usable.
  void reserve(std::size_t num_entries);

  // Adds an absent hash. Grows when most_entries are in. Throws std::bad_alloc without memory, and std::length_error
  // when too many ids share their hash's first bits (ids made on purpose); all entries then stay as they were.
  void insert(std::uint64_t hash, std::uint32_t row);

  // Removes a hash; false if absent.
  bool erase(std::uint64_t hash);

  void clear() { release(); }

  // Walks entries: calls visit(hash, row) for those in lines [first, last). Lines are in order of hash, up to
  // displacement.
  std::size_t num_lines() const { return lines_ == nullptr ? 0 : std::size_t{1} << log2_lines_; }
  template <typename Visit>
  void visit_lines(std::size_t first, std::size_t last, Visit&& visit) const {
    for (std::size_t line = first; line < last; ++line) {
      for (std::size_t slot = 0; slot < kLineEntries; ++slot) {
        const std::uint64_t entry = lines_[line * kLineEntries + slot];
        if (entry != 0) visit(hash_of_entry(entry, line), row_of(entry));
      }
    }
  }

  // The sub-table's number is the top of every hash in it.
  void set_sub_table(std::uint32_t sub_table) { sub_table_ = sub_table; }

 private:
  static constexpr std::size_t kLineBytes = 64;

  // How many entries that many lines hold before they are doubled: four and a half to six a line. It differs from
  // sub-table to sub-table. Hashing fills all of them alike, so with one limit all would grow in the same few batches,
  // and these would take many times as long as others.
  std::size_t most_entries(std::size_t lines) const { return lines * (2304 + 3 * std::size_t{sub_table_}) / 512; }

  int row_bits() const { return log2_lines_ + 3; }
  std::uint64_t line_mask() const { return (std::uint64_t{1} << log2_lines_) - 1; }
  std::uint64_t home_line(std::uint64_t hash) const { return home_line_of(hash, log2_lines_); }
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
    const std::uint64_t home = (line - displacement_of(entry)) & line_mask();
    const std::uint64_t below = (home << (56 - log2_lines_)) | (entry >> (row_bits() + 4));
    return (std::uint64_t{sub_table_} << (64 - kSubTableBits)) | below;
  }

  std::uint64_t max_displacement() const { return line_mask() < kMaxDisplacement ? line_mask() : kMaxDisplacement; }
  std::uint64_t* find(std::uint64_t hash, std::uint64_t* line) const;
  bool place(std::uint64_t hash, std::uint32_t row);
  void grow();
  void place_in_home_order(IdIndex& larger) const;
  void release();

  // Atomic for prefetch alone; everything else runs under the lock.
  std::atomic<std::uint64_t*> lines_{nullptr};
  std::atomic<int> log2_lines_{0};
  std::uint32_t sub_table_ = 0;
  std::size_t size_ = 0;
};

}  // namespace monolith
