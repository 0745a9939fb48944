// A block: up to 64 groups of a plan whose sub-tables are locked together.
//
// Small batches spread thinly over the sub-tables; taking a block at a time keeps enough memory accesses in flight
// whatever the batch size. Locks are taken in ascending order, so blocks cannot wait for each other in a circle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/parallel_for.h"
#include "table/sub_table.h"

namespace monolith {

inline constexpr std::size_t kBlockGroups = 64;

enum class Access { kShared, kExclusive };

class Block {
 public:
  Block(SubTable* sub_tables, std::span<const std::uint64_t> hashes, Access access) : access_(access) {
    for (std::size_t i = 0; i < hashes.size();) {
      const std::uint32_t number = sub_table_of_hash(hashes[i]);
      const std::size_t first = i;
      while (i < hashes.size() && sub_table_of_hash(hashes[i]) == number) ++i;
      runs_[num_runs_++] = {sub_tables + number, first, i - first};
    }
    for (const Run& run : runs()) access == Access::kShared ? run.sub_table->lock.lock_shared() : run.sub_table->lock.lock();
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
    for (const Run& run : runs()) run.sub_table->index.find_rows(hashes.data() + run.first, run.count, rows + run.first);
  }

 private:
  std::array<Run, kBlockGroups> runs_;
  std::size_t num_runs_ = 0;
  Access access_;
};

// Fetches the index lines of hashes, all cache misses at once.
inline void prefetch_index(const SubTable* sub_tables, std::span<const std::uint64_t> hashes) {
  for (const std::uint64_t hash : hashes) sub_tables[sub_table_of_hash(hash)].index.prefetch(hash);
}

// Calls work(first, count, prefetch_next) for every block of a plan with these hashes, several threads at a time. `work`
// calls prefetch_next() once its own memory accesses are under way: that fetches the next block's index lines.
inline constexpr std::size_t kStep = 8;
template <typename Work>
void for_each_block(const SubTable* sub_tables, std::span<const std::uint64_t> hashes, const Work& work) {
  // Large enough to pay for waking a thread, small enough to balance.
  constexpr std::size_t kTaskGroups = 64 * kBlockGroups;
  parallel_for((hashes.size() + kTaskGroups - 1) / kTaskGroups, [&](std::size_t task) {
    const auto mine = hashes.subspan(task * kTaskGroups, std::min(kTaskGroups, hashes.size() - task * kTaskGroups));
    const auto block_at = [&](std::size_t begin) { return mine.subspan(begin, std::min(kBlockGroups, mine.size() - begin)); };
    prefetch_index(sub_tables, block_at(0));
    for (std::size_t begin = 0; begin < mine.size(); begin += kBlockGroups) {
      const std::size_t next = begin + kBlockGroups;
      const auto upcoming = next < mine.size() ? block_at(next) : mine.subspan(0, 0);
      work(task * kTaskGroups + begin, block_at(begin).size(), [&](std::size_t from) {
        if (from < upcoming.size()) {
          prefetch_index(sub_tables, upcoming.subspan(from, std::min(kStep, upcoming.size() - from)));
        }
      });
    }
  });
}

}  // namespace monolith
