// The writing half of table files.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include "io/shard_writer.h"
#include "io/table_file.h"
#include "ops/parallel_for.h"

namespace monolith {

namespace table_file {
namespace {

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

// Writes one shard's file up to its last byte. Returns the number of its rows.
std::uint64_t write_shard(ShardWriter& file, const TableFileInfo& info, const ReadSubTable& read) {
  const std::size_t row_bytes = std::size_t{info.weight_bytes} + info.state_bytes;
  write_header(file, info);
  std::vector<BucketEntry> index;
  std::vector<std::byte> buffer;
  std::uint64_t num_rows = 0;
  const std::uint32_t last = first_sub_table(info.shard + 1, info.num_shards);
  for (std::uint32_t sub_table = first_sub_table(info.shard, info.num_shards); sub_table < last; ++sub_table) {
    const RowBatch batch = read(sub_table);
    std::size_t row = 0;
    for (std::uint32_t b = 0; b < kBucketsPerSubTable; ++b) {
      const std::uint32_t bucket = sub_table * kBucketsPerSubTable + b;
      const std::size_t begin = row;
      while (row < batch.ids.size() && bucket_of_id(batch.ids[row]) == bucket) ++row;
      index.push_back({file.offset(), row - begin});
      write_bucket(file, bucket, batch, begin, row, row_bytes, buffer);
    }
    num_rows += row;
  }
  write_end(file, index, num_rows);
  return num_rows;
}

void check_num_shards(std::uint32_t num_shards) {
  if (num_shards != 0 && num_shards <= kNumSubTables) return;
  throw std::invalid_argument("a table is saved in 1 to " + std::to_string(kNumSubTables) + " shards, got " +
                              std::to_string(num_shards));
}

}  // namespace

SavedTable write_shards(const std::string& basename, TableFileInfo info, bool in_parallel, const WriteShard& write) {
  check_num_shards(info.num_shards);
  std::vector<std::unique_ptr<ShardWriter>> files(info.num_shards);
  std::atomic<std::uint64_t> num_rows{0};
  const auto write_one = [&](std::size_t shard) {
    TableFileInfo own = info;
    own.shard = static_cast<std::uint32_t>(shard);
    files[shard] = std::make_unique<ShardWriter>(shard_file_name(basename, own.shard, info.num_shards));
    num_rows += write(*files[shard], own);
  };
  if (in_parallel) {
    parallel_io(info.num_shards, write_one);
  } else {
    for (std::size_t shard = 0; shard < info.num_shards; ++shard) write_one(shard);
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
  return write(basename, std::move(info), in_parallel, [&](std::uint32_t sub_table) {
    RowBatch batch = table_->read_snapshot(sub_table);
    if (drop_expired) table_file::drop_expired_rows(*table_, progress_.max_time, batch);
    return batch;
  });
}

SavedTable FrozenTable::save_changes(const std::string& basename, TableFileInfo info, bool in_parallel,
                                     std::vector<std::int64_t>& erased) {
  if (changes_.empty()) {
    throw std::logic_error("table '" + table_->options().name + "' was frozen for no consumer of changes");
  }
  std::vector<std::vector<std::int64_t>> parts(kNumSubTables);
  SavedTable saved = write(basename, std::move(info), in_parallel, [&](std::uint32_t sub_table) {
    return table_->read_snapshot_changes(sub_table, changes_[sub_table], parts[sub_table]);
  });
  for (const auto& part : parts) erased.insert(erased.end(), part.begin(), part.end());
  return saved;
}

void FrozenTable::close() {
  if (!std::exchange(open_, false)) return;
  table_->end_snapshot();
  changes_ = {};
}

SavedTable FrozenTable::write(const std::string& basename, TableFileInfo info, bool in_parallel,
                              const table_file::ReadSubTable& read) {
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
  SavedTable saved = table_file::write_shards(basename, std::move(info), in_parallel,
                                              [&](table_file::ShardWriter& file, const TableFileInfo& own) {
                                                return table_file::write_shard(file, own, read);
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
