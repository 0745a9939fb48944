#include "io/table_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <system_error>

#include "io/crc32c.h"
#include "ops/parallel_for.h"

static_assert(std::endian::native == std::endian::little, "table files are written as the machine's own little-endian");

namespace monolith {

namespace {

constexpr std::array<char, 8> kMagic{'M', 'O', 'N', 'O', 'T', 'B', 'L', '\n'};
constexpr std::array<char, 8> kEndMagic{'M', 'O', 'N', 'O', 'E', 'N', 'D', '\n'};
constexpr std::uint16_t kMajor = 1;
constexpr std::uint16_t kMinor = 0;
constexpr std::uint32_t kEndianMark = 0x01020304;
constexpr std::size_t kBlockRows = 4096;
constexpr std::uint32_t kMaxSchemaBytes = 1U << 20;

struct Header {
  std::array<char, 8> magic;
  std::uint16_t major, minor;
  std::uint32_t endian_mark;
  std::uint64_t plan_hash, generation, epoch;
  std::uint32_t max_time, shard, num_shards, first_bucket, last_bucket;
  std::uint32_t weight_bytes, state_bytes, serving, schema_bytes;
  std::uint32_t crc;  // of the header before it and the schema after it
};
static_assert(sizeof(Header) == 80);

struct BlockHeader {
  std::uint32_t bucket, num_rows;
};

struct BucketEntry {
  std::uint64_t offset, num_rows;
};

struct Footer {
  std::uint64_t index_offset, num_rows;
  std::uint32_t index_crc, footer_crc;
  std::array<char, 8> magic;
};
static_assert(sizeof(Footer) == 32);

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw std::system_error(errno, std::generic_category(), std::string(what) + " " + path);
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::uint32_t header_crc(const Header& header, std::span<const std::byte> schema) {
  return crc32c(schema, crc32c(bytes_of(header).first(offsetof(Header, crc))));
}

std::size_t block_bytes(std::size_t num_rows, std::size_t row_bytes) {
  return sizeof(BlockHeader) + num_rows * (sizeof(std::int64_t) + sizeof(std::uint32_t) + row_bytes) +
         sizeof(std::uint32_t);
}

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

  void commit() {
    if (fsync(file_) != 0) fail(temporary_, "cannot sync");
    if (close(std::exchange(file_, -1)) != 0) fail(temporary_, "cannot close");
    if (rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot rename to");
    committed_ = true;
    const std::string folder = path_.substr(0, path_.find_last_of('/') + 1);
    const int directory = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) fail(folder, "cannot open folder");
    const int synced = fsync(directory);
    close(directory);
    if (synced != 0) fail(folder, "cannot sync folder");
  }

 private:
  std::string path_, temporary_;
  int file_ = -1;
  std::uint64_t offset_ = 0;
  bool committed_ = false;
};

// Removes rows that have expired, keeping the order.
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

std::uint64_t write_shard(RowTable& table, const std::string& basename, const TableFileInfo& info, bool drop_expired) {
  constexpr std::uint32_t kBucketsPerSubTable = kNumBuckets / kNumSubTables;
  const std::uint32_t first = static_cast<std::uint32_t>(std::uint64_t{kNumSubTables} * info.shard / info.num_shards);
  const std::uint32_t last =
      static_cast<std::uint32_t>(std::uint64_t{kNumSubTables} * (info.shard + 1) / info.num_shards);
  const std::size_t row_bytes = table.layout().row_bytes();
  ShardWriter file(shard_file_name(basename, info.shard, info.num_shards));
  Header header{kMagic,
                kMajor,
                kMinor,
                kEndianMark,
                info.plan_hash,
                info.generation,
                info.epoch,
                info.max_time,
                info.shard,
                info.num_shards,
                first * kBucketsPerSubTable,
                last * kBucketsPerSubTable,
                static_cast<std::uint32_t>(table.layout().weight_bytes()),
                static_cast<std::uint32_t>(table.layout().state_bytes()),
                table.layout().serving() ? 1U : 0U,
                static_cast<std::uint32_t>(info.schema.size()),
                0};
  const auto schema = std::as_bytes(std::span(info.schema));
  header.crc = header_crc(header, schema);
  file.write(bytes_of(header));
  file.write(schema);
  std::vector<BucketEntry> index;
  std::vector<std::byte> buffer;
  std::uint64_t num_rows = 0;
  for (std::uint32_t sub_table = first; sub_table < last; ++sub_table) {
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
  file.commit();
  return num_rows;
}

// A file mapped for reading, with its header, index and footer checked.
class ShardReader {
 public:
  explicit ShardReader(const std::string& path) : path_(path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) fail(path, "cannot open");
    struct stat status{};
    if (fstat(file, &status) != 0) {
      close(file);
      fail(path, "cannot stat");
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
    if (size_ > 0) {
      void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      close(file);
      if (mapped == MAP_FAILED) fail(path, "cannot map");
      data_ = static_cast<const std::byte*>(mapped);
    } else {
      close(file);
    }
    try {
      check();
    } catch (...) {
      unmap();
      throw;
    }
  }
  ~ShardReader() { unmap(); }
  ShardReader(const ShardReader&) = delete;
  ShardReader& operator=(const ShardReader&) = delete;

  const Header& header() const { return header_; }
  const Footer& footer() const { return footer_; }
  std::string schema() const {
    return {reinterpret_cast<const char*>(data_) + sizeof(Header), header_.schema_bytes};
  }
  std::size_t row_bytes() const { return std::size_t{header_.weight_bytes} + header_.state_bytes; }

  // Calls visit(ids, last_seen, rows) for every block of the buckets in range, after checking its sum and its order.
  template <typename Visit>
  void visit_blocks(std::uint32_t first_bucket, std::uint32_t last_bucket, const Visit& visit) const {
    std::uint64_t total = 0;
    for (std::uint32_t bucket = header_.first_bucket; bucket < header_.last_bucket; ++bucket) {
      const BucketEntry entry = bucket_entry(bucket);
      total += entry.num_rows;
      if (bucket < first_bucket || bucket >= last_bucket) continue;
      std::uint64_t offset = entry.offset;
      for (std::uint64_t left = entry.num_rows; left > 0;) {
        const std::uint64_t count = visit_block(offset, bucket, left, visit);
        offset += block_bytes(count, row_bytes());
        left -= count;
      }
    }
    if (total != footer_.num_rows) corrupt(footer_.index_offset, "the index and the footer disagree on the number of rows");
  }

  [[noreturn]] void corrupt(std::uint64_t offset, const std::string& what) const {
    throw CorruptFile(path_ + " is damaged at byte " + std::to_string(offset) + ": " + what +
                      "; restore it from a copy or use an older checkpoint");
  }

 private:
  template <typename T>
  T read_at(std::uint64_t offset) const {
    T value;
    std::memcpy(&value, data_ + offset, sizeof value);
    return value;
  }

  BucketEntry bucket_entry(std::uint32_t bucket) const {
    return read_at<BucketEntry>(footer_.index_offset + (bucket - header_.first_bucket) * sizeof(BucketEntry));
  }

  void check() {
    if (size_ < sizeof(Header) + sizeof(Footer)) corrupt(size_, "too short for a table file");
    header_ = read_at<Header>(0);
    if (header_.magic != kMagic) corrupt(0, "not a table file");
    if (header_.major != kMajor) {
      throw CorruptFile(path_ + " has format version " + std::to_string(header_.major) + "." +
                        std::to_string(header_.minor) + ", this build reads version 1; read it with a newer release");
    }
    if (header_.endian_mark != kEndianMark) corrupt(12, "wrong byte order");
    if (header_.schema_bytes > kMaxSchemaBytes || sizeof(Header) + header_.schema_bytes + sizeof(Footer) > size_) {
      corrupt(72, "the schema is longer than the file");
    }
    if (header_.crc != header_crc(header_, {data_ + sizeof(Header), header_.schema_bytes})) {
      corrupt(76, "the header's checksum is wrong");
    }
    if (header_.first_bucket > header_.last_bucket || header_.last_bucket > kNumBuckets) {
      corrupt(56, "the range of buckets makes no sense");
    }
    footer_ = read_at<Footer>(size_ - sizeof(Footer));
    const std::uint64_t index_bytes = (header_.last_bucket - header_.first_bucket) * sizeof(BucketEntry);
    if (footer_.magic != kEndMagic) corrupt(size_ - 8, "the end is missing (a truncated file?)");
    if (footer_.footer_crc != crc32c(bytes_of(footer_).first(offsetof(Footer, footer_crc)))) {
      corrupt(size_ - sizeof(Footer), "the footer's checksum is wrong");
    }
    if (footer_.index_offset > size_ || footer_.index_offset + index_bytes + sizeof(Footer) != size_) {
      corrupt(size_ - sizeof(Footer), "the index is not where the footer says");
    }
    if (footer_.index_crc != crc32c({data_ + footer_.index_offset, index_bytes})) {
      corrupt(footer_.index_offset, "the index's checksum is wrong");
    }
  }

  template <typename Visit>
  std::uint64_t visit_block(std::uint64_t offset, std::uint32_t bucket, std::uint64_t left, const Visit& visit) const {
    if (offset > footer_.index_offset || footer_.index_offset - offset < sizeof(BlockHeader)) {
      corrupt(offset, "a block lies outside the file");
    }
    const auto block = read_at<BlockHeader>(offset);
    if (block.bucket != bucket || block.num_rows == 0 || block.num_rows > left || block.num_rows > kBlockRows) {
      corrupt(offset, "a block does not fit the index");
    }
    const std::size_t bytes = block_bytes(block.num_rows, row_bytes());
    if (bytes > footer_.index_offset - offset) corrupt(offset, "a block lies outside the file");
    const std::size_t checked = bytes - sizeof(std::uint32_t);
    if (read_at<std::uint32_t>(offset + checked) != crc32c({data_ + offset, checked})) {
      corrupt(offset, "a block's checksum is wrong");
    }
    std::vector<std::int64_t> ids(block.num_rows);
    std::vector<std::uint32_t> last_seen(block.num_rows);
    const std::byte* from = data_ + offset + sizeof(BlockHeader);
    std::memcpy(ids.data(), from, ids.size() * sizeof(std::int64_t));
    from += ids.size() * sizeof(std::int64_t);
    std::memcpy(last_seen.data(), from, last_seen.size() * sizeof(std::uint32_t));
    from += last_seen.size() * sizeof(std::uint32_t);
    for (const std::int64_t id : ids) {
      if (bucket_of_id(id) != bucket) corrupt(offset, "a row stands in the wrong bucket");
    }
    visit(ids, last_seen, std::span(from, ids.size() * row_bytes()));
    return block.num_rows;
  }

  void unmap() {
    if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
    data_ = nullptr;
  }

  std::string path_;
  const std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  Header header_{};
  Footer footer_{};
};

void check_row_size(const RowTable& table, const ShardReader& file, const std::string& path) {
  const RowLayout& layout = table.layout();
  if (file.header().weight_bytes == layout.weight_bytes() && file.header().state_bytes == layout.state_bytes()) return;
  throw std::invalid_argument(path + " has rows of " + std::to_string(file.header().weight_bytes) + " + " +
                              std::to_string(file.header().state_bytes) + " bytes (weights + optimizer state), table '" +
                              table.options().name + "' has " + std::to_string(layout.weight_bytes()) + " + " +
                              std::to_string(layout.state_bytes()) +
                              "; restore it with the configuration it was saved with");
}

}  // namespace

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
  table.begin_snapshot();
  std::atomic<std::uint64_t> num_rows{0};
  TableFileInfo common = info;
  common.num_shards = num_shards;
  common.max_time = table.max_time();
  try {
    parallel_for(num_shards, [&](std::size_t shard) {
      TableFileInfo own = common;
      own.shard = static_cast<std::uint32_t>(shard);
      num_rows += write_shard(table, basename, own, drop_expired);
    });
  } catch (...) {
    table.end_snapshot();
    throw;
  }
  table.end_snapshot();
  return num_rows;
}

TableFileInfo read_table_file_info(const std::string& path) {
  const ShardReader file(path);
  const Header& header = file.header();
  return {file.schema(),      header.plan_hash,  header.generation,   header.epoch,
          header.max_time,    header.shard,      header.num_shards,   header.weight_bytes,
          header.state_bytes, header.serving != 0, file.footer().num_rows};
}

void check_table_files(const RowTable& table, const std::vector<std::string>& paths) {
  parallel_for(paths.size(), [&](std::size_t i) {
    const ShardReader file(paths[i]);
    check_row_size(table, file, paths[i]);
    file.visit_blocks(0, kNumBuckets, [](const auto&, const auto&, const auto&) {});
  });
}

std::uint64_t load_table(RowTable& table, const std::vector<std::string>& paths, std::uint32_t first_bucket,
                         std::uint32_t last_bucket) {
  std::atomic<std::uint64_t> num_rows{0};
  parallel_for(paths.size(), [&](std::size_t i) {
    const ShardReader file(paths[i]);
    check_row_size(table, file, paths[i]);
    table.raise_max_time(file.header().max_time);
    file.visit_blocks(first_bucket, last_bucket, [&](const auto& ids, const auto& last_seen, const auto& rows) {
      table.restore(ids, last_seen, rows);
      num_rows += ids.size();
    });
  });
  return num_rows;
}

}  // namespace monolith
