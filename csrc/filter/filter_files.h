// The files of a sliding hash filter: one per split, `<basename>-%05d-of-%05d`, specified in docs/formats.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "filter/sliding_hash_filter.h"

namespace monolith {

// Writes all files under temporary names, flushes them to the disk, then renames them. Equal states give equal bytes.
// Throws std::system_error, after removing what it had written.
void save_filter_files(const std::string& basename, HashShard shard, const SlidingHashFilter::State& state);

// Fills `state`, which must be empty and has the sizes that the files must agree with: with all of them if they are of
// this shard, with what concerns it if they are of the whole. Then come the files of changes, in order. Nothing
// is allocated by what a file says. Throws std::system_error (ENOENT where files are missing) or std::invalid_argument;
// `state` is then of no use. Counts of files of an older version are dropped; returns the oldest version.
std::uint32_t load_filter_files(const std::string& basename, std::span<const std::string> changes, HashShard shard,
                                SlidingHashFilter::State& state);

}  // namespace monolith
