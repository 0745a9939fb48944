// What the threads share that change the rows of one batch; only for the sources of RowTable.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/fetch_ahead.h"
#include "table/row_table.h"

namespace monolith {

// How many rows of a batch are found alone before others are let in; of how many a guest sorts the groups.
inline constexpr std::size_t kStretchRows = 32768;

struct RowTable::Scratch {
  // Floats from the begin of a cache line: a wide store that crosses one takes twice as long.
  class Floats {
   public:
    void fit(std::size_t count) { lines_.resize(count / kLineFloats + 1); }
    float* data() { return lines_.front().floats; }

   private:
    static constexpr std::size_t kLineFloats = 16;
    struct alignas(64) Line {
      float floats[kLineFloats];
    };
    std::vector<Line> lines_;
  };

  Floats gradient;                  // the sum of a repeated id's
  Floats weights, state;            // of the row before the batch, in case the outcome is not finite
  Floats last_weights, last_state;  // before the last of several steps

  void fit(const RowLayout& layout) {
    for (Floats* one : {&gradient, &weights, &last_weights}) one->fit(layout.dim());
    for (Floats* one : {&state, &last_state}) one->fit(layout.state_bytes() / sizeof(float));
  }
  OldRow before() { return {weights.data(), state.data()}; }
  OldRow between() { return {last_weights.data(), last_state.data()}; }
};

struct RowTable::Change {
  BatchPlan& plan;
  const ChangeRequest& request;
  // How many first occurrences of a group the filter held back, all of them if the group gets no row; or empty.
  const std::vector<std::uint32_t>& skipped;
  // While nobody names a time, all rows have time 0 and none is written.
  bool keeps_time;
  std::size_t num_consumers;
  bool is_watched;  // by a consumer or a snapshot

  const FetchInto into = fetch_into();
  std::span<const std::uint64_t> hashes = plan.hashes();
  std::span<FoundRow> found = plan.found();
  std::atomic<std::size_t> inserted{0};
  std::atomic<std::size_t> refused{0};
  std::atomic<std::size_t> num_not_finite{0};
  std::atomic<std::size_t> first_not_finite{plan.num_groups()};

  void note_not_finite(std::size_t g) {
    num_not_finite.fetch_add(1, std::memory_order_relaxed);
    std::size_t earliest = first_not_finite.load(std::memory_order_relaxed);
    while (g < earliest && !first_not_finite.compare_exchange_weak(earliest, g, std::memory_order_relaxed)) {
    }
  }
};

// A guest works sub-table by sub-table: it finds rows in this order, and changes them.
struct RowTable::GuestOrder {
  std::size_t first = 0;
  std::optional<SubTableOrder> order;

  const SubTableOrder& of(std::span<const std::uint64_t> hashes, std::size_t from, std::size_t last) {
    if (!order || first != from || order->groups().size() != last - from) order.emplace(hashes, from, last);
    first = from;
    return *order;
  }
};

// The groups [first, last) by threads' shares: share s has those from begins[s] on, in the order of the plan. All
// groups of an id are in one share.
struct RowTable::Shares {
  std::vector<std::uint32_t> groups;
  std::vector<std::size_t> begins;

  void fill(std::span<const std::uint64_t> hashes, std::size_t first, std::size_t last, std::size_t num_shares) {
    const auto share_of = [&](std::size_t g) { return (hashes[g] >> 32) * num_shares >> 32; };
    begins.assign(num_shares + 1, 0);
    for (std::size_t g = first; g < last; ++g) ++begins[share_of(g) + 1];
    for (std::size_t share = 0; share < num_shares; ++share) begins[share + 1] += begins[share];
    std::vector<std::size_t> next(begins.begin(), begins.end() - 1);
    groups.resize(last - first);
    for (std::size_t g = first; g < last; ++g) groups[next[share_of(g)]++] = static_cast<std::uint32_t>(g);
  }
};

}  // namespace monolith
