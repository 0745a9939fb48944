// The writing half of table files.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "io/shard_writer.h"
#include "io/table_file.h"
#include "ops/parallel_for.h"

namespace monolith {

namespace table_file {
namespace {

using ReadSubTable = std::function<RowBatch(std::uint32_t)>;

// Removes rows that have expired by `now`, keeping the order.
void drop_expired_rows(const RowTable& table, std::uint32_t now, RowBatch& batch) {
  const std::size_t row_bytes = table.layout().row_bytes();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    if (table.is_expired(batch.ids[i], batch.last_seen[i], now)) continue;
    batch.ids[kept] = batch.ids[i];
    batch.last_seen[kept] = batch.last_seen[i];
    std::memmove(batch.rows.data() + kept * row_bytes, batch.rows.data() + i * row_bytes, row_bytes);
    ++kept;
  }
  batch.ids.resize(kept);
  batch.last_seen.resize(kept);
  batch.rows.resize(kept * row_bytes);
}

// Rows of sub-tables, each of which is read once, and kept until every shard that has some of its rows has seen them.
class SharedSubTables {
 public:
  SharedSubTables(const ReadSubTable& read, std::uint32_t num_shards)
      : read_(read), num_shards_(num_shards), entries_(kNumSubTables) {}

  // Each shard calls this once for each of the sub-tables that its range touches. Safe for concurrent use.
  std::shared_ptr<const RowBatch> rows_of(std::uint32_t sub_table) {
    Entry& entry = entries_[sub_table];
    const std::lock_guard lock(entry.mutex);
    if (!entry.rows) {
      entry.rows = std::make_shared<const RowBatch>(read_(sub_table));
      const std::uint32_t first = shard_of_hash(first_hash_of_bucket(first_bucket(sub_table)), num_shards_);
      const std::uint32_t last = shard_of_hash(last_hash_of_bucket(last_bucket(sub_table)), num_shards_);
      entry.num_to_come = last - first + 1;
    }
    std::shared_ptr<const RowBatch> rows = entry.rows;
    if (--entry.num_to_come == 0) entry.rows.reset();
    return rows;
  }

  static std::uint32_t first_bucket(std::uint32_t sub_table) { return sub_table * kBucketsPerSubTable; }
  static std::uint32_t last_bucket(std::uint32_t sub_table) { return (sub_table + 1) * kBucketsPerSubTable - 1; }

 private:
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<const RowBatch> rows;
    std::uint32_t num_to_come = 0;
  };

  const ReadSubTable& read_;
  std::uint32_t num_shards_;
  std::vector<Entry> entries_;
};

// Writes one shard's file up to its last byte. Returns the number of its rows.
std::uint64_t write_shard(ShardWriter& file, const TableFileInfo& info, SharedSubTables& sub_tables) {
  const HashShard own{info.shard, info.num_shards};
  const std::size_t row_bytes = std::size_t{info.weight_bytes} + info.state_bytes;
  write_header(file, info);
  std::vector<BucketEntry> index;
  std::vector<std::byte> buffer;
  std::uint64_t num_rows = 0;
  const std::uint32_t last_sub_table = sub_table_of_hash(own.last_hash());
  for (std::uint32_t sub_table = sub_table_of_hash(own.first_hash()); sub_table <= last_sub_table; ++sub_table) {
    const std::shared_ptr<const RowBatch> batch = sub_tables.rows_of(sub_table);
    const auto row_after = [&](std::uint64_t hash) {
      return static_cast<std::size_t>(std::ranges::upper_bound(batch->ids, hash, {}, by_hash) - batch->ids.begin());
    };
    const std::uint32_t first = std::max(SharedSubTables::first_bucket(sub_table), own.first_bucket());
    const std::uint32_t last = std::min(SharedSubTables::last_bucket(sub_table), own.end_bucket() - 1);
    std::size_t row = own.first_hash() == 0 ? 0 : row_after(own.first_hash() - 1);
    for (std::uint32_t bucket = first; bucket <= last; ++bucket) {
      const std::size_t begin = row;
      row = row_after(std::min(own.last_hash(), last_hash_of_bucket(bucket)));
      index.push_back({file.offset(), row - begin});
      write_bucket(file, bucket, *batch, begin, row, row_bytes, buffer);
      num_rows += row - begin;
    }
  }
  write_end(file, index, num_rows);
  return num_rows;
}

// A shard holds its own rows and no others.
void check_all_own(const RowBatch& batch, HashShard own) {
  if (batch.ids.empty()) return;
  for (const std::int64_t id : {batch.ids.front(), batch.ids.back()}) {  // by ascending hash
    const std::uint32_t shard = shard_of_hash(hash_id(id), own.count);
    if (shard == own.index) continue;
    throw std::invalid_argument(own.name() + " holds rows of shard " + std::to_string(shard) + ", such as that of id " +
                                std::to_string(id) + "; send each id to its shard");
  }
}

}  // namespace

void write_bucket(ShardWriter& file, std::uint32_t bucket, const RowBatch& batch, std::size_t first, std::size_t last,
                  std::size_t row_bytes, std::vector<std::byte>& buffer) {
  for (std::size_t begin = first; begin < last; begin += kBlockRows) {
    const std::size_t count = std::min(kBlockRows, last - begin);
    buffer.clear();
    const auto append = [&](const void* data, std::size_t size) {
      const auto* from = static_cast<const std::byte*>(data);
      buffer.insert(buffer.end(), from, from + size);
    };
    const BlockHeader header{bucket, static_cast<std::uint32_t>(count)};
    append(&header, sizeof header);
    append(batch.ids.data() + begin, count * sizeof(std::int64_t));
    append(batch.last_seen.data() + begin, count * sizeof(std::uint32_t));
    append(batch.rows.data() + begin * row_bytes, count * row_bytes);
    const std::uint32_t crc = crc32c(buffer);
    append(&crc, sizeof crc);
    file.write(buffer);
  }
}

SavedTable write_shards(const std::string& basename, const TableFileInfo& info, ShardRun shards, bool in_parallel,
                        const std::function<WriteShard()>& start) {
  constexpr std::uint32_t kMaxRuns = 256;  // more than there are threads, for runs may be of different sizes
  const std::uint32_t num_shards = shards.last - shards.first;
  const std::uint32_t num_runs = std::min(num_shards, kMaxRuns);
  std::vector<std::unique_ptr<ShardWriter>> files(num_shards);
  std::atomic<std::uint64_t> num_rows{0};
  const auto write_run = [&](std::size_t run) {
    const WriteShard write = start();
    for (std::size_t i = num_shards * run / num_runs; i < num_shards * (run + 1) / num_runs; ++i) {
      TableFileInfo own = info;
      own.shard = shards.first + static_cast<std::uint32_t>(i);
      files[i] = std::make_unique<ShardWriter>(shard_file_name(basename, own.shard, info.num_shards));
      num_rows += write(*files[i], own);
    }
  };
  if (in_parallel) {
    parallel_io(num_runs, write_run);
  } else {
    for (std::size_t run = 0; run < num_runs; ++run) write_run(run);
  }
  // Names change only now that all shards are written: a save that fails leaves the one before it as it was.
  SavedTable saved{num_rows, {}};
  for (const auto& file : files) {
    file->commit();
    saved.checksums.push_back(file->crc());
  }
  sync_folder(basename);
  return saved;
}

}  // namespace table_file

std::string shard_file_name(const std::string& basename, std::uint32_t shard, std::uint32_t num_shards) {
  std::array<char, 32> suffix;
  std::snprintf(suffix.data(), suffix.size(), "-%05u-of-%05u", shard, num_shards);
  return basename + suffix.data();
}

FrozenTable::FrozenTable(std::shared_ptr<RowTable> table, std::optional<std::size_t> consumer)
    : table_(std::move(table)) {
  progress_ = consumer ? table_->begin_snapshot(*consumer, changes_) : table_->begin_snapshot();
  open_ = true;
}

bool FrozenTable::overflowed() const {
  return std::ranges::any_of(changes_, [](const ConsumerChanges& one) { return one.overflowed; });
}

SavedTable FrozenTable::save(const std::string& basename, TableFileInfo info, bool drop_expired, bool in_parallel) {
  check_num_shards(info.num_shards);
  return write(basename, std::move(info), std::nullopt, in_parallel, [&](std::uint32_t sub_table) {
    RowBatch batch = table_->read_snapshot(sub_table);
    if (drop_expired) table_file::drop_expired_rows(*table_, progress_.max_time, batch);
    return batch;
  });
}

SavedTable FrozenTable::save_shard(const std::string& basename, TableFileInfo info, HashShard own) {
  own.check();
  info.num_shards = own.count;
  return write(basename, std::move(info), own.index, false, [&](std::uint32_t sub_table) {
    RowBatch batch = table_->read_snapshot(sub_table);
    table_file::check_all_own(batch, own);
    return batch;
  });
}

SavedTable FrozenTable::save_changes(const std::string& basename, TableFileInfo info, HashShard own,
                                     std::vector<std::int64_t>& erased) {
  if (changes_.empty()) {
    throw std::logic_error("table '" + table_->options().name + "' was frozen for no consumer of changes");
  }
  std::vector<std::vector<std::int64_t>> parts(kNumSubTables);
  own.check();
  info.num_shards = own.count;
  SavedTable saved = write(basename, std::move(info), own.index, false, [&](std::uint32_t sub_table) {
    RowBatch batch = table_->read_snapshot_changes(sub_table, changes_[sub_table], parts[sub_table]);
    table_file::check_all_own(batch, own);
    return batch;
  });
  for (const auto& part : parts) erased.insert(erased.end(), part.begin(), part.end());
  return saved;
}

void FrozenTable::close() {
  if (!std::exchange(open_, false)) return;
  table_->end_snapshot();
  changes_ = {};
}

SavedTable FrozenTable::write(const std::string& basename, TableFileInfo info, std::optional<std::uint32_t> only_shard,
                              bool in_parallel, const std::function<RowBatch(std::uint32_t)>& read) {
  if (!open_) throw std::logic_error("table '" + table_->options().name + "' is not frozen any more; freeze it again");
  if (info.schema.size() > table_file::kMaxSchemaBytes) {
    throw std::invalid_argument("table '" + table_->options().name + "': its schema takes " +
                                std::to_string(info.schema.size()) + " bytes, a file holds at most " +
                                std::to_string(table_file::kMaxSchemaBytes) + "; use fewer segments");
  }
  const RowLayout& layout = table_->layout();
  info.max_time = progress_.max_time;
  info.max_step = progress_.max_step;
  info.weight_bytes = static_cast<std::uint32_t>(layout.weight_bytes());
  info.state_bytes = static_cast<std::uint32_t>(layout.state_bytes());
  info.serving = layout.serving();
  table_file::ShardRun shards{0, info.num_shards};
  if (only_shard) {
    shards = {*only_shard, *only_shard + 1};
    const HashShard own{*only_shard, info.num_shards};
    for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
      if (i < sub_table_of_hash(own.first_hash()) || i > sub_table_of_hash(own.last_hash())) read(i);
    }
  }
  table_file::SharedSubTables sub_tables(read, info.num_shards);
  SavedTable saved = table_file::write_shards(basename, info, shards, in_parallel, [&]() -> table_file::WriteShard {
    return [&](table_file::ShardWriter& file, const TableFileInfo& own) {
      return table_file::write_shard(file, own, sub_tables);
    };
  });
  close();
  return saved;
}

std::uint64_t save_table(RowTable& table, const std::string& basename, std::uint32_t num_shards, TableFileInfo info,
                         bool drop_expired) {
  info.num_shards = num_shards;
  FrozenTable frozen(std::shared_ptr<RowTable>(std::shared_ptr<RowTable>(), &table));  // owns nothing
  return frozen.save(basename, std::move(info), drop_expired, true).num_rows;
}

}  // namespace monolith
