// The reading half of RowTable: in the order of the batch, without locks while nobody writes.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "ops/parallel_for.h"
#include "ops/simd.h"
#include "table/block.h"
#include "table/copy_row.h"
#include "table/row_table.h"
#include "table/row_table_change.h"

namespace monolith {

namespace {

// A task's rows are read without letting writers in: about 50 microseconds.
constexpr std::size_t kTaskRows = 4096;
// Above this many bytes an output does not fit the caches beside the table's own lines.
constexpr std::size_t kStreamBytes = std::size_t{8} << 20;
// How many rows a guest reads before it lets a writer in.
constexpr std::size_t kGuestRows = 64;

std::size_t gather(const IdsToGather& request) {
  switch (simd_level()) {
    case SimdLevel::kAvx512:
      return avx512::gather_ids(request);
    case SimdLevel::kAvx2:
      return avx2::gather_ids(request);
    case SimdLevel::kScalar:
      break;
  }
  return scalar::gather_ids(request);
}

std::size_t gather(const GroupsToGather& request) {
  switch (simd_level()) {
    case SimdLevel::kAvx512:
      return avx512::gather_groups(request);
    case SimdLevel::kAvx2:
      return avx2::gather_groups(request);
    case SimdLevel::kScalar:
      break;
  }
  return scalar::gather_groups(request);
}

// Calls task(first, count) for all rows, several at a time; returns the sum of what the calls return.
template <typename Task>
std::size_t sum_of_tasks(std::size_t num_rows, const Task& task) {
  if (num_rows <= kTaskRows) return num_rows == 0 ? 0 : task(0, num_rows);
  std::atomic<std::size_t> sum{0};
  parallel_for((num_rows + kTaskRows - 1) / kTaskRows, [&](std::size_t number) {
    const std::size_t first = number * kTaskRows;
    sum.fetch_add(task(first, std::min(kTaskRows, num_rows - first)), std::memory_order_relaxed);
  });
  return sum.load();
}

}  // namespace

bool RowTable::streams(std::size_t num_ids, const float* out, std::size_t stride) const {
  return num_ids * layout_.dim() * sizeof(float) > kStreamBytes && can_stream(out, stride, layout_.dim());
}

RowCopies RowTable::copies_to(float* out, std::size_t stride, bool streaming) const {
  return {
      out,       stride,      layout_.dim(), chunk_layout_.first_weights, chunk_layout_.weight_stride, no_chunk_.data(),
      streaming, fetch_into()};
}

GroupsToGather RowTable::groups_to_gather(BatchPlan& plan, std::size_t first, std::size_t count,
                                          const RowCopies& copies) const {
  return {views_.data(), plan.hashes().data(), first, count, plan.firsts(), plan.nexts(), plan.found().data(), copies};
}

std::size_t RowTable::lookup(std::span<const std::int64_t> ids, float* out, std::size_t stride) const {
  const auto locked = [&](std::span<const std::int64_t> part, float* part_out) {
    const PooledPlan plan = acquire_plan();
    plan->build(part, false, hash_);
    return lookup(*plan, part_out, stride);
  };
  if (!layout_.reads_plain()) return locked(ids, out);
  hash_.check(ids);
  const bool streaming = streams(ids.size(), out, stride);
  return sum_of_tasks(ids.size(), [&](std::size_t first, std::size_t count) {
    const auto part = ids.subspan(first, count);
    float* const part_out = out + first * stride;
    if (!gate_.try_enter_reader()) return locked(part, part_out);
    const std::size_t hits = gather({views_.data(), part.data(), hash_, count, copies_to(part_out, stride, streaming)});
    gate_.leave_reader();
    return hits;
  });
}

std::size_t RowTable::lookup(BatchPlan& plan, float* out, std::size_t stride) const {
  const auto read = [&](std::size_t group, const std::byte* weights) {
    std::size_t copies = 0;
    for (const std::uint32_t position : plan.positions(group)) {
      float* to = out + position * stride;
      if (weights == nullptr) {
        std::fill_n(to, layout_.dim(), 0.0F);
      } else {
        layout_.read(weights, to);
        ++copies;
      }
    }
    return copies;
  };
  const bool plain = layout_.reads_plain();
  return read_groups(plan, copies_to(plain ? out : nullptr, stride, plain && streams(plan.num_ids(), out, stride)),
                     read);
}

std::size_t RowTable::lookup_groups(BatchPlan& plan, float* out) const {
  const std::size_t dim = layout_.dim();
  return read_groups(plan, copies_to(nullptr, 0, false), [&](std::size_t group, const std::byte* weights) {
    float* to = out + group * dim;
    if (weights == nullptr) {
      std::fill_n(to, dim, 0.0F);
      return std::size_t{0};
    }
    layout_.read(weights, to);
    return plan.positions(group).size();
  });
}

void RowTable::contains(std::span<const std::int64_t> ids, bool* out) const {
  std::vector<std::int64_t> own;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    out[i] = false;
    if (!hash_.has(ids[i])) continue;
    own.push_back(ids[i]);
    places.push_back(i);
  }
  const PooledPlan plan = acquire_plan();
  plan->build(own, false, hash_);
  read_groups(*plan, copies_to(nullptr, 0, false), [&](std::size_t group, const std::byte* weights) {
    out[places[group]] = weights != nullptr;
    return std::size_t{0};
  });
}

// Finds the rows of all groups, and copies them or calls read(group, weights) for each, with nullptr for an unknown id,
// while the row cannot change. The plan remembers the rows for the step that follows. Returns the sum of the calls.
template <typename Read>
std::size_t RowTable::read_groups(BatchPlan& plan, const RowCopies& copies, const Read& read) const {
  plan.check_made_for(hash_);
  plan.set_erase_count(erase_count_.load());
  const std::size_t sum = sum_of_tasks(plan.num_groups(), [&](std::size_t first, std::size_t count) {
    if (!gate_.try_enter_reader()) return read_locked(plan, first, count, read);
    std::size_t hits = gather(groups_to_gather(plan, first, count, copies));
    if (copies.out == nullptr) {
      hits = 0;
      for (std::size_t g = first; g < first + count; ++g) {
        const FoundRow at = plan.found()[g];
        hits += read(g, at.row == kNoRow ? nullptr : chunk_layout_.weights(at.chunk, at.row));
      }
    }
    gate_.leave_reader();
    return hits;
  });
  plan.set_rows_known(true);
  return sum;
}

template <typename Read>
std::size_t RowTable::read_locked(BatchPlan& plan, std::size_t first, std::size_t count, const Read& read) const {
  std::size_t sum = 0;
  for (std::size_t begin = first; begin < first + count; begin += kGuestRows) {
    const std::size_t end = std::min(begin + kGuestRows, first + count);
    const auto hashes = plan.hashes().subspan(begin, end - begin);
    for (const std::uint64_t hash : hashes) sub_table_of(hash).index.prefetch(hash);
    const Guest guest(gate_);
    for (std::size_t g = begin; g < end; ++g) {
      SubTable& sub_table = sub_table_of(plan.hashes()[g]);
      const std::shared_lock lock(sub_table.lock);
      const FoundRow at = sub_table.found(sub_table.index.find_row(plan.hashes()[g]));
      plan.found()[g] = at;
      sum += read(g, at.row == kNoRow ? nullptr : chunk_layout_.weights(at.chunk, at.row));
    }
  }
  return sum;
}

// For a writer, which keeps readers out itself.
void RowTable::find(BatchPlan& plan, GuestOrder& guest_order) {
  for (std::size_t first = 0; first < plan.num_groups(); first += kStretchRows) {
    const std::size_t last = std::min(first + kStretchRows, plan.num_groups());
    // Readers of a serving table never wait for a batch.
    const Alone alone(gate_, !layout_.serving());
    if (!alone) {
      find_as_guest(plan, guest_order.of(plan.hashes(), first, last));
      continue;
    }
    sum_of_tasks(last - first, [&](std::size_t begin, std::size_t count) {
      return gather(groups_to_gather(plan, first + begin, count, copies_to(nullptr, 0, false)));
    });
  }
}

// A lock for many rows, as where they are changed.
void RowTable::find_as_guest(BatchPlan& plan, const SubTableOrder& order) {
  const std::span<FoundRow> found = plan.found();
  for_each_block(sub_tables_.get(), order.hashes(), [&](std::size_t begin, std::size_t count, const auto& fetch_next) {
    prefetch_whole_next(fetch_next);
    const auto hashes = order.hashes().subspan(begin, count);
    std::array<std::uint32_t, kBlockGroups> rows;
    const Block block(gate_, sub_tables_.get(), hashes, Access::kShared);
    block.find_rows(hashes, rows.data());
    for (const Block::Run& run : block.runs()) {
      for (std::size_t i = run.first; i < run.first + run.count; ++i) {
        found[order.groups()[begin + i]] = run.sub_table->found(rows[i]);
      }
    }
  });
}

std::vector<EntryDump> RowTable::lookup_entries(std::span<const std::int64_t> ids) const {
  std::vector<EntryDump> entries(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!hash_.has(ids[i])) continue;
    const std::uint64_t hash = hash_.of(ids[i]);
    SubTable& sub_table = sub_table_of(hash);
    const Guest guest(gate_);
    const std::shared_lock lock(sub_table.lock);
    const std::uint32_t row = sub_table.index.find_row(hash);
    if (row == kNoRow) continue;
    EntryDump& entry = entries[i];
    entry.found = true;
    entry.last_seen = sub_table.last_seen(row);
    entry.weights.resize(layout_.dim());
    layout_.read_stored(sub_table.weights(chunk_layout_, row), entry.weights.data());
    entry.state.resize(layout_.state_bytes() / sizeof(float));
    if (!entry.state.empty()) {
      std::memcpy(entry.state.data(), sub_table.state(chunk_layout_, row), layout_.state_bytes());
    }
  }
  return entries;
}

}  // namespace monolith
