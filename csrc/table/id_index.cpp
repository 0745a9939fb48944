#include "table/id_index.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace monolith {

namespace {

// How many homes each insert moves while the index grows. Faster, and the pauses are felt; slower, and more sub-tables
// have lines of both sizes at a time.
constexpr std::size_t kHomesPerInsert = 16;
// Fewer lines are moved at once: that takes less time than a batch's ids of one sub-table.
constexpr std::size_t kFewLines = 512;

using Entries = std::vector<std::pair<std::uint64_t, std::uint32_t>>;  // hashes and rows

// Where the circle of lines can be cut: the first of the entries, sorted by home, that finds nothing pushed on to it
// by entries before it.
std::size_t find_cut(const IdLines& lines, const Entries& sorted) {
  const std::uint64_t num_places = lines.count() * kLineEntries;
  std::size_t cut = 0;
  std::uint64_t next_free = 0;
  // Only the second time around it is known what the last entries push on to the first ones.
  for (int around = 0; around < 2; ++around) {
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const std::uint64_t home = lines.home(sorted[i].first) * kLineEntries;
      if (home >= next_free) cut = i;
      next_free = std::max(home, next_free) + 1;
    }
    next_free -= std::min(next_free, num_places);
  }
  return cut;
}

}  // namespace

void IdIndex::find_rows(const std::uint64_t* hashes, std::size_t count, std::uint32_t* rows) const {
  if (!is_growing()) return lines_.find_rows(hashes, count, rows);
  for (std::size_t i = 0; i < count; ++i) {
    (lines_.home(hashes[i]) < moved_ ? larger_ : lines_).find_rows(hashes + i, 1, rows + i);
  }
}

std::size_t IdIndex::bytes_for(std::size_t size) const {
  if (size == 0) return 0;
  std::size_t lines = std::bit_ceil(size / kLineEntries + 1);
  while (size > most_entries(lines)) lines *= 2;
  return lines * IdLines::kLineBytes;
}

std::size_t IdIndex::bytes_to_grow_for_one() const {
  if (num_lines() == 0) return IdLines::kLineBytes;
  return !is_growing() && size_ + 1 > most_entries(num_lines()) ? lines_.bytes() : 0;
}

void IdIndex::reserve(std::size_t num_entries) {
  if (num_lines() == 0 && num_entries > 0) {
    lines_.allocate(std::countr_zero(bytes_for(num_entries) / IdLines::kLineBytes));
  }
  if (is_growing() || num_entries > most_entries(num_lines())) {
    const std::size_t bytes = std::max(bytes_for(num_entries), 2 * lines_.bytes());
    rebuild(std::countr_zero(bytes / IdLines::kLineBytes));
  }
}

void IdIndex::insert(std::uint64_t hash, std::uint32_t row) {
  if (is_growing()) {
    move_homes(kHomesPerInsert);
  } else if (size_ + 1 > most_entries(num_lines())) {
    grow();
  }
  while (!lines_of(hash).place(hash, row)) {
    refuse_crowd(lines_.log2_lines());
    rebuild(lines_.log2_lines() + 1);
  }
  ++size_;
}

bool IdIndex::erase(std::uint64_t hash) {
  if (num_lines() == 0 || !lines_of(hash).erase(hash)) return false;
  --size_;
  return true;
}

void IdIndex::clear() {
  lines_.release();
  larger_.release();
  moved_ = 0;
  size_ = 0;
}

void IdIndex::grow() {
  if (num_lines() == 0) {
    lines_.allocate(0);
  } else if (num_lines() < kFewLines) {
    rebuild(lines_.log2_lines() + 1);
  } else {
    larger_.allocate(lines_.log2_lines() + 1);
  }
}

void IdIndex::move_homes(std::size_t count) {
  const std::size_t last = std::min(num_lines(), moved_ + count);
  for (std::uint32_t home = moved_; home < last; moved_ = ++home) {
    const auto place = [&](std::uint64_t hash, std::uint32_t row) { return larger_.place(hash, row); };
    if (lines_.visit_home(home, place)) continue;
    // Ids made to collide. What was placed is taken back, in case that rebuilding fails.
    lines_.visit_home(home, [&](std::uint64_t hash, std::uint32_t) {
      larger_.erase(hash);
      return true;
    });
    return rebuild(lines_.log2_lines() + 1);
  }
  if (moved_ == num_lines()) take_over(larger_);
}

// Only ids made to collide fill fifteen lines in a row while the index is nearly empty.
void IdIndex::refuse_crowd(int log2_lines) const {
  if (log2_lines <= 10 || std::size_t{size_} * 64 >= std::size_t{1} << log2_lines) return;
  throw std::length_error("too many ids share the first " + std::to_string(kSubTableBits + log2_lines) +
                          " bits of their hash; such ids are made on purpose: refuse their source");
}

// Puts all entries into fresh lines at once, 2 ** log2_lines of them, or more if they do not fit.
void IdIndex::rebuild(int log2_lines) {
  IdLines fresh;
  fresh.set_sub_table(lines_.sub_table());
  fresh.allocate(log2_lines);
  while (!place_all(fresh)) {
    refuse_crowd(fresh.log2_lines());
    fresh.allocate(fresh.log2_lines() + 1);
  }
  take_over(fresh);
  larger_.release();
}

// Ids made to collide may fit in one order and not in another. Every entry may go equally far from its home, so the
// order of homes fits if any does.
bool IdIndex::place_all(IdLines& lines) const {
  bool placed = true;
  visit([&](std::uint64_t hash, std::uint32_t row) { placed = placed && lines.place(hash, row); });
  if (placed) return true;
  Entries entries;
  entries.reserve(size_);
  visit([&](std::uint64_t hash, std::uint32_t row) { entries.emplace_back(hash, row); });
  std::ranges::sort(entries);
  std::ranges::rotate(entries, entries.begin() + static_cast<std::ptrdiff_t>(find_cut(lines, entries)));
  lines.allocate(lines.log2_lines());
  return std::ranges::all_of(entries, [&](const auto& entry) { return lines.place(entry.first, entry.second); });
}

void IdIndex::take_over(IdLines& lines) {
  lines_.swap(lines);
  lines.release();
  moved_ = 0;
}

}  // namespace monolith
