// A block: up to 64 hashes in the order of sub-tables, whose sub-tables are locked together.
//
// Small batches spread thinly over the sub-tables; taking a block at a time keeps enough memory accesses in flight
// whatever the batch size. Locks are taken in ascending order, so blocks cannot wait for each other in a circle.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/parallel_for.h"
#include "table/sub_table.h"
#include "table/table_gate.h"

namespace monolith {

inline constexpr std::size_t kBlockGroups = 64;

enum class Access { kShared, kExclusive };

class Block {
 public:
  Block(const TableGate& gate, SubTable* sub_tables, std::span<const std::uint64_t> hashes, Access access)
      : guest_(gate), access_(access) {
    for (std::size_t i = 0; i < hashes.size();) {
      const std::uint32_t number = sub_table_of_hash(hashes[i]);
      const std::size_t first = i;
      while (i < hashes.size() && sub_table_of_hash(hashes[i]) == number) ++i;
      runs_[num_runs_++] = {sub_tables + number, first, i - first};
    }
    for (const Run& run : runs())
      access == Access::kShared ? run.sub_table->lock.lock_shared() : run.sub_table->lock.lock();
  }
  ~Block() {
    for (const Run& run : runs()) {
      access_ == Access::kShared ? run.sub_table->lock.unlock_shared() : run.sub_table->lock.unlock();
    }
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // A stretch of the block inside one sub-table.
  struct Run {
    SubTable* sub_table;
    std::size_t first;
    std::size_t count;
  };
  std::span<const Run> runs() const { return {runs_.data(), num_runs_}; }

  // Finds the rows of all hashes of the block; for_each_block has had their index lines fetched.
  void find_rows(std::span<const std::uint64_t> hashes, std::uint32_t* rows) const {
    for (const Run& run : runs())
      run.sub_table->index.find_rows(hashes.data() + run.first, run.count, rows + run.first);
  }

 private:
  const Guest guest_;
  std::array<Run, kBlockGroups> runs_;
  std::size_t num_runs_ = 0;
  Access access_;
};

// Fetches the index lines of hashes, all cache misses at once. Like everything that only fetches, inlined always: to
// GCC such a function does nothing, and a call of it is left out.
[[gnu::always_inline]] inline void prefetch_index(const SubTable* sub_tables, std::span<const std::uint64_t> hashes) {
  for (const std::uint64_t hash : hashes) sub_tables[sub_table_of_hash(hash)].index.prefetch(hash);
}

// Fetches what a block's locks will need: small batches over many tables find it in no cache, and nothing else overlaps
// with waiting for a lock.
[[gnu::always_inline]] inline void prefetch_sub_tables(const SubTable* sub_tables,
                                                       std::span<const std::uint64_t> hashes) {
  constexpr std::uint32_t kMost = 8;
  if (hashes.empty()) return;
  const std::uint32_t first = sub_table_of_hash(hashes.front());
  const std::uint32_t last = std::min(sub_table_of_hash(hashes.back()), first + kMost - 1);
  for (std::uint32_t number = first; number <= last; ++number) {
    const char* lines = reinterpret_cast<const char*>(sub_tables + number);
    __builtin_prefetch(lines, 1);
    __builtin_prefetch(lines + 64, 1);
    __builtin_prefetch(lines + 128, 1);
  }
}

// How many fetches are asked for at once: a processor drops what goes beyond the misses it can have under way.
inline constexpr std::size_t kFetchAtOnce = 8;

// Calls work(first, count, prefetch_next) for every block of these hashes, which are in the order of sub-tables,
// several threads at a time. All of a sub-table are in one task, one after the other: what becomes of a row depends on
// the order alone, even where two hashes are the same or compete for the last memory. `work` calls prefetch_next(i)
// with i = 0, 8, 16, ... between its own memory accesses: that fetches the index lines of hashes i to i + 7 of the next
// block.
template <typename Work>
void for_each_block(const SubTable* sub_tables, std::span<const std::uint64_t> hashes, const Work& work) {
  // Large enough to pay for waking a thread, small enough to balance.
  constexpr std::size_t kTaskGroups = 64 * kBlockGroups;
  const auto first_of_task = [&](std::size_t task) {
    std::size_t first = std::min(hashes.size(), task * kTaskGroups);
    if (first == 0) return first;
    const std::uint32_t before = sub_table_of_hash(hashes[first - 1]);
    while (first < hashes.size() && sub_table_of_hash(hashes[first]) == before) ++first;
    return first;
  };
  parallel_for((hashes.size() + kTaskGroups - 1) / kTaskGroups, [&](std::size_t task) {
    const std::size_t last = first_of_task(task + 1);
    const auto block_at = [&](std::size_t first) {
      return first < last ? hashes.subspan(first, std::min(kBlockGroups, last - first)) : hashes.subspan(0, 0);
    };
    std::size_t first = first_of_task(task);
    prefetch_index(sub_tables, block_at(first));
    for (; first < last; first += kBlockGroups) {
      const auto upcoming = block_at(first + kBlockGroups);
      prefetch_sub_tables(sub_tables, upcoming);
      work(first, block_at(first).size(), [&](std::size_t from) __attribute__((always_inline)) {
        if (from >= upcoming.size()) return;
        prefetch_index(sub_tables, upcoming.subspan(from, std::min(kFetchAtOnce, upcoming.size() - from)));
      });
    }
  });
}

// For work that does nothing else meanwhile.
template <typename PrefetchNext>
[[gnu::always_inline]] inline void prefetch_whole_next(const PrefetchNext& prefetch_next) {
  for (std::size_t from = 0; from < kBlockGroups; from += kFetchAtOnce) prefetch_next(from);
}

}  // namespace monolith
