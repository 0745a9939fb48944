// The parts of a table file as they lie in it; docs/formats.md says what they mean.
#pragma once

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>

#include "io/crc32c.h"
#include "table/hash_shard.h"

static_assert(std::endian::native == std::endian::little, "table files are written as the machine's own little-endian");

namespace monolith::table_file {

inline constexpr std::array<char, 8> kMagic{'M', 'O', 'N', 'O', 'T', 'B', 'L', '\n'};
inline constexpr std::array<char, 8> kEndMagic{'M', 'O', 'N', 'O', 'E', 'N', 'D', '\n'};
inline constexpr std::uint16_t kMajor = 2;
inline constexpr std::uint16_t kMinor = 0;
inline constexpr std::uint16_t kOldMajor = 1;  // in its minor version 0, headers end before max_step
inline constexpr std::uint32_t kEndianMark = 0x01020304;
inline constexpr std::size_t kBlockRows = 4096;
inline constexpr std::uint32_t kBucketsPerSubTable = kNumBuckets / kNumSubTables;
inline constexpr std::uint32_t kMaxSchemaBytes = 1U << 20;

struct Header {
  std::array<char, 8> magic;
  std::uint16_t major, minor;
  std::uint32_t endian_mark;
  std::uint64_t plan_hash, generation, epoch;
  std::uint32_t max_time, shard, num_shards, first_bucket, last_bucket;
  std::uint32_t weight_bytes, state_bytes, serving, schema_bytes;
  std::uint32_t crc;  // of the header before and after it, and of the schema
  std::int64_t max_step;
};
static_assert(sizeof(Header) == 88);

inline constexpr std::size_t kShortHeaderBytes = offsetof(Header, max_step);  // of version 1.0

inline std::size_t header_bytes(const Header& header) {
  return header.major == kOldMajor && header.minor == 0 ? kShortHeaderBytes : sizeof(Header);
}

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

// In the old major version shards were runs of sub-tables. Where one begins; the one after the last begins at the
// number of buckets.
inline constexpr std::uint32_t kMaxOldShards = 256;
inline std::uint32_t first_bucket_of_old_shard(std::uint32_t shard, std::uint32_t num_shards) {
  return kMaxOldShards * shard / num_shards * (kNumBuckets / kMaxOldShards);
}

[[noreturn]] inline void fail(const std::string& path, const char* what) {
  throw std::system_error(errno, std::generic_category(), std::string(what) + " " + path);
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

inline std::uint32_t header_crc(const Header& header, std::span<const std::byte> schema) {
  const std::span<const std::byte> bytes = bytes_of(header).first(header_bytes(header));
  return crc32c(schema, crc32c(bytes.subspan(kShortHeaderBytes), crc32c(bytes.first(offsetof(Header, crc)))));
}

inline std::size_t block_bytes(std::size_t num_rows, std::size_t row_bytes) {
  return sizeof(BlockHeader) + num_rows * (sizeof(std::int64_t) + sizeof(std::uint32_t) + row_bytes) +
         sizeof(std::uint32_t);
}

}  // namespace monolith::table_file
