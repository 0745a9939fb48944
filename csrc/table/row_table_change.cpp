// The writing half of RowTable.
//
// A batch is changed in two passes: every id gets a row (row_table_insert.cpp), then the rows are changed, in the order
// of the batch. One visit to a row sums its gradients, notes the change for consumers and snapshots, and steps.
#include "table/row_table_change.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "ops/parallel_for.h"
#include "table/copy_row.h"
#include "table/row_table.h"

namespace monolith {

namespace {

// How many rows ahead of the one being changed are fetched: three or more cache lines each.
constexpr std::size_t kFetchAhead = 12;
// A thread's share of the rows: large enough to pay for handing it over, small enough to balance.
constexpr std::size_t kTaskRows = 2048;
// How many rows are stepped by one call, while as many are fetched: at most, and where they are fetched into the first
// cache.
constexpr std::size_t kBlockRows = 64;
constexpr std::size_t kFirstCacheBlockRows = 32;
// A thread's share of the rows where several batches are changed at once.
constexpr std::size_t kGuestTaskRows = 1024;

// How many rows are changed before others are let in: some hundred microseconds.
std::size_t rows_alone() { return kTaskRows * std::max<std::size_t>(4, static_cast<std::size_t>(num_threads())); }

}  // namespace

ChangeResult RowTable::change(BatchPlan& plan, const ChangeRequest& request) {
  plan.check_made_for(hash_);
  const std::shared_lock batch(batch_mutex_);
  const Writer writer(gate_);
  raise_max_time(request.time);
  if (request.kind == ChangeRequest::Kind::kStep) raise_max_step(request.global_step);
  ChangeResult result;
  std::vector<std::uint32_t> skipped;
  GuestOrder guest_order;
  // Read once: a row erased between two readings would count as there.
  const std::uint64_t erase_count = erase_count_.load();
  bool known = plan.rows_are_known() && plan.erase_count() == erase_count;
  plan.set_erase_count(erase_count);
  // Most ids of a step have rows. Those of an assignment have none, as a rule: insert_missing searches for them.
  if (!known && (filter_ != nullptr || request.kind != ChangeRequest::Kind::kAssign)) {
    find(plan, guest_order);
    known = true;
  }
  if (filter_ != nullptr) admit(plan, request, skipped, result);
  insert_missing(plan, known, request, skipped, result);
  plan.set_rows_known(true);
  const std::size_t num_consumers = sub_tables_[0].consumers.size();
  Change change{plan, request, skipped, max_time() != 0, num_consumers, num_consumers != 0 || snapshot_running_};
  change_rows(change, guest_order);
  result.inserted += change.inserted.load();
  result.refused += change.refused.load();
  if (const std::size_t g = change.first_not_finite.load(); g < plan.num_groups()) {
    refuse_not_finite(request.kind, hash_.id_of(plan.hashes()[g]), change.num_not_finite.load());
  }
  return result;
}

void RowTable::change_rows(Change& change, GuestOrder& guest_order) {
  // Where rows have been pushed out for new ones, rows that come back push out others. One thread then, so that the
  // outcome depends on the batch alone.
  const bool one_thread = options_.max_memory_bytes != 0 && change.plan.erase_count() != erase_count_.load();
  const std::size_t num_groups = change.plan.num_groups();
  Shares shares;
  for (std::size_t first = 0; first < num_groups;) {
    std::size_t last = std::min(num_groups, first + rows_alone());
    // A server asked by many at a time has one thread for each.
    const bool is_one_task = one_thread || num_threads() == 1;
    const std::size_t num_tasks = is_one_task ? 1 : (last - first + kTaskRows - 1) / kTaskRows;
    const auto first_of = [&](std::size_t task) { return first + (last - first) * task / num_tasks; };
    // Without merging, two groups may be the same id: one thread then changes both. It skips the groups of others,
    // which makes its share half as fast.
    const bool is_shared = num_tasks > 1 && !change.plan.is_merged() && !change.request.all_different;
    // Rows of a serving table are read at any time, so its writers never keep the readers waiting for long.
    Alone alone(gate_, !layout_.serving());
    // Only now nobody else can erase rows.
    if (change.plan.erase_count() != erase_count_.load()) alone.end();
    if (!alone) {
      last = std::min(num_groups, first + kStretchRows);
      change_as_guest(change, guest_order.of(change.hashes, first, last), one_thread);
      first = last;
      continue;
    }
    if (is_shared) shares.fill(change.hashes, first, last, num_tasks);
    parallel_for(num_tasks, [&](std::size_t task) {
      if (is_shared) {
        const std::uint32_t* const groups = shares.groups.data();
        change_groups(change, shares.begins[task], shares.begins[task + 1], [=](std::size_t i) { return groups[i]; });
      } else {
        change_groups(change, first_of(task), first_of(task + 1), [](std::size_t g) { return g; });
      }
    });
    if (change.request.all_different && change.num_not_finite != 0) erase_not_finite(change, first, last);
    first = last;
  }
}

// If an id repeats although the caller promised that none does, two threads may step its row at once. One may put back
// what the other one left for a moment, a row that is not finite: no later step could mend it, and no save be restored.
void RowTable::erase_not_finite(const Change& change, std::size_t first, std::size_t last) {
  for (std::size_t g = first; g < last; ++g) {
    const FoundRow at = change.found[g];
    if (at.row == kNoRow) continue;
    if (!layout_.is_finite(chunk_layout_.weights(at.chunk, at.row), chunk_layout_.state(at.chunk, at.row))) {
      erase_row(sub_table_of(change.hashes[g]), change.hashes[g]);
    }
  }
}

// Sub-table by sub-table: each lock is taken once for several rows. A lock for every row costs more than its step,
// since the writers take the locks' cache lines from each other.
void RowTable::change_as_guest(Change& change, const SubTableOrder& order, bool one_thread) {
  const std::span<const std::uint64_t> hashes = order.hashes();
  const std::size_t num_tasks = one_thread ? 1 : (hashes.size() + kGuestTaskRows - 1) / kGuestTaskRows;
  // All groups of a sub-table are in one task, so those of an id are changed in the order of the batch.
  const auto begin_of = [&](std::size_t task) {
    std::size_t begin = hashes.size() * task / num_tasks;
    if (begin == 0) return begin;
    const std::uint32_t before = sub_table_of_hash(hashes[begin - 1]);
    while (begin < hashes.size() && sub_table_of_hash(hashes[begin]) == before) ++begin;
    return begin;
  };
  // Writers that come at once begin at different sub-tables, or each would wait for the one before it.
  static std::atomic<std::size_t> num_writers{0};
  const std::size_t turn = num_writers.fetch_add(1, std::memory_order_relaxed) * 7;
  parallel_for(num_tasks, [&](std::size_t task) {
    const std::size_t number = (task + turn) % num_tasks;
    change_in_order(change, order, begin_of(number), begin_of(number + 1));
  });
}

// While rows are changed, as many are on their way from memory. A sub-table that somebody else works on is left for
// later: a writer that waits for another one meets it again at every sub-table.
void RowTable::change_in_order(Change& change, const SubTableOrder& order, std::size_t first, std::size_t last) {
  thread_local Scratch scratch;
  scratch.fit(layout_);
  const auto groups = order.groups();
  const auto fetch = [&](std::size_t begin) __attribute__((always_inline)) {
    for (std::size_t i = begin; i < std::min(last, begin + kBlockRows); ++i) fetch_group(change, groups[i]);
  };
  struct Run {
    std::size_t first, last;
  };
  std::vector<Run> left;
  std::uint32_t last_left = kNumSubTables;
  fetch(first);
  for (std::size_t begin = first; begin < last; begin += kBlockRows) {
    const std::size_t end = std::min(last, begin + kBlockRows);
    fetch(end);
    const Guest guest(gate_);
    for (Run run{begin, begin}; run.first < end; run.first = run.last) {
      const std::uint32_t number = sub_table_of_hash(order.hashes()[run.first]);
      while (run.last < end && sub_table_of_hash(order.hashes()[run.last]) == number) ++run.last;
      // Later rows of a sub-table wait for its first ones: both may have the same id.
      SubTable& sub_table = sub_tables_[number];
      std::unique_lock lock(sub_table.lock, std::defer_lock);
      if (number == last_left || !lock.try_lock()) {
        left.push_back(run);
        last_left = number;
        continue;
      }
      change_run(change, sub_table, groups.subspan(run.first, run.last - run.first), scratch);
    }
  }
  for (const Run& run : left) {
    const Guest guest(gate_);
    SubTable& sub_table = sub_table_of(order.hashes()[run.first]);
    const std::unique_lock lock(sub_table.lock);
    change_run(change, sub_table, groups.subspan(run.first, run.last - run.first), scratch);
  }
}

// Rows on their way to one call of the optimizer.
struct RowTable::RowBlock {
  std::size_t count = 0;
  std::array<float*, kBlockRows> weights, state;
  std::array<std::uint32_t, kBlockRows> positions;  // of their first gradients
  std::array<std::uint32_t, kBlockRows> groups;
};

// Up to a block of rows of one sub-table, whose lock the caller holds.
void RowTable::change_run(Change& change, SubTable& sub_table, std::span<const std::uint32_t> groups,
                          Scratch& scratch) {
  const bool may_be_gone = change.plan.erase_count() != erase_count_.load(std::memory_order_relaxed);
  if (may_be_gone || !steps_rows(change)) {
    for (const std::uint32_t g : groups) change_group<false>(change, g, scratch);
    return;
  }
  RowBlock block;
  fetch_block(change, 0, groups.size(), [=](std::size_t i) { return groups[i]; }, block);
  for (const std::uint32_t g : std::span(block.groups).first(block.count)) {
    sub_table.before_change(chunk_layout_, change.hashes[g], change.found[g].row);
  }
  step_block(change, block, scratch);
}

// The row may be gone by now; then other memory is fetched, and nothing else happens.
[[gnu::always_inline]] inline void RowTable::fetch_group(const Change& change, std::size_t g) const {
  const FoundRow at = change.found[g];
  const std::size_t position = change.request.per_group ? g : change.plan.first_position(g);
  fetch_lines(change.request.values + position * layout_.dim(), layout_.dim() * sizeof(float), change.into);
  if (at.row == kNoRow) return;
  fetch_lines(chunk_layout_.weights(at.chunk, at.row), chunk_layout_.weight_bytes, change.into);
  fetch_lines(chunk_layout_.state(at.chunk, at.row), chunk_layout_.state_bytes, change.into);
  if (change.keeps_time) __builtin_prefetch(&ChunkLayout::last_seen(at.chunk, at.row), 1);
  if (change.is_watched) __builtin_prefetch(at.chunk, 1);
}

template <typename GroupAt>
void RowTable::change_groups(Change& change, std::size_t first, std::size_t last, const GroupAt& group_at) {
  thread_local Scratch scratch;
  scratch.fit(layout_);
  if (steps_rows(change)) return step_groups(change, first, last, group_at, scratch);
  for (std::size_t i = first; i < std::min(last, first + kFetchAhead); ++i) fetch_group(change, group_at(i));
  for (std::size_t i = first; i < last; ++i) {
    if (i + kFetchAhead < last) fetch_group(change, group_at(i + kFetchAhead));
    change_group<true>(change, group_at(i), scratch);
  }
}

bool RowTable::steps_rows(const Change& change) const {
  const ChangeRequest& request = change.request;
  return request.kind == ChangeRequest::Kind::kStep && request.sum_repeated && change.skipped.empty() &&
         layout_.steps_rows();
}

// While one block of rows is stepped, the next is on its way from memory. Short loops, each for one thing: the
// processor then works on many rows at once.
template <typename GroupAt>
void RowTable::step_groups(Change& change, std::size_t first, std::size_t last, const GroupAt& group_at,
                           Scratch& scratch) {
  const std::size_t block_rows = change.into == FetchInto::kFirstCache ? kFirstCacheBlockRows : kBlockRows;
  std::array<RowBlock, 2> blocks;
  fetch_block(change, first, std::min(last, first + block_rows), group_at, blocks[0]);
  for (std::size_t begin = first, number = 0; begin < last; begin += block_rows, ++number) {
    const std::size_t next = std::min(last, begin + block_rows);
    fetch_block(change, next, std::min(last, next + block_rows), group_at, blocks[(number + 1) % 2]);
    const RowBlock& block = blocks[number % 2];
    if (change.is_watched) {
      for (std::size_t i = 0; i < block.count; ++i) {
        mark_change(change, change.hashes[block.groups[i]], change.found[block.groups[i]]);
      }
    }
    step_block(change, block, scratch);
  }
}

template <typename GroupAt>
[[gnu::always_inline]] inline void RowTable::fetch_block(const Change& change, std::size_t first, std::size_t last,
                                                         const GroupAt& group_at, RowBlock& block) const {
  const std::uint32_t* const nexts = change.request.per_group ? nullptr : change.plan.nexts();
  std::size_t count = 0;
  for (std::size_t i = first; i < last; ++i) {
    const std::size_t g = group_at(i);
    const FoundRow at = change.found[g];
    if (at.row == kNoRow) continue;
    std::byte* const weights = chunk_layout_.weights(at.chunk, at.row);
    std::byte* const state = chunk_layout_.state(at.chunk, at.row);
    fetch_lines(weights, chunk_layout_.weight_bytes, change.into);
    fetch_lines(state, chunk_layout_.state_bytes, change.into);
    if (change.keeps_time) __builtin_prefetch(&ChunkLayout::last_seen(at.chunk, at.row), 1);
    if (change.is_watched) __builtin_prefetch(at.chunk, 1);
    block.weights[count] = reinterpret_cast<float*>(weights);
    block.state[count] = reinterpret_cast<float*>(state);
    block.groups[count] = static_cast<std::uint32_t>(g);
    const std::uint32_t position =
        change.request.per_group ? static_cast<std::uint32_t>(g) : change.plan.first_position(g);
    block.positions[count] = position;
    fetch_lines(change.request.values + position * layout_.dim(), chunk_layout_.weight_bytes, change.into);
    if (nexts != nullptr) {
      for (std::uint32_t at = nexts[position]; at != kNoPosition; at = nexts[at]) {
        fetch_lines(change.request.values + at * layout_.dim(), chunk_layout_.weight_bytes, change.into);
      }
    }
    ++count;
  }
  block.count = count;
}

void RowTable::step_block(Change& change, const RowBlock& block, Scratch& scratch) {
  const ChangeRequest& request = change.request;
  const auto groups = std::span(block.groups).first(block.count);
  if (change.keeps_time) {
    for (const std::uint32_t g : groups)
      ChunkLayout::last_seen(change.found[g].chunk, change.found[g].row) = request.time;
  }
  static_assert(kNoNext == kNoPosition);
  const std::uint32_t* const nexts = request.per_group ? nullptr : change.plan.nexts();
  const StepRoom room{scratch.gradient.data(), scratch.before()};
  for (std::size_t done = 0; done < block.count; ++done) {
    const RowsToStep rows{block.weights.data() + done,
                          block.state.data() + done,
                          block.count - done,
                          request.values,
                          block.positions.data() + done,
                          nexts};
    done += layout_.step_rows(rows, request.learning_rates, request.global_step, room);
    if (done == block.count) return;
    std::memcpy(block.weights[done], scratch.weights.data(), layout_.weight_bytes());
    std::memcpy(block.state[done], scratch.state.data(), layout_.state_bytes());
    change.note_not_finite(groups[done]);
  }
}

void RowTable::refuse_not_finite(ChangeRequest::Kind kind, std::int64_t id, std::size_t count) const {
  const bool stepped = kind == ChangeRequest::Kind::kStep;
  std::string message = "table '" + options_.name + "': " + (stepped ? "the step" : "adding") +
                        " would make the row of id " + std::to_string(id) + " NaN or infinite; it keeps its value";
  if (count > 1) message += ", as do " + std::to_string(count - 1) + " others for the same reason";
  message += "; the other rows of the batch were changed. ";
  message += stepped ? "Lower the learning rate, or clip the gradients of rows (ClippedOptimizer)" : "Add less";
  throw NotFiniteRow(message);
}

}  // namespace monolith
