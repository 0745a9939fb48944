// One file of a table, opened for reading.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/input_file.h"
#include "io/table_file.h"
#include "io/table_file_format.h"

namespace monolith::table_file {

// Rows of one bucket as they lie in a file, checked.
struct RowBlock {
  std::span<const std::byte> bytes;  // all of it, with its header and checksum
  std::span<const std::int64_t> ids;
  std::span<const std::uint32_t> last_seen;
  std::span<const std::byte> rows;
};

// Of blocks one after the other.
struct BlocksCrc {
  std::uint32_t crc = 0;
  std::uint64_t bytes = 0;

  void append(const BlocksCrc& next) {
    crc = join_crc32c(crc, next.crc, next.bytes);
    bytes += next.bytes;
  }
};

// A file whose header, index and footer are checked, and kept; blocks are read when they are visited.
class ShardReader {
 public:
  explicit ShardReader(const std::string& path) : path_(path), file_(path) {
    read_header();
    read_end();
  }

  // Closes the file: of thousands, only those that are read are open. Its blocks cannot be visited any more.
  void let_go() { file_.let_go(); }

  const Header& header() const { return header_; }
  bool is_old() const { return header_.major == kOldMajor; }
  HashShard shard() const { return {header_.shard, header_.num_shards}; }

  // The hashes that belong to its shard, the last one included.
  std::uint64_t first_hash() const {
    return is_old() ? first_hash_of_bucket(header_.first_bucket) : shard().first_hash();
  }
  std::uint64_t last_hash() const {
    return is_old() ? last_hash_of_bucket(header_.last_bucket - 1) : shard().last_hash();
  }
  const Footer& footer() const { return footer_; }
  const std::string& schema() const { return schema_; }
  std::size_t row_bytes() const { return std::size_t{header_.weight_bytes} + header_.state_bytes; }

  // The caller makes room for the rows, so there must not be more of them than the file can hold.
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

  // Shards of two versions would overlap.
  void check_same_version(const Header& other) const {
    if (header_.major != other.major) corrupt(8, "its format version is not that of the other files");
  }

  // Calls visit(block) for every block of the buckets in range, after checking its sum and its order. Returns the
  // checksum of these blocks. Safe for concurrent use.
  template <typename Visit>
  BlocksCrc visit_blocks(std::uint32_t first_bucket, std::uint32_t last_bucket, const Visit& visit) const {
    BlocksCrc joined;
    std::vector<std::byte> buffer;  // the same for all blocks: it stays in the caches
    for (std::uint32_t bucket = std::max(first_bucket, header_.first_bucket);
         bucket < std::min(last_bucket, header_.last_bucket); ++bucket) {
      const BucketEntry& entry = bucket_entry(bucket);
      std::uint64_t offset = entry.offset;
      std::optional<std::uint64_t> previous;
      for (std::uint64_t left = entry.num_rows; left > 0;) {
        const RowBlock block = read_block(offset, bucket, left, buffer);
        check_order(block, bucket, offset, previous);
        visit(block);
        joined.append({kCrcOfSealed, block.bytes.size()});
        offset += block.bytes.size();
        left -= block.ids.size();
      }
    }
    return joined;
  }

  // The checksum of the file, given that of all its blocks.
  std::uint32_t checksum(const BlocksCrc& blocks) const {
    const std::uint32_t header = crc32c(bytes_of(header_).first(header_bytes(header_)));
    const std::uint32_t front = crc32c(std::as_bytes(std::span(schema_)), header);
    const std::uint32_t both = join_crc32c(front, blocks.crc, blocks.bytes);
    return crc32c(bytes_of(footer_), crc32c(std::as_bytes(std::span(index_)), both));
  }

  std::uint64_t num_rows(std::uint32_t bucket) const {
    const bool is_here = bucket >= header_.first_bucket && bucket < header_.last_bucket;
    return is_here ? bucket_entry(bucket).num_rows : 0;
  }

  [[noreturn]] void corrupt(std::uint64_t offset, const std::string& what) const {
    throw CorruptFile(path_ + " is damaged at byte " + std::to_string(offset) + ": " + what +
                      "; restore it from a copy or use an older checkpoint");
  }

 private:
  const BucketEntry& bucket_entry(std::uint32_t bucket) const { return index_[bucket - header_.first_bucket]; }

  void read_header() {
    const auto bytes = std::as_writable_bytes(std::span(&header_, 1));
    if (size() < kShortHeaderBytes + sizeof(Footer)) corrupt(size(), "too short for a table file");
    file_.read(0, bytes.first(kShortHeaderBytes));
    if (header_.magic != kMagic) corrupt(0, "not a table file");
    if (header_.major < kOldMajor || header_.major > kMajor) {
      throw CorruptFile(path_ + " has format version " + std::to_string(header_.major) + "." +
                        std::to_string(header_.minor) + ", this build reads versions " + std::to_string(kOldMajor) +
                        " and " + std::to_string(kMajor) + "; read it with a newer release");
    }
    if (header_.endian_mark != kEndianMark) corrupt(12, "wrong byte order");
    const std::size_t schema_at = header_bytes(header_);
    if (header_.schema_bytes > kMaxSchemaBytes || schema_at + header_.schema_bytes + sizeof(Footer) > size()) {
      corrupt(72, "the schema is longer than the file");
    }
    file_.read(kShortHeaderBytes, bytes.first(schema_at).subspan(kShortHeaderBytes));
    schema_.resize(header_.schema_bytes);
    file_.read(schema_at, std::as_writable_bytes(std::span(schema_)));
    if (header_.crc != header_crc(header_, std::as_bytes(std::span(schema_)))) {
      corrupt(76, "the header's checksum is wrong");
    }
    if (header_.max_step < 0) corrupt(80, "its newest step is negative");
    const auto [number, count] = shard();
    if (number >= count || count > (is_old() ? kMaxOldShards : kMaxShards)) corrupt(44, "there is no such shard");
    const std::uint32_t first = is_old() ? first_bucket_of_old_shard(number, count) : shard().first_bucket();
    const std::uint32_t last = is_old() ? first_bucket_of_old_shard(number + 1, count) : shard().end_bucket();
    if (header_.first_bucket != first || header_.last_bucket != last) {
      corrupt(52, "its buckets are not those of its shard");
    }
  }

  void read_end() {
    const std::uint64_t end = size() - sizeof(Footer);
    file_.read(end, std::as_writable_bytes(std::span(&footer_, 1)));
    if (footer_.magic != kEndMagic) corrupt(size() - 8, "the end is missing (a truncated file?)");
    if (footer_.footer_crc != crc32c(bytes_of(footer_).first(offsetof(Footer, footer_crc)))) {
      corrupt(end, "the footer's checksum is wrong");
    }
    index_.resize(header_.last_bucket - header_.first_bucket);
    const auto index = std::as_writable_bytes(std::span(index_));
    if (footer_.index_offset > end || end - footer_.index_offset != index.size()) {
      corrupt(end, "the index is not where the footer says");
    }
    file_.read(footer_.index_offset, index);
    if (footer_.index_crc != crc32c(index)) corrupt(footer_.index_offset, "the index's checksum is wrong");
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

  RowBlock read_block(std::uint64_t offset, std::uint32_t bucket, std::uint64_t left,
                      std::vector<std::byte>& buffer) const {
    if (offset > footer_.index_offset || footer_.index_offset - offset < sizeof(BlockHeader)) {
      corrupt(offset, "a block lies outside the file");
    }
    // As much as the block is going to have, if it is one that we wrote.
    const std::uint64_t expected = block_bytes(std::min<std::uint64_t>(left, kBlockRows), row_bytes());
    buffer.resize(std::min(expected, footer_.index_offset - offset));
    file_.read(offset, buffer);
    BlockHeader header;
    std::memcpy(&header, buffer.data(), sizeof header);
    if (header.bucket != bucket || header.num_rows == 0 || header.num_rows > left || header.num_rows > kBlockRows) {
      corrupt(offset, "a block does not fit the index");
    }
    const std::size_t bytes = block_bytes(header.num_rows, row_bytes());
    if (bytes > buffer.size()) corrupt(offset, "a block lies outside the file");
    const auto checked = std::span<const std::byte>(buffer).first(bytes - sizeof(std::uint32_t));
    std::uint32_t crc;
    std::memcpy(&crc, checked.data() + checked.size(), sizeof crc);
    if (crc != crc32c(checked)) corrupt(offset, "a block's checksum is wrong");
    const auto* ids = reinterpret_cast<const std::int64_t*>(buffer.data() + sizeof(BlockHeader));
    const auto* last_seen = reinterpret_cast<const std::uint32_t*>(ids + header.num_rows);
    const auto* rows = reinterpret_cast<const std::byte*>(last_seen + header.num_rows);
    const RowBlock block{{buffer.data(), bytes},
                         {ids, header.num_rows},
                         {last_seen, header.num_rows},
                         {rows, header.num_rows * row_bytes()}};
    return block;
  }

  // Rows of a bucket ascend by hash; in the old major version, by id.
  void check_order(const RowBlock& block, std::uint32_t bucket, std::uint64_t offset,
                   std::optional<std::uint64_t>& previous) const {
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    const std::uint64_t first = std::max(first_hash(), first_hash_of_bucket(bucket));
    const std::uint64_t last = std::min(last_hash(), last_hash_of_bucket(bucket));
    for (const std::int64_t id : block.ids) {
      const std::uint64_t hash = hash_id(id);
      if (hash < first || hash > last) corrupt(offset, "a row stands in the wrong bucket or shard");
      const std::uint64_t place = is_old() ? static_cast<std::uint64_t>(id) ^ kSign : hash;
      if (previous && *previous >= place) corrupt(offset, "ids are out of order, or stand there twice");
      previous = place;
    }
  }

  std::uint64_t size() const { return file_.size(); }

  std::string path_;
  InputFile file_;
  Header header_{};
  std::string schema_;
  Footer footer_{};
  std::vector<BucketEntry> index_;
};

}  // namespace monolith::table_file
