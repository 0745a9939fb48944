// Which of several servers an id travels to.
//
// The rule of the original's ops, for code that was written for them: ids read without sign. (Mend: in one of its ops a
// negative id went elsewhere.) Tables and checkpoints are cut by the hash of an id instead (table/id_hash.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith {

inline std::size_t shard_of_id(std::int64_t id, std::size_t num_shards) {
  return static_cast<std::size_t>(static_cast<std::uint64_t>(id) % num_shards);
}

}  // namespace monolith
