#include "table/row_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "table/block.h"

namespace monolith {

RowTable::RowTable(TableOptions options)
    : options_(std::move(options)),
      hash_(options_.shard),
      layout_(options_.segments, options_.serving),
      chunk_layout_(layout_),
      sub_tables_(std::make_unique<SubTable[]>(kNumSubTables)),
      no_chunk_(chunk_layout_.first_weights + chunk_layout_.weight_bytes) {
  const std::size_t least =
      kNumSubTables * (SubTable().bytes(chunk_layout_) + SubTable().bytes_for_one_more(chunk_layout_));
  if (options_.max_memory_bytes != 0 && options_.max_memory_bytes < least) {
    throw std::invalid_argument("table '" + options_.name + "': max_memory_bytes is " +
                                std::to_string(options_.max_memory_bytes) + ", but rows of this width need at least " +
                                std::to_string(least));
  }
  if (options_.skip_zero_embedding && !options_.serving) {
    throw std::invalid_argument("table '" + options_.name + "': only a serving table can skip zero embeddings");
  }
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    sub_tables_[i].view = &views_[i];
    sub_tables_[i].refresh_view();
    sub_tables_[i].index.set_sub_table(i);
    sub_tables_[i].max_changes = std::max<std::size_t>(1, options_.max_changes_per_consumer / kNumSubTables);
    reserve(sub_tables_[i]);
  }
}

// Hashing spreads rows evenly, but for chance: four standard deviations of it are reserved too.
void RowTable::reserve(SubTable& sub_table) {
  const std::size_t mean = options_.initial_capacity / kNumSubTables;
  if (mean == 0) return;
  const std::size_t count = mean + 4 * static_cast<std::size_t>(std::sqrt(static_cast<double>(mean)));
  const std::size_t share = options_.max_memory_bytes / kNumSubTables;
  if (share != 0 && sub_table.bytes_for(chunk_layout_, count) > share) {
    throw std::invalid_argument("table '" + options_.name + "': an initial_capacity of " +
                                std::to_string(options_.initial_capacity) +
                                " rows does not fit a max_memory_bytes of " +
                                std::to_string(options_.max_memory_bytes) + "; lower the one or raise the other");
  }
  sub_table.reserve(chunk_layout_, arena_, count);
}

void RowTable::expect_rows(std::uint32_t number, std::size_t num_rows) {
  const std::shared_lock batch(batch_mutex_);
  const Writer writer(gate_);
  const Guest guest(gate_);
  SubTable& sub_table = sub_tables_[number];
  const std::unique_lock lock(sub_table.lock);
  const std::size_t share = options_.max_memory_bytes / kNumSubTables;
  if (sub_table.index.size() != 0 || (share != 0 && sub_table.bytes_for(chunk_layout_, num_rows) > share)) return;
  sub_table.index.reserve(num_rows);
  sub_table.refresh_view();
}

std::size_t RowTable::size() const {
  std::size_t rows = 0;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    const Guest guest(gate_);
    const std::shared_lock lock(sub_tables_[i].lock);
    rows += sub_tables_[i].index.size();
  }
  return rows;
}

TableMemory RowTable::memory() const {
  TableMemory memory;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    const SubTable& sub_table = sub_tables_[i];
    const Guest guest(gate_);
    const std::shared_lock lock(sub_tables_[i].lock);
    memory.index_bytes += sub_table.index.bytes() + sizeof(SubTable);
    memory.row_bytes += sub_table.bytes(chunk_layout_) - sub_table.index.bytes() - sizeof(SubTable);
    memory.payload_bytes += sub_table.index.size() * layout_.row_bytes();
  }
  return memory;
}

void RowTable::raise_max_time(std::uint32_t time) {
  std::uint32_t seen = max_time_.load(std::memory_order_relaxed);
  while (seen < time && !max_time_.compare_exchange_weak(seen, time, std::memory_order_relaxed)) {
  }
}

void RowTable::raise_max_step(std::int64_t global_step) {
  std::int64_t seen = max_step();
  while (seen < global_step && !max_step_.compare_exchange_weak(seen, global_step, std::memory_order_relaxed)) {
  }
  layout_.advance_compressors(global_step);
}

void RowTable::set_filter(std::shared_ptr<AdmissionFilter> filter, SlotThresholds thresholds) {
  const std::unique_lock batch(batch_mutex_);
  filter_ = std::move(filter);
  thresholds_ = std::move(thresholds);
}

std::size_t RowTable::erase(std::span<const std::int64_t> ids) {
  const std::shared_lock batch(batch_mutex_);
  const Writer writer(gate_);
  return erase_rows(ids);
}

std::size_t RowTable::erase_rows(std::span<const std::int64_t> ids) {
  std::size_t erased = 0;
  for (const std::int64_t id : ids) {
    if (!hash_.has(id)) continue;
    const std::uint64_t hash = hash_.of(id);
    const Block block(gate_, sub_tables_.get(), std::span(&hash, 1), Access::kExclusive);
    erased += erase_row(sub_table_of(hash), hash);
  }
  return erased;
}

bool RowTable::erase_row(SubTable& sub_table, std::uint64_t hash) {
  erase_count_.fetch_add(1, std::memory_order_relaxed);
  return sub_table.erase(chunk_layout_, hash);
}

void RowTable::reinitialize(std::span<const std::int64_t> ids, std::uint32_t time, std::int32_t* status) {
  hash_.check(ids);
  const std::shared_lock batch(batch_mutex_);
  const Writer writer(gate_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint64_t hash = hash_.of(ids[i]);
    const Block block(gate_, sub_tables_.get(), std::span(&hash, 1), Access::kExclusive);
    SubTable& sub_table = sub_table_of(hash);
    std::uint32_t row = sub_table.index.find_row(hash);
    status[i] = row == kNoRow ? 0 : 1;
    if (row == kNoRow) row = insert_row(sub_table, hash, time);
    if (row == kNoRow) {
      status[i] = -1;
      continue;
    }
    sub_table.before_change(chunk_layout_, hash, row);
    layout_.initialize(ids[i], sub_table.weights(chunk_layout_, row), sub_table.state(chunk_layout_, row));
    sub_table.last_seen(row) = time;
  }
  raise_max_time(time);
}

std::uint32_t RowTable::expire_days(std::int64_t id) const {
  const auto slot = static_cast<std::uint32_t>((static_cast<std::uint64_t>(id) >> 48) & 0x7FFF);
  const auto found = options_.slot_expire_days.find(slot);
  return found == options_.slot_expire_days.end() ? options_.default_expire_days : found->second;
}

bool RowTable::is_expired(std::int64_t id, std::uint32_t last_seen, std::uint32_t now) const {
  constexpr std::int64_t kSecondsPerDay = 86400;
  return std::int64_t{now} - std::int64_t{last_seen} >= std::int64_t{expire_days(id)} * kSecondsPerDay;
}

std::size_t RowTable::evict(std::uint32_t now) {
  const std::shared_lock batch(batch_mutex_);
  const Writer writer(gate_);
  constexpr std::size_t kLinesAtOnce = 8;  // 64 entries
  std::atomic<std::size_t> evicted{0};
  parallel_for(kNumSubTables, [&](std::size_t number) {
    SubTable& sub_table = sub_tables_[number];
    std::vector<std::uint64_t> victims;
    std::size_t lines = 0;
    for (std::size_t line = 0;;) {
      const Guest guest(gate_);
      const std::unique_lock lock(sub_table.lock);
      if (lines != sub_table.index.num_lines()) {  // it grew meanwhile: entries have moved
        lines = sub_table.index.num_lines();
        line = 0;
      }
      if (line >= lines) break;
      const std::size_t last = std::min(lines, line + kLinesAtOnce);
      victims.clear();
      sub_table.index.visit_lines(line, last, [&](std::uint64_t hash, std::uint32_t row) {
        if (is_expired(hash_.id_of(hash), sub_table.last_seen(row), now)) victims.push_back(hash);
      });
      for (const std::uint64_t hash : victims) erase_row(sub_table, hash);
      evicted.fetch_add(victims.size(), std::memory_order_relaxed);
      // Erasing may pull entries back into these lines, so they are looked at again until none expires.
      if (victims.empty()) line = last;
    }
  });
  return evicted.load();
}

void RowTable::clear() {
  const std::unique_lock batch(batch_mutex_);
  const Writer writer(gate_);
  if (snapshot_running_) throw std::logic_error("table '" + options_.name + "' cannot be cleared during a snapshot");
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) sub_tables_[i].lock.lock();
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) sub_tables_[i].clear();
  arena_.clear();
  ++erase_count_;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) sub_tables_[i].lock.unlock();
  max_time_.store(0);
  max_step_.store(0);
  layout_.restart_compressors();
}

std::size_t RowTable::add_consumer() {
  const std::unique_lock batch(batch_mutex_);
  const auto free = std::ranges::find(consumer_used_, false);
  if (free == consumer_used_.end()) {
    throw std::invalid_argument("table '" + options_.name + "' has " + std::to_string(kMaxConsumers) +
                                " consumers of changes already; remove one first");
  }
  const auto consumer = static_cast<std::size_t>(free - consumer_used_.begin());
  *free = true;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    const std::unique_lock lock(sub_tables_[i].lock);
    SubTable& sub_table = sub_tables_[i];
    if (sub_table.consumers.size() <= consumer) sub_table.consumers.resize(consumer + 1);
    sub_table.take_changes(consumer);
  }
  return consumer;
}

void RowTable::check_consumer(std::size_t consumer) const {
  if (consumer >= kMaxConsumers || !consumer_used_[consumer]) {
    throw std::invalid_argument("table '" + options_.name + "' has no consumer " + std::to_string(consumer));
  }
}

void RowTable::remove_consumer(std::size_t consumer) {
  const std::unique_lock batch(batch_mutex_);
  check_consumer(consumer);
  consumer_used_[consumer] = false;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    const std::unique_lock lock(sub_tables_[i].lock);
    ConsumerChanges& changes = sub_tables_[i].consumers[consumer];
    changes = {};
    changes.overflowed = true;  // nothing is listed for it from now on
  }
}

Changes RowTable::take_changes(std::size_t consumer) {
  const std::unique_lock batch(batch_mutex_);
  check_consumer(consumer);
  Changes changes;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    const std::unique_lock lock(sub_tables_[i].lock);
    const SubTable& sub_table = sub_tables_[i];
    ConsumerChanges taken = sub_tables_[i].take_changes(consumer);
    changes.overflowed |= taken.overflowed;
    std::ranges::sort(taken.erased_hashes);
    const auto [first, last] = std::ranges::unique(taken.erased_hashes);
    taken.erased_hashes.erase(first, last);
    for (const std::uint64_t hash : taken.erased_hashes) {
      // An id that came back is among the touched.
      if (sub_table.index.find_row(hash) == kNoRow) changes.erased.push_back(hash_.id_of(hash));
    }
    std::ranges::sort(taken.touched_hashes);
    const auto repeated = std::ranges::unique(taken.touched_hashes);
    taken.touched_hashes.erase(repeated.begin(), repeated.end());
    for (const std::uint64_t hash : taken.touched_hashes) {
      if (sub_table.index.find_row(hash) != kNoRow) changes.touched.push_back(hash_.id_of(hash));
    }
  }
  return changes;
}

void RowTable::give_back_changes(std::size_t consumer, const Changes& changes) {
  const std::unique_lock batch(batch_mutex_);
  check_consumer(consumer);
  hash_.check(changes.erased);
  hash_.check(changes.touched);
  const auto mark = [&](std::int64_t id) {
    const std::uint64_t hash = hash_.of(id);
    SubTable& sub_table = sub_table_of(hash);
    const std::unique_lock lock(sub_table.lock);
    const std::uint32_t row = sub_table.index.find_row(hash);
    if (row == kNoRow) {
      sub_table.mark_erased(consumer, hash);
    } else if ((sub_table.header(row).dirty[consumer] >> SubTable::place_of(row) & 1) == 0) {
      sub_table.mark_dirty(consumer, hash, row);
    }
  };
  for (const std::int64_t id : changes.erased) mark(id);
  for (const std::int64_t id : changes.touched) mark(id);
  if (!changes.overflowed) return;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    const std::unique_lock lock(sub_tables_[i].lock);
    ConsumerChanges& outstanding = sub_tables_[i].consumers[consumer];
    outstanding = {};
    outstanding.overflowed = true;
  }
}

}  // namespace monolith
