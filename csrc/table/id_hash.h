// The one hash of an id: a bijection on 64 bits, fixed forever because files and shards depend on it.
//
// Being a bijection, it lets the index keep only the part of the hash that a row's place does not already tell
// (id_index.h), and two ids can never share a hash.
#pragma once

#include <cstdint>

namespace monolith {

inline constexpr int kSubTableBits = 8;
inline constexpr std::uint32_t kNumSubTables = 1U << kSubTableBits;
inline constexpr int kBucketBits = 10;
inline constexpr std::uint32_t kNumBuckets = 1U << kBucketBits;

[[gnu::always_inline]] inline constexpr std::uint64_t hash_id(std::int64_t id) {
  auto x = static_cast<std::uint64_t>(id);
  x ^= x >> 32;
  x *= 0x9FB21C651E98DF25ULL;
  x ^= x >> 29;
  x *= 0xD6E8FEB86659FD93ULL;
  x ^= x >> 32;
  return x;
}

namespace detail {

// Newton's iteration doubles the number of correct low bits each round.
inline constexpr std::uint64_t odd_inverse(std::uint64_t odd) {
  std::uint64_t inverse = odd;
  for (int round = 0; round < 6; ++round) inverse *= 2 - odd * inverse;
  return inverse;
}

}  // namespace detail

inline constexpr std::int64_t id_of_hash(std::uint64_t x) {
  x ^= x >> 32;
  x *= detail::odd_inverse(0xD6E8FEB86659FD93ULL);
  x ^= (x >> 29) ^ (x >> 58);
  x *= detail::odd_inverse(0x9FB21C651E98DF25ULL);
  x ^= x >> 32;
  return static_cast<std::int64_t>(x);
}

// Rows are spread over sub-tables in memory and over buckets in files; a sub-table is a run of whole buckets.
[[gnu::always_inline]] inline constexpr std::uint32_t sub_table_of_hash(std::uint64_t hash) {
  return static_cast<std::uint32_t>(hash >> (64 - kSubTableBits));
}
inline constexpr std::uint32_t bucket_of_hash(std::uint64_t hash) {
  return static_cast<std::uint32_t>(hash >> (64 - kBucketBits));
}
inline constexpr std::uint32_t bucket_of_id(std::int64_t id) { return bucket_of_hash(hash_id(id)); }

}  // namespace monolith
