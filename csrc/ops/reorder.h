// Ids into the order in which they travel: without repetitions, grouped by shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/ragged.h"

namespace monolith {

struct Reordered {
  std::vector<std::int64_t> positions;  // which input stands at each place of the output
  std::vector<std::int32_t> shard_sizes;
};

// Keeps the first of equal ids and groups by shard, ascending; inside a shard the last seen comes first.
Reordered reorder_by_indices(Int64Span ids, std::span<const std::int32_t> shard_ids, std::size_t num_shards);

struct FusedReordered {
  std::vector<std::int64_t> output;              // by shard, then input, then first seen
  std::vector<std::int32_t> shard_sizes;         // [shards]
  std::vector<std::int32_t> sharded_slot_sizes;  // [shards * inputs]
  std::vector<std::int32_t> offsets;             // per id of all inputs: where its row begins, in floats
};

// Removes repetitions per input; id v belongs to shard v mod n, or to 1 + v mod (n - 1) if rank 0 stays empty, with v
// taken without sign (id_shard.h). `dims` are the widths of the rows, one per input.
FusedReordered fused_reorder_by_indices(std::span<const Int64Span> inputs, std::size_t num_shards, Int64Span dims,
                                        bool rank0_empty);

// out[i] = where input[i] stands in ids (the first place, if several). Throws "Unable to map id X" if nowhere.
void find_positions(Int64Span ids, Int64Span input, bool use_threads, std::span<std::int64_t> out);

}  // namespace monolith
