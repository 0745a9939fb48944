// Finds the row number of an id inside one sub-table, and grows with it, a little at every insert.
//
// When most_entries are in its lines, the index takes twice as many beside them. Each insert from then on moves the
// entries of the next few homes. Homes below `moved_` are searched in the larger lines and all others in the smaller
// ones, so a search looks at one place. What has moved stays in the smaller lines and is passed over; they are given
// back when the last home has moved.
// Not safe for concurrent use: the sub-table's lock guards it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "table/id_lines.h"

namespace monolith {

class IdIndex {
 public:
  IdIndex() = default;

  std::size_t size() const { return size_; }
  std::size_t bytes() const { return lines_.bytes() + larger_.bytes(); }

  // Bytes that the index gives back once it has grown.
  std::size_t bytes_to_give_back() const { return is_growing() ? lines_.bytes() : 0; }

  // Brings the home line of a hash into the cache, for a find_rows that follows. The one call that needs no lock.
  [[gnu::always_inline]] void prefetch(std::uint64_t hash) const {
    const bool moved = lines_.home(hash) < moved_.load(std::memory_order_relaxed);
    (moved ? larger_ : lines_).prefetch(hash);
  }

  // Writes the row number of each hash, or kNoRow.
  void find_rows(const std::uint64_t* hashes, std::size_t count, std::uint32_t* rows) const;
  std::uint32_t find_row(std::uint64_t hash) const {
    std::uint32_t row;
    find_rows(&hash, 1, &row);
    return row;
  }

  // For searches without locks (sub_table_view.h).
  const IdLines& lines() const { return lines_; }
  const IdLines& larger_lines() const { return larger_; }
  std::uint32_t num_moved() const { return moved_.load(std::memory_order_relaxed); }

  // What an index of this many entries takes.
  std::size_t bytes_for(std::size_t size) const;

  // What insert will need, so that a caller can keep to a memory limit: bytes that one more entry adds, once the index
  // has grown.
  std::size_t bytes_to_grow_for_one() const;

  // Grows until `num_entries` fit without growing again. Throws std::bad_alloc and stays usable.
  void reserve(std::size_t num_entries);

  // Adds an absent hash. Throws std::bad_alloc without memory, and std::length_error when too many ids share their
  // hash's first bits (ids made on purpose); all entries then stay as they were.
  void insert(std::uint64_t hash, std::uint32_t row);

  // Removes a hash; false if absent.
  bool erase(std::uint64_t hash);

  void clear();

  // Whether entries are in two places. move_homes moves those of the next `count` homes; throws like insert.
  bool is_growing() const { return larger_.data() != nullptr; }
  void move_homes(std::size_t count);

  // Calls visit(hash, row) for every entry.
  template <typename Visit>
  void visit(Visit&& visit) const {
    lines_.visit_lines(0, lines_.count(), [&](std::uint64_t hash, std::uint32_t row) {
      if (lines_.home(hash) >= moved_) visit(hash, row);
    });
    larger_.visit_lines(0, larger_.count(), visit);
  }

  // Calls visit(hash, row) for the entries in lines [first, last) of num_lines(), of an index that is not growing.
  std::size_t num_lines() const { return lines_.count(); }
  template <typename Visit>
  void visit_lines(std::size_t first, std::size_t last, Visit&& visit) const {
    lines_.visit_lines(first, last, visit);
  }

  void set_sub_table(std::uint32_t sub_table) {
    lines_.set_sub_table(sub_table);
    larger_.set_sub_table(sub_table);
  }

 private:
  // How many entries that many lines hold before they are doubled: four and a half to six a line. It differs from
  // sub-table to sub-table. Hashing fills all of them alike, so with one limit all would grow at the same time, and
  // the table would have half as many lines again meanwhile. Limits near each other belong to sub-tables far apart:
  // different threads of a batch insert into these.
  std::size_t most_entries(std::size_t lines) const {
    return lines * (2304 + 3 * std::size_t{lines_.sub_table() * 167 % kNumSubTables}) / 512;
  }

  IdLines& lines_of(std::uint64_t hash) { return lines_.home(hash) < moved_ ? larger_ : lines_; }
  void grow();
  void rebuild(int log2_lines);
  void refuse_crowd(int log2_lines) const;
  bool place_all(IdLines& lines) const;
  void take_over(IdLines& lines);

  IdLines lines_;
  std::uint32_t size_ = 0;
  std::atomic<std::uint32_t> moved_{0};  // homes of lines_ whose entries are in larger_; atomic for prefetch alone
  IdLines larger_;
};

}  // namespace monolith
