// One file of a table in the making.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/table_file.h"
#include "io/table_file_format.h"

namespace monolith::table_file {

// A file that appears under its name only when it is complete.
class ShardWriter {
 public:
  explicit ShardWriter(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file_ < 0) fail(temporary_, "cannot create");
  }
  ~ShardWriter() {
    if (file_ >= 0) close(file_);
    if (!committed_) unlink(temporary_.c_str());
  }
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  std::uint64_t offset() const { return offset_; }
  std::uint32_t crc() const { return crc_; }  // of all that was written

  void write(std::span<const std::byte> bytes) {
    crc_ = crc32c(bytes, crc_);
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(temporary_, "cannot write");
      offset_ += static_cast<std::uint64_t>(written);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
#ifdef SYNC_FILE_RANGE_WRITE
    // The disk works while rows are gathered, not only once all are written.
    if (offset_ - started_ >= kStartWritingBytes) {
      sync_file_range(file_, static_cast<off64_t>(started_), static_cast<off64_t>(offset_ - started_),
                      SYNC_FILE_RANGE_WRITE);
      started_ = offset_;
    }
#endif
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
  static constexpr std::uint64_t kStartWritingBytes = 8U << 20;

  std::string path_, temporary_;
  int file_ = -1;
  std::uint64_t offset_ = 0;
  std::uint64_t started_ = 0;  // up to where the disk was told to begin
  std::uint32_t crc_ = 0;
  bool committed_ = false;
};

// Makes the renames in the folder of `basename` last.
inline void sync_folder(const std::string& basename) {
  const std::string folder = basename.substr(0, basename.find_last_of('/') + 1);
  const int directory = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) fail(folder, "cannot open folder");
  const int synced = fsync(directory);
  close(directory);
  if (synced != 0) fail(folder, "cannot sync folder");
}

inline void write_header(ShardWriter& file, const TableFileInfo& info) {
  Header header{};
  header.magic = kMagic;
  header.major = kMajor;
  header.minor = kMinor;
  header.endian_mark = kEndianMark;
  header.plan_hash = info.plan_hash;
  header.generation = info.generation;
  header.epoch = info.epoch;
  header.max_time = info.max_time;
  header.max_step = info.max_step;
  header.shard = info.shard;
  header.num_shards = info.num_shards;
  header.first_bucket = HashShard{info.shard, info.num_shards}.first_bucket();
  header.last_bucket = HashShard{info.shard, info.num_shards}.end_bucket();
  header.weight_bytes = info.weight_bytes;
  header.state_bytes = info.state_bytes;
  header.serving = info.serving ? 1 : 0;
  header.schema_bytes = static_cast<std::uint32_t>(info.schema.size());
  const auto schema = std::as_bytes(std::span(info.schema));
  header.crc = header_crc(header, schema);
  file.write(bytes_of(header));
  file.write(schema);
}

// Ends a file whose blocks are written: index, footer, and all of it on the disk.
inline void write_end(ShardWriter& file, std::span<const BucketEntry> index, std::uint64_t num_rows) {
  Footer footer{file.offset(), num_rows, crc32c(std::as_bytes(index)), 0, kEndMagic};
  footer.footer_crc = crc32c(bytes_of(footer).first(offsetof(Footer, footer_crc)));
  file.write(std::as_bytes(index));
  file.write(bytes_of(footer));
  file.finish();
}

// Writes rows first..last - 1, which are all that the file has of a bucket, in blocks; `buffer` is of no use otherwise.
void write_bucket(ShardWriter& file, std::uint32_t bucket, const RowBatch& batch, std::size_t first, std::size_t last,
                  std::size_t row_bytes, std::vector<std::byte>& buffer);

// Writes one file up to its last byte and returns the number of its rows.
using WriteShard = std::function<std::uint64_t(ShardWriter&, const TableFileInfo&)>;

// Which files to write: all of them, or that of one shard.
struct ShardRun {
  std::uint32_t first, last;  // the one after its last
};

// Writes files of a table of info.num_shards shards; their names appear when all are written. Each thread calls
// `start` for runs of them, and writes the shards of a run in order by what it gets.
SavedTable write_shards(const std::string& basename, const TableFileInfo& info, ShardRun shards, bool in_parallel,
                        const std::function<WriteShard()>& start);

}  // namespace monolith::table_file
