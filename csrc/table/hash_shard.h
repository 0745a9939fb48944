// The one rule for which shard an id belongs to: shard i of n holds the hashes h with floor(h * n / 2^64) = i, a range.
// Processes, files, filters and restores of a part of a table all go by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "table/id_hash.h"

namespace monolith {

inline constexpr std::uint32_t kMaxShards = 1U << 16;

[[gnu::always_inline]] inline constexpr std::uint32_t shard_of_hash(std::uint64_t hash, std::uint32_t num_shards) {
  return static_cast<std::uint32_t>((static_cast<unsigned __int128>(hash) * num_shards) >> 64);
}

// To sort ids as files do.
inline constexpr auto by_hash = [](std::int64_t id) { return hash_id(id); };

inline void check_num_shards(std::uint64_t num_shards) {
  if (num_shards != 0 && num_shards <= kMaxShards) return;
  throw std::invalid_argument("there can be 1 to " + std::to_string(kMaxShards) + " shards, got " +
                              std::to_string(num_shards));
}

// Writes the shard of each id to `out`, which has one place per id. Throws std::invalid_argument.
inline void shards_of_ids(std::span<const std::int64_t> ids, std::uint32_t num_shards, std::span<std::int32_t> out) {
  check_num_shards(num_shards);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    out[i] = static_cast<std::int32_t>(shard_of_hash(hash_id(ids[i]), num_shards));
  }
}

struct HashShard {
  std::uint32_t index = 0;
  std::uint32_t count = 1;

  friend bool operator==(const HashShard&, const HashShard&) = default;

  bool is_all() const { return count == 1; }
  std::uint64_t first_hash() const {
    return static_cast<std::uint64_t>(((static_cast<unsigned __int128>(index) << 64) + count - 1) / count);
  }
  // The last one that belongs to it; of the last shard, the largest number.
  std::uint64_t last_hash() const { return HashShard{index + 1, count}.first_hash() - 1; }

  // The buckets that its range touches, from the first to the one before the end.
  std::uint32_t first_bucket() const { return bucket_of_hash(first_hash()); }
  std::uint32_t end_bucket() const { return bucket_of_hash(last_hash()) + 1; }

  std::string name() const { return "shard " + std::to_string(index) + " of " + std::to_string(count); }

  void check() const {
    check_num_shards(count);
    if (index < count) return;
    throw std::invalid_argument("there is no " + name() + "; shards are numbered from 0");
  }
};

// The hashes of a bucket, the last one included.
inline constexpr std::uint64_t first_hash_of_bucket(std::uint32_t bucket) {
  return std::uint64_t{bucket} << (64 - kBucketBits);
}
inline constexpr std::uint64_t last_hash_of_bucket(std::uint32_t bucket) {
  return first_hash_of_bucket(bucket) + ((std::uint64_t{1} << (64 - kBucketBits)) - 1);
}

}  // namespace monolith
