// One file of a table, opened for reading.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "io/table_file.h"
#include "io/table_file_format.h"

namespace monolith::table_file {

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
  std::string schema() const { return {reinterpret_cast<const char*>(data_) + sizeof(Header), header_.schema_bytes}; }
  std::size_t row_bytes() const { return std::size_t{header_.weight_bytes} + header_.state_bytes; }

  // Whoever makes room for the rows relies on there not being more of them than the file can hold.
  void check_rows_fit(const RowTable& table) const {
    const RowLayout& layout = table.layout();
    if (header_.weight_bytes == layout.weight_bytes() && header_.state_bytes == layout.state_bytes()) {
      return check_counts();
    }
    throw std::invalid_argument(path_ + " has rows of " + std::to_string(header_.weight_bytes) + " + " +
                                std::to_string(header_.state_bytes) + " bytes (weights + optimizer state), table '" +
                                table.options().name + "' has " + std::to_string(layout.weight_bytes()) + " + " +
                                std::to_string(layout.state_bytes()) +
                                "; restore it with the configuration it was saved with");
  }

  // Calls visit(ids, last_seen, rows) for every block of the buckets in range, after checking its sum and its order.
  // Returns the checksum of the file, if all of its buckets are in range: blocks are sealed, so that their sizes tell
  // what they contribute, and need not be read again.
  template <typename Visit>
  std::uint32_t visit_blocks(std::uint32_t first_bucket, std::uint32_t last_bucket, const Visit& visit) const {
    std::uint32_t crc = crc32c({data_, sizeof(Header) + header_.schema_bytes});
    for (std::uint32_t bucket = std::max(first_bucket, header_.first_bucket);
         bucket < std::min(last_bucket, header_.last_bucket); ++bucket) {
      const BucketEntry entry = bucket_entry(bucket);
      std::uint64_t offset = entry.offset;
      for (std::uint64_t left = entry.num_rows; left > 0;) {
        const std::uint64_t count = visit_block(offset, bucket, left, visit);
        const std::size_t bytes = block_bytes(count, row_bytes());
        crc = join_crc32c(crc, kCrcOfSealed, bytes);
        offset += bytes;
        left -= count;
      }
    }
    return crc32c({data_ + footer_.index_offset, size_ - footer_.index_offset}, crc);
  }

  // The blocks of one bucket as they lie in the file, each of them checked.
  std::span<const std::byte> bucket_bytes(std::uint32_t bucket) const {
    const BucketEntry entry = bucket_entry(bucket);
    if (entry.num_rows == 0) return {};  // its offset need not lie in the file
    std::uint64_t offset = entry.offset;
    for (std::uint64_t left = entry.num_rows; left > 0;) {
      const std::uint64_t count = visit_block(offset, bucket, left, [](const auto&, const auto&, const auto&) {});
      offset += block_bytes(count, row_bytes());
      left -= count;
    }
    return {data_ + entry.offset, offset - entry.offset};
  }

  std::uint64_t num_rows(std::uint32_t bucket) const { return bucket_entry(bucket).num_rows; }

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
    check_header();
    check_end();
  }

  void check_header() {
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
      corrupt(52, "the range of buckets makes no sense");
    }
  }

  void check_end() {
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

  void check_counts() const {
    std::uint64_t left = footer_.index_offset / block_bytes_per_row();
    std::uint64_t total = 0;
    for (std::uint32_t bucket = header_.first_bucket; bucket < header_.last_bucket; ++bucket) {
      const std::uint64_t count = num_rows(bucket);
      if (count > left) corrupt(footer_.index_offset, "the index has more rows than the file has room for");
      left -= count;
      total += count;
    }
    if (total != footer_.num_rows)
      corrupt(footer_.index_offset, "the index and the footer disagree on the number of rows");
  }

  std::size_t block_bytes_per_row() const { return block_bytes(1, row_bytes()) - block_bytes(0, row_bytes()); }

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

}  // namespace monolith::table_file
