// Snapshots of RowTable: rows as they were at one moment, while training goes on.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "table/block.h"
#include "table/row_table.h"
#include "table/sub_table_order.h"

namespace monolith {

namespace {

struct Located {
  std::uint64_t hash;
  std::uint32_t row;
};

// Gives rows their ids, and the order of files, which is that of hashes: the same rows are the same bytes.
RowBatch in_file_order(RowBatch batch, const std::vector<std::uint64_t>& hashes, std::size_t row_bytes,
                       const TableHash& hash) {
  batch.ids.resize(hashes.size());
  if (std::ranges::is_sorted(hashes)) {
    std::ranges::transform(hashes, batch.ids.begin(), [&](std::uint64_t one) { return hash.id_of(one); });
    return batch;
  }
  std::vector<std::uint32_t> order(hashes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t row) { return hashes[row]; });
  RowBatch sorted;
  sorted.ids.resize(hashes.size());
  sorted.last_seen.resize(hashes.size());
  sorted.rows.resize(batch.rows.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    sorted.ids[i] = hash.id_of(hashes[order[i]]);
    sorted.last_seen[i] = batch.last_seen[order[i]];
    std::memcpy(sorted.rows.data() + i * row_bytes, batch.rows.data() + order[i] * row_bytes, row_bytes);
  }
  return sorted;
}

}  // namespace

TableProgress RowTable::begin_snapshot() {
  const std::unique_lock batch(batch_mutex_);
  start_snapshot([](std::uint32_t) {});
  return {max_time(), max_step()};
}

TableProgress RowTable::begin_snapshot(std::size_t consumer, std::vector<ConsumerChanges>& changes) {
  const std::unique_lock batch(batch_mutex_);
  check_consumer(consumer);
  changes.resize(kNumSubTables);
  start_snapshot([&](std::uint32_t number) { changes[number] = sub_tables_[number].take_changes(consumer); });
  return {max_time(), max_step()};
}

template <typename AtThatMoment>
void RowTable::start_snapshot(const AtThatMoment& also) {
  if (snapshot_running_) {
    throw std::logic_error("a snapshot of table '" + options_.name + "' is being taken already; wait for its end");
  }
  snapshot_running_ = true;
  ++snapshot_epoch_;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    const std::unique_lock lock(sub_tables_[i].lock);
    sub_tables_[i].snapshot_epoch = snapshot_epoch_;
    also(i);
  }
}

void RowTable::end_snapshot() {
  const std::unique_lock batch(batch_mutex_);
  snapshot_running_ = false;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    const std::unique_lock lock(sub_tables_[i].lock);
    sub_tables_[i].snapshot_epoch = 0;
    sub_tables_[i].preserved = {};
  }
}

void RowTable::check_snapshot(std::uint32_t number) const {
  if (sub_tables_[number].snapshot_epoch != 0) return;
  throw std::logic_error("table '" + options_.name + "': sub-table " + std::to_string(number) +
                         " is not part of a running snapshot, or was read already");
}

void RowTable::append_row(const SubTable& sub_table, std::uint32_t row, RowBatch& batch) const {
  batch.last_seen.push_back(sub_table.last_seen(row));
  const std::size_t end = batch.rows.size();
  batch.rows.resize(end + layout_.row_bytes());
  std::memcpy(batch.rows.data() + end, sub_table.weights(chunk_layout_, row), chunk_layout_.weight_bytes);
  std::memcpy(batch.rows.data() + end + chunk_layout_.weight_bytes, sub_table.state(chunk_layout_, row),
              chunk_layout_.state_bytes);
}

RowBatch RowTable::read_snapshot(std::uint32_t number) {
  SubTable& sub_table = sub_tables_[number];
  std::vector<Located> live;
  {
    const Guest guest(gate_);
    const std::shared_lock lock(sub_table.lock);
    check_snapshot(number);
    live.reserve(sub_table.index.size());
    sub_table.index.visit_lines(0, sub_table.index.num_lines(),
                                [&](std::uint64_t hash, std::uint32_t row) { live.push_back({hash, row}); });
  }
  RowBatch found;
  found.last_seen.reserve(live.size());
  found.rows.reserve(live.size() * layout_.row_bytes());
  std::vector<std::uint64_t> hashes;
  hashes.reserve(live.size());
  // In the order of the file, so that most rows need not be moved again. Rows that training has not touched are copied
  // block by block; the others were set aside by before_change.
  std::ranges::sort(live, {}, &Located::hash);
  for (std::size_t first = 0; first < live.size(); first += kBlockGroups) {
    const Guest guest(gate_);
    const std::unique_lock lock(sub_table.lock);
    for (std::size_t i = first; i < std::min(live.size(), first + kBlockGroups); ++i) {
      const auto [hash, row] = live[i];
      if (!sub_table.preserve(chunk_layout_, hash, row, false)) continue;
      hashes.push_back(hash);
      append_row(sub_table, row, found);
    }
  }
  const PreservedRows aside = take_preserved(sub_table);
  hashes.insert(hashes.end(), aside.hashes.begin(), aside.hashes.end());
  found.last_seen.insert(found.last_seen.end(), aside.last_seen.begin(), aside.last_seen.end());
  found.rows.insert(found.rows.end(), aside.rows.begin(), aside.rows.end());
  return in_file_order(std::move(found), hashes, layout_.row_bytes(), hash_);
}

RowBatch RowTable::read_snapshot_changes(std::uint32_t number, const ConsumerChanges& changes,
                                         std::vector<std::int64_t>& erased) {
  SubTable& sub_table = sub_tables_[number];
  std::vector<std::uint64_t> changed = changes.touched_hashes;
  changed.insert(changed.end(), changes.erased_hashes.begin(), changes.erased_hashes.end());
  std::ranges::sort(changed);
  const auto repeated = std::ranges::unique(changed);
  changed.erase(repeated.begin(), repeated.end());
  {
    const Guest guest(gate_);
    const std::shared_lock lock(sub_table.lock);
    check_snapshot(number);
  }
  RowBatch found;
  std::vector<std::uint64_t> hashes;
  for (std::size_t first = 0; first < changed.size(); first += kBlockGroups) {
    const Guest guest(gate_);
    const std::unique_lock lock(sub_table.lock);
    for (std::size_t i = first; i < std::min(changed.size(), first + kBlockGroups); ++i) {
      const std::uint32_t row = sub_table.index.find_row(changed[i]);
      if (row == kNoRow || !sub_table.preserve(chunk_layout_, changed[i], row, false)) continue;
      hashes.push_back(changed[i]);
      append_row(sub_table, row, found);
    }
  }
  const PreservedRows aside = take_preserved(sub_table);
  const std::size_t row_bytes = layout_.row_bytes();
  for (std::size_t i = 0; i < aside.hashes.size(); ++i) {
    if (!std::ranges::binary_search(changed, aside.hashes[i])) continue;
    hashes.push_back(aside.hashes[i]);
    found.last_seen.push_back(aside.last_seen[i]);
    const auto row = aside.rows.begin() + static_cast<std::ptrdiff_t>(i * row_bytes);
    found.rows.insert(found.rows.end(), row, row + static_cast<std::ptrdiff_t>(row_bytes));
  }
  RowBatch batch = in_file_order(std::move(found), hashes, row_bytes, hash_);
  std::size_t next = 0;
  for (const std::uint64_t hash : changed) {
    if (next < batch.ids.size() && batch.ids[next] == hash_.id_of(hash)) {
      ++next;
    } else {
      erased.push_back(hash_.id_of(hash));
    }
  }
  return batch;
}

PreservedRows RowTable::take_preserved(SubTable& sub_table) const {
  const Guest guest(gate_);
  const std::unique_lock lock(sub_table.lock);
  sub_table.snapshot_epoch = 0;  // this sub-table is done: writers need not set rows aside any more
  return std::exchange(sub_table.preserved, {});
}

bool RowTable::has_room_for(std::uint32_t number, std::size_t num_rows, bool after_clear) const {
  if (options_.max_memory_bytes == 0 || options_.memory_policy != MemoryPolicy::kRefuseNewIds) return true;
  const SubTable& sub_table = sub_tables_[number];
  const Guest guest(gate_);
  const std::shared_lock lock(sub_tables_[number].lock);
  if (!after_clear) num_rows += sub_table.index.size();
  return sub_table.bytes_for(chunk_layout_, num_rows) <= options_.max_memory_bytes / kNumSubTables;
}

RowBatch RowTable::read_rows(std::uint32_t number) const {
  const SubTable& sub_table = sub_tables_[number];
  const Guest guest(gate_);
  const std::shared_lock lock(sub_tables_[number].lock);
  std::vector<Located> live;
  live.reserve(sub_table.index.size());
  sub_table.index.visit_lines(0, sub_table.index.num_lines(),
                              [&](std::uint64_t hash, std::uint32_t row) { live.push_back({hash, row}); });
  std::ranges::sort(live, {}, &Located::hash);
  RowBatch batch;
  const std::size_t row_bytes = layout_.row_bytes();
  batch.rows.resize(live.size() * row_bytes);
  for (std::size_t i = 0; i < live.size(); ++i) {
    const auto [hash, row] = live[i];
    batch.ids.push_back(hash_.id_of(hash));
    batch.last_seen.push_back(sub_table.last_seen(row));
    std::byte* to = batch.rows.data() + i * row_bytes;
    std::memcpy(to, sub_table.weights(chunk_layout_, row), chunk_layout_.weight_bytes);
    std::memcpy(to + chunk_layout_.weight_bytes, sub_table.state(chunk_layout_, row), chunk_layout_.state_bytes);
  }
  return batch;
}

void RowTable::restore(std::span<const std::int64_t> ids, std::span<const std::uint32_t> last_seen,
                       std::span<const std::byte> rows) {
  const std::shared_lock batch(batch_mutex_);
  const Writer writer(gate_);
  const std::size_t row_bytes = layout_.row_bytes();
  const PooledPlan pooled = acquire_plan();
  BatchPlan& plan = *pooled;
  plan.build(ids, true, hash_);
  const SubTableOrder order(plan.hashes());
  for_each_block(sub_tables_.get(), order.hashes(),
                 [&](std::size_t first, std::size_t count, const auto& prefetch_next) {
                   prefetch_whole_next(prefetch_next);
                   const auto hashes = order.hashes().subspan(first, count);
                   std::array<std::uint32_t, kBlockGroups> found;
                   const Block block(gate_, sub_tables_.get(), hashes, Access::kExclusive);
                   block.find_rows(hashes, found.data());
                   for (const Block::Run& run : block.runs()) {
                     SubTable& sub_table = *run.sub_table;
                     const std::uint32_t found_version = sub_table.erase_version;
                     for (std::size_t i = run.first; i < run.first + run.count; ++i) {
                       const std::uint32_t position = plan.last_position(order.groups()[first + i]);
                       const std::byte* from = rows.data() + position * row_bytes;
                       // Making room for an earlier row may have evicted this one.
                       std::uint32_t row =
                           sub_table.erase_version == found_version ? found[i] : sub_table.index.find_row(hashes[i]);
                       if (options_.skip_zero_embedding && layout_.reads_as_zeros(from)) {
                         if (row != kNoRow) erase_row(sub_table, hashes[i]);
                         raise_max_time(last_seen[position]);
                         continue;
                       }
                       if (row == kNoRow) row = insert_row(sub_table, hashes[i], last_seen[position], true);
                       if (row == kNoRow) throw std::bad_alloc();
                       sub_table.before_change(chunk_layout_, hashes[i], row);
                       std::memcpy(sub_table.weights(chunk_layout_, row), from, chunk_layout_.weight_bytes);
                       std::memcpy(sub_table.state(chunk_layout_, row), from + chunk_layout_.weight_bytes,
                                   chunk_layout_.state_bytes);
                       sub_table.last_seen(row) = last_seen[position];
                       raise_max_time(last_seen[position]);
                     }
                   }
                 });
}

}  // namespace monolith
