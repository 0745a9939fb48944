// Copies rows of a plain array by row number: the bound that a table's lookup is measured against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace monolith {

enum class GatherStores {
  kCached,     // ordinary stores: `out` ends up in the caches, right for what is read next
  kStreaming,  // around the caches: right for an `out` larger than they are
};

// How far ahead of their use rows are fetched: near, as the first bounds did, or so far that all the accesses that a
// processor can have under way are.
enum class FetchAhead { kNear, kFar };

// Writes row ids[i] of `rows` (contiguous, `dim` floats each) to out[i * dim ...], on all threads, with rows prefetched
// ahead. `out` must hold ids.size() * dim floats and not overlap `rows`.
// Throws std::invalid_argument, with `out` untouched, if a size does not fit or an id is outside [0, num_rows).
// Streaming stores need 32-byte aligned rows in `out` and AVX2; without them they are ordinary stores.
void plain_gather(std::span<const float> rows, std::size_t dim, std::span<const std::int64_t> ids, std::span<float> out,
                  GatherStores stores, FetchAhead ahead = FetchAhead::kNear);

}  // namespace monolith
