// A ring of counter arrays ("splits") that remembers the ids seen lately and forgets the rest, in bounded memory.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "filter/admission_filter.h"
#include "filter/cell_array.h"
#include "filter/changed_cells.h"
#include "filter/frozen_splits.h"
#include "table/hash_shard.h"

namespace monolith {

// New counts go to the split at the head. Once that holds its share of ids the head moves on and the split after it
// is emptied, so an id keeps its count while it comes back before the ring has turned; then it also moves forward.
// Memory is taken as ids arrive, at most about 2.4 bytes x capacity x split_num / (split_num - 1).
class SlidingHashFilter final : public AdmissionFilter {
 public:
  using Split = CellArray<std::uint16_t>;

  static constexpr std::uint32_t kMaxCount = Split::kMaxCount;
  static constexpr std::size_t kMaxStep = 16;
  static constexpr std::size_t kMaxForwardStep = 2;
  static constexpr std::size_t kMinCapacity = 300;
  static constexpr std::size_t kMinSplits = 5;
  static constexpr std::size_t kMaxSplits = 99999;  // five digits in the file names
  static constexpr double kFillRate = 1.2;

  // All that save and restore carry.
  struct State {
    std::vector<Split> splits;
    std::uint64_t head = 0;
    std::uint64_t head_increment = 0;  // how often the head has moved
    std::uint64_t failure_count = 0;   // ids that found no cell and passed

    std::size_t max_backward_step() const { return splits.size() - kMaxForwardStep; }
    void clear();
    friend bool operator==(const State& a, const State& b);
  };

  // A capacity below 300 and a split_num below 5 are raised to those. (In the original the raised split_num is not
  // remembered, and the files of the added splits are missing from a save.)
  //
  // Given a shard, it is that part of a filter of this capacity over all ids: it is asked for ids of this shard alone,
  // the head moves on once a split holds their share, and restore takes what concerns them.
  SlidingHashFilter(std::size_t capacity, std::size_t split_num, HashShard shard = {});
  SlidingHashFilter(const SlidingHashFilter& other);

  // The filter of which these are the parts, in the order of their shards, of which none is missing. Parts whose heads
  // have moved differently often are put together head to head. Restored into parts and joined again, it is the same.
  static std::unique_ptr<SlidingHashFilter> join(std::span<const SlidingHashFilter* const> parts);

  // Counts `count` sightings and returns the count before; counts end at 15. An id that finds no cell counts as seen
  // 15 times: a crowded filter lets ids pass rather than block them.
  std::uint32_t add(std::int64_t id, std::uint32_t count);

  // The count of an id: 0 when unknown, 15 when there would be no cell for it.
  std::uint32_t get(std::int64_t id) const;

  // Lets the count of an id go, in all splits; returns whether there was one. A cell knows 12 bits of its id's hash:
  // ids close by that have the same ones lose their counts with it. The cells stay in use, under signatures drawn at
  // random.
  bool forget(std::int64_t id);

  bool should_be_filtered(std::int64_t id, std::uint32_t count, std::uint32_t threshold) override;
  std::uint32_t max_threshold() const override { return kMaxCount; }

  // One file per split, in the format of docs/formats.md. Both hold the filter's lock until they are done.
  void save(const std::string& basename) override;
  void restore(const std::string& basename) override { restore(basename, {}); }

  // Becomes what was saved under `basename` and changed by files of save_frozen_changes, in order. Counts of files of
  // an older version cannot be found again and are dropped: returns that version then, else 0.
  std::uint32_t restore(const std::string& basename, std::span<const std::string> changes);

  bool freeze(bool take_changes) override;
  void save_frozen(const std::string& basename) override;
  void save_frozen_changes(const std::string& name) override;
  void drop_frozen() override;
  void track_changes(bool on) override;

  std::size_t capacity() const { return capacity_; }
  std::size_t split_num() const;
  std::uint64_t head() const;
  std::uint64_t head_increment() const;
  std::uint64_t failure_count() const;
  std::size_t estimated_total_element() const;  // ids in all splits; one that moved forward counts in each

  friend bool operator==(const SlidingHashFilter& a, const SlidingHashFilter& b);

 private:
  struct Place {
    std::size_t split;
    std::size_t cell;
  };

  static State empty_state(std::size_t capacity, std::size_t split_num);
  SlidingHashFilter(const SlidingHashFilter& other, const std::lock_guard<std::mutex>&);

  std::optional<Place> find_forward(std::size_t start, std::uint16_t signature) const;
  std::optional<Place> find_backward(std::size_t start, std::uint16_t signature) const;
  void advance_head_when_full();
  std::unique_ptr<ChangedCells> no_changes() const;
  void mark_all();
  void add_part(const SlidingHashFilter& part);

  std::size_t capacity_;
  HashShard shard_;
  mutable std::mutex mutex_;
  State state_;
  std::unique_ptr<FrozenSplits<State>> frozen_;
  std::unique_ptr<ChangedCells> changed_;         // while changes are tracked
  std::unique_ptr<ChangedCells> frozen_changed_;  // those of frozen_, if they were taken
};

}  // namespace monolith
