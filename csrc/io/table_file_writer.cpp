// The writing half of table files.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include "io/table_file.h"
#include "io/table_file_format.h"
#include "ops/parallel_for.h"

namespace monolith {

namespace table_file {
namespace {

constexpr std::uint32_t kBucketsPerSubTable = kNumBuckets / kNumSubTables;

// A file that appears under its name only when it is complete.
class ShardWriter {
 public:
  explicit ShardWriter(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file_ < 0) fail(temporary_, "cannot create");
  }
  ~ShardWriter() {
    if (file_ >= 0) close(file_);
    if (!committed_) unlink(temporary_.c_str());
  }
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  std::uint64_t offset() const { return offset_; }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(temporary_, "cannot write");
      offset_ += static_cast<std::uint64_t>(written);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  // All of it is on the disk from here on, still under its temporary name.
  void finish() {
    if (fsync(file_) != 0) fail(temporary_, "cannot sync");
    if (close(std::exchange(file_, -1)) != 0) fail(temporary_, "cannot close");
  }

  void commit() {
    if (rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot rename to");
    committed_ = true;
  }

 private:
  std::string path_, temporary_;
  int file_ = -1;
  std::uint64_t offset_ = 0;
  bool committed_ = false;
};

// Makes the renames in the folder of `basename` last.
void sync_folder(const std::string& basename) {
  const std::string folder = basename.substr(0, basename.find_last_of('/') + 1);
  const int directory = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) fail(folder, "cannot open folder");
  const int synced = fsync(directory);
  close(directory);
  if (synced != 0) fail(folder, "cannot sync folder");
}

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

// The first sub-table of a shard; that of the shard after the last is the number of sub-tables.
std::uint32_t first_sub_table(std::uint32_t shard, std::uint32_t num_shards) {
  return static_cast<std::uint32_t>(std::uint64_t{kNumSubTables} * shard / num_shards);
}

void write_header(ShardWriter& file, const RowLayout& layout, const TableFileInfo& info) {
  Header header{};
  header.magic = kMagic;
  header.major = kMajor;
  header.minor = kMinor;
  header.endian_mark = kEndianMark;
  header.plan_hash = info.plan_hash;
  header.generation = info.generation;
  header.epoch = info.epoch;
  header.max_time = info.max_time;
  header.shard = info.shard;
  header.num_shards = info.num_shards;
  header.first_bucket = first_sub_table(info.shard, info.num_shards) * kBucketsPerSubTable;
  header.last_bucket = first_sub_table(info.shard + 1, info.num_shards) * kBucketsPerSubTable;
  header.weight_bytes = static_cast<std::uint32_t>(layout.weight_bytes());
  header.state_bytes = static_cast<std::uint32_t>(layout.state_bytes());
  header.serving = layout.serving() ? 1 : 0;
  header.schema_bytes = static_cast<std::uint32_t>(info.schema.size());
  const auto schema = std::as_bytes(std::span(info.schema));
  header.crc = header_crc(header, schema);
  file.write(bytes_of(header));
  file.write(schema);
}

// Writes one shard's file up to its last byte. Returns the number of its rows.
std::uint64_t write_shard(ShardWriter& file, RowTable& table, const TableFileInfo& info, bool drop_expired) {
  const std::size_t row_bytes = table.layout().row_bytes();
  write_header(file, table.layout(), info);
  std::vector<BucketEntry> index;
  std::vector<std::byte> buffer;
  std::uint64_t num_rows = 0;
  const std::uint32_t last = first_sub_table(info.shard + 1, info.num_shards);
  for (std::uint32_t sub_table = first_sub_table(info.shard, info.num_shards); sub_table < last; ++sub_table) {
    RowBatch batch = table.read_snapshot(sub_table);
    if (drop_expired) drop_expired_rows(table, info.max_time, batch);
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
  Footer footer{file.offset(), num_rows, crc32c(std::as_bytes(std::span(index))), 0, kEndMagic};
  footer.footer_crc = crc32c(bytes_of(footer).first(offsetof(Footer, footer_crc)));
  file.write(std::as_bytes(std::span(index)));
  file.write(bytes_of(footer));
  file.finish();
  return num_rows;
}

}  // namespace
}  // namespace table_file

std::string shard_file_name(const std::string& basename, std::uint32_t shard, std::uint32_t num_shards) {
  std::array<char, 32> suffix;
  std::snprintf(suffix.data(), suffix.size(), "-%05u-of-%05u", shard, num_shards);
  return basename + suffix.data();
}

std::uint64_t save_table(RowTable& table, const std::string& basename, std::uint32_t num_shards,
                         const TableFileInfo& info, bool drop_expired) {
  if (num_shards == 0 || num_shards > kNumSubTables) {
    throw std::invalid_argument("a table is saved in 1 to " + std::to_string(kNumSubTables) + " shards, got " +
                                std::to_string(num_shards));
  }
  if (info.schema.size() > table_file::kMaxSchemaBytes) {
    throw std::invalid_argument("table '" + table.options().name + "': its schema takes " +
                                std::to_string(info.schema.size()) + " bytes, a file holds at most " +
                                std::to_string(table_file::kMaxSchemaBytes) + "; use fewer segments");
  }
  TableFileInfo common = info;
  common.num_shards = num_shards;
  common.max_time = table.begin_snapshot();
  std::vector<std::unique_ptr<table_file::ShardWriter>> files(num_shards);
  std::atomic<std::uint64_t> num_rows{0};
  try {
    parallel_for(num_shards, [&](std::size_t shard) {
      TableFileInfo own = common;
      own.shard = static_cast<std::uint32_t>(shard);
      files[shard] = std::make_unique<table_file::ShardWriter>(shard_file_name(basename, own.shard, num_shards));
      num_rows += table_file::write_shard(*files[shard], table, own, drop_expired);
    });
  } catch (...) {
    table.end_snapshot();
    throw;
  }
  table.end_snapshot();
  // Names change only now that all shards are written: a save that fails leaves the one before it as it was.
  for (const auto& file : files) file->commit();
  table_file::sync_folder(basename);
  return num_rows;
}

}  // namespace monolith
