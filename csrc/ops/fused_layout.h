// All layouts of a batch in one call, and the gradient of the rows in another.
//
// The rows lie in blocks of floats, one per (table, server), at the offsets that shard_fids gives. Every output row
// belongs to one task, and so does every row of the gradient: sums are taken in a fixed order (features: layouts in the
// order of the plan, then samples, then ids) and the result is the same bits for any number of threads. A sample
// without ids gives zeros. Values are those of pooling each slice alone (pool.h) and joining the results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/fused_layout_plan.h"

namespace monolith {

// Which rows the samples of a batch have; see ShardedFids.
struct LayoutIndex {
  std::span<const std::uint64_t> fid_offset;
  std::span<const std::int32_t> feature_offset;
  std::span<const std::uint32_t> nfl_offset;
  std::size_t batch_size = 0;
};

// embeddings[b] has the rows of block b; there are as many blocks for every table. outs[o] is output o, row-major;
// every float of it is written.
void fused_layout(const FusedLayoutPlan& plan, const LayoutIndex& index,
                  std::span<const std::span<const float>> embeddings, std::span<const std::span<float>> outs);

// Adds to grad_embeddings, which are laid out like the embeddings. An empty span in grad_outs is a gradient of zero.
void fused_layout_grad(const FusedLayoutPlan& plan, const LayoutIndex& index,
                       std::span<const std::span<const float>> grad_outs,
                       std::span<const std::span<float>> grad_embeddings);

}  // namespace monolith
