// Which of `num_shards` processes has the row of an id: shards are equal ranges of the id's hash (table/id_hash.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith::net {

inline constexpr std::size_t kMaxShards = 65536;

inline std::size_t shard_of_hash(std::uint64_t hash, std::size_t num_shards) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::size_t>((static_cast<Wide>(hash) * num_shards) >> 64);
}

}  // namespace monolith::net
