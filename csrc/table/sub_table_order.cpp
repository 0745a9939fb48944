#include "table/sub_table_order.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ops/parallel_for.h"
#include "table/id_hash.h"

namespace monolith {

namespace {
// Fewer groups than this are not worth a second thread.
constexpr std::size_t kPartGroups = 16384;
// Of a thread's memory for its next order: fresh memory for each batch costs page faults.
constexpr std::size_t kKeptGroups = std::size_t{1} << 20;

struct Kept {
  std::vector<std::uint64_t> hashes;
  std::vector<std::uint32_t> groups;
  std::vector<std::uint32_t> places;
  std::vector<FoundRow> found;
};
thread_local Kept kept;
}  // namespace

SubTableOrder::~SubTableOrder() {
  if (hashes_.size() > kKeptGroups) return;
  kept.hashes.swap(hashes_);
  kept.groups.swap(groups_);
  kept.places.swap(places_);
  kept.found.swap(found_);
}

SubTableOrder::SubTableOrder(std::span<const std::uint64_t> hashes) : SubTableOrder(hashes, 0, hashes.size()) {}

SubTableOrder::SubTableOrder(std::span<const std::uint64_t> hashes, std::size_t first, std::size_t last) {
  sort(hashes, last - first, [=](std::size_t i) { return static_cast<std::uint32_t>(first + i); });
}

SubTableOrder::SubTableOrder(std::span<const std::uint64_t> hashes, std::span<const std::uint32_t> groups) {
  sort(hashes, groups.size(), [&](std::size_t i) { return groups[i]; });
}

// A stable counting sort; each thread sorts a stretch of the groups.
template <typename GroupAt>
void SubTableOrder::sort(std::span<const std::uint64_t> hashes, std::size_t count, const GroupAt& group_at) {
  const std::size_t num_parts =
      std::clamp<std::size_t>(count / kPartGroups, 1, static_cast<std::size_t>(num_threads()));
  const auto part_begin = [&](std::size_t part) { return count * part / num_parts; };
  std::vector<std::array<std::uint32_t, kNumSubTables>> next(num_parts);
  parallel_for(num_parts, [&](std::size_t part) {
    next[part].fill(0);
    for (std::size_t i = part_begin(part); i < part_begin(part + 1); ++i) {
      ++next[part][sub_table_of_hash(hashes[group_at(i)])];
    }
  });
  std::uint32_t begin = 0;
  for (std::size_t sub_table = 0; sub_table < kNumSubTables; ++sub_table) {
    for (auto& counts : next) begin += std::exchange(counts[sub_table], begin);
  }
  hashes_.swap(kept.hashes);
  groups_.swap(kept.groups);
  places_.swap(kept.places);
  found_.swap(kept.found);
  if (hashes_.size() < count) hashes_.resize(count);
  if (groups_.size() < count) groups_.resize(count);
  if (places_.size() < count) places_.resize(count);
  count_ = count;
  parallel_for(num_parts, [&](std::size_t part) {
    for (std::size_t i = part_begin(part); i < part_begin(part + 1); ++i) {
      const std::uint32_t group = group_at(i);
      const std::uint32_t place = next[part][sub_table_of_hash(hashes[group])]++;
      hashes_[place] = hashes[group];
      groups_[place] = group;
      places_[i] = place;
    }
  });
}

}  // namespace monolith
