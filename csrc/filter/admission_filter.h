// Admission: an id gets a row only after it was seen often enough.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace monolith {

// Decides about ids that have no row. Safe to share between tables and threads; for a serial order of calls the
// answers are always the same.
class AdmissionFilter {
 public:
  virtual ~AdmissionFilter() = default;

  // Counts `count` sightings of an id that has no row; true means it gets none yet.
  // Threshold 0 admits at once and counts nothing.
  virtual bool should_be_filtered(std::int64_t id, std::uint32_t count, std::uint32_t threshold) = 0;

  // The largest threshold an id can ever pass; check_thresholds refuses larger ones.
  virtual std::uint32_t max_threshold() const { return std::numeric_limits<std::uint32_t>::max(); }

  // Whether its answer means anything where no table says which ids have a row.
  virtual bool decides_without_table() const { return true; }

  // Writes its state to `<basename>-%05d-of-%05d` files, or nothing where there is no state.
  // Throws std::system_error when the system refuses.
  virtual void save(const std::string& basename) = 0;

  // Becomes what was saved under `basename`; on an error it stays as it was. Throws std::system_error for missing or
  // unreadable files and std::invalid_argument for files that are damaged or of a differently configured filter.
  virtual void restore(const std::string& basename) = 0;

  // Keeps what the filter is at this moment while it goes on counting; save_frozen writes it as save does. Any of the
  // other three ends it. With `take_changes`, and if they are tracked, what changed since they were taken last can be
  // saved alone, as the file `name`; returns whether it can.
  virtual bool freeze(bool) { return false; }
  virtual void save_frozen(const std::string&) {}
  virtual void save_frozen_changes(const std::string&) {}
  virtual void drop_frozen() {}

  // From now on, or no longer, it is known what changes; there are no changes yet.
  virtual void track_changes(bool) {}
};

// Admits every id at once.
class NoFilter final : public AdmissionFilter {
 public:
  bool should_be_filtered(std::int64_t, std::uint32_t, std::uint32_t) override { return false; }
  void save(const std::string&) override {}
  void restore(const std::string&) override {}
};

// How often an id must have been seen, by its slot (fid v2: bits 48 to 62).
class SlotThresholds {
 public:
  static constexpr std::uint32_t kNumSlots = 1U << 15;

  SlotThresholds() = default;

  // Slots not named have `default_threshold`. Throws std::invalid_argument for a slot outside 0..32767.
  explicit SlotThresholds(std::uint32_t default_threshold, const std::map<std::int64_t, std::uint32_t>& by_slot = {});

  std::uint32_t threshold(std::int64_t id) const {
    return by_slot_.empty() ? default_ : by_slot_[(static_cast<std::uint64_t>(id) >> 48) & (kNumSlots - 1)];
  }

  std::uint32_t max() const { return max_; }

 private:
  std::uint32_t default_ = 0;
  std::uint32_t max_ = 0;
  std::vector<std::uint32_t> by_slot_;  // empty while no slot differs
};

// Throws std::invalid_argument when a threshold is one that `filter` could never let an id pass.
void check_thresholds(const AdmissionFilter& filter, const SlotThresholds& thresholds);

// Asks once per id, in order, with count 1: filtered[i] is 1 where ids[i] gets no row yet.
// A filter that cannot decide without a table filters nothing here.
void filter_ids(AdmissionFilter& filter, const SlotThresholds& thresholds, std::span<const std::int64_t> ids,
                std::span<bool> filtered);

}  // namespace monolith
