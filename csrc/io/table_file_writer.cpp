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
  SharedSubTables(const ReadSubTable& read, const TableHash& hash, std::uint32_t num_shards)
      : read_(read), hash_(hash), num_shards_(num_shards), entries_(kNumSubTables) {}

  const TableHash& hash() const { return hash_; }

  // Each shard calls this once for each of the sub-tables that its range touches. Safe for concurrent use.
  std::shared_ptr<const RowBatch> rows_of(std::uint32_t sub_table) {
    Entry& entry = entries_[sub_table];
    const std::lock_guard lock(entry.mutex);
    if (!entry.rows) {
      entry.rows = std::make_shared<const RowBatch>(read_(sub_table));
      const std::uint32_t first = shard_of_hash(hash_.first_of_sub_table(sub_table), num_shards_);
      const std::uint32_t last = shard_of_hash(hash_.last_of_sub_table(sub_table), num_shards_);
      entry.num_to_come = last - first + 1;
    }
    std::shared_ptr<const RowBatch> rows = entry.rows;
    if (--entry.num_to_come == 0) entry.rows.reset();
    return rows;
  }

 private:
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<const RowBatch> rows;
    std::uint32_t num_to_come = 0;
  };

  const ReadSubTable& read_;
  const TableHash hash_;
  std::uint32_t num_shards_;
  std::vector<Entry> entries_;
};

// Writes the rows of a shard bucket by bucket. A sub-table has several buckets, or, in a table of one of many shards, a
// bucket several sub-tables. Blocks do not depend on it: the same rows are the same bytes.
class BucketWriter {
 public:
  BucketWriter(ShardWriter& file, HashShard own, std::size_t row_bytes)
      : file_(file), own_(own), row_bytes_(row_bytes), bucket_(own.first_bucket()) {
    index_.push_back({file_.offset(), 0});
  }

  // The shard's own of these rows, which are all up to `last_hash` that did not come before.
  void append(const RowBatch& batch, std::uint64_t last_hash) {
    const auto row_after = [&](std::uint64_t hash) {
      return static_cast<std::size_t>(std::ranges::upper_bound(batch.ids, hash, {}, by_hash) - batch.ids.begin());
    };
    std::size_t row = own_.first_hash() == 0 ? 0 : row_after(own_.first_hash() - 1);
    const std::size_t end = row_after(own_.last_hash());
    while (row < end) {
      const std::size_t end_of_bucket = std::min(end, row_after(last_hash_of_bucket(bucket_)));
      index_.back().num_rows += end_of_bucket - row;
      write(batch, row, end_of_bucket, std::min(own_.last_hash(), last_hash_of_bucket(bucket_)) <= last_hash);
      row = end_of_bucket;
      if (row < end) next_bucket();
    }
  }

  // Returns where each bucket of the shard begins, and how many rows it has.
  std::vector<BucketEntry> finish() {
    while (bucket_ + 1 < own_.end_bucket()) next_bucket();
    flush();
    return std::move(index_);
  }

 private:
  // Straight from the batch; but what does not fill a block waits for the next rows of the bucket, if they are to come.
  void write(const RowBatch& batch, std::size_t first, std::size_t last, bool is_end_of_bucket) {
    if (!pending_.ids.empty()) {
      const std::size_t filled = std::min(last, first + kBlockRows - pending_.ids.size());
      pend(batch, first, filled);
      if (pending_.ids.size() == kBlockRows) flush();
      first = filled;
    }
    const std::size_t end = is_end_of_bucket ? last : first + (last - first) / kBlockRows * kBlockRows;
    write_bucket(file_, bucket_, batch, first, end, row_bytes_, buffer_);
    pend(batch, end, last);
  }

  void pend(const RowBatch& batch, std::size_t first, std::size_t last) {
    const auto add = [&](auto& to, const auto& from, std::size_t size) {
      to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(first * size),
                from.begin() + static_cast<std::ptrdiff_t>(last * size));
    };
    add(pending_.ids, batch.ids, 1);
    add(pending_.last_seen, batch.last_seen, 1);
    add(pending_.rows, batch.rows, row_bytes_);
  }

  void flush() {
    write_bucket(file_, bucket_, pending_, 0, pending_.ids.size(), row_bytes_, buffer_);
    pending_.ids.clear();
    pending_.last_seen.clear();
    pending_.rows.clear();
  }

  void next_bucket() {
    flush();
    ++bucket_;
    index_.push_back({file_.offset(), 0});
  }

  ShardWriter& file_;
  const HashShard own_;
  const std::size_t row_bytes_;
  std::uint32_t bucket_;
  std::vector<BucketEntry> index_;
  RowBatch pending_;
  std::vector<std::byte> buffer_;
};

// Writes one shard's file up to its last byte. Returns the number of its rows.
std::uint64_t write_shard(ShardWriter& file, const TableFileInfo& info, SharedSubTables& sub_tables) {
  const HashShard own{info.shard, info.num_shards};
  write_header(file, info);
  BucketWriter buckets(file, own, std::size_t{info.weight_bytes} + info.state_bytes);
  const TableHash::SubTables touched = sub_tables.hash().sub_tables_of(own);
  for (std::uint32_t sub_table = touched.first; sub_table < touched.last; ++sub_table) {
    buckets.append(*sub_tables.rows_of(sub_table), sub_tables.hash().last_of_sub_table(sub_table));
  }
  const std::vector<BucketEntry> index = buckets.finish();
  std::uint64_t num_rows = 0;
  for (const BucketEntry& bucket : index) num_rows += bucket.num_rows;
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
    const TableHash::SubTables touched = table_->hash().sub_tables_of(own);
    for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
      if (i < touched.first || i >= touched.last) read(i);
    }
  }
  table_file::SharedSubTables sub_tables(read, table_->hash(), info.num_shards);
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
