// The ids of a batch cut by table and parameter server, and where the rows of each occurrence will lie.
//
// Features are given in the order of their names, and so are the tables that their numbers stand for. The ids of a
// feature go to server id % num_ps (unsigned). A block is what one server has of one table: block b =
// table * num_ps + server. Inside a block the ids of one feature follow those of the one before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/ragged.h"

namespace monolith {

// Top bit of nfl_offset: one row of this feature stands for the whole batch.
constexpr std::uint32_t kSharedFeature = 0x80000000u;

struct FidColumn {
  Int64Span ids;
  Int64Span row_splits;
  bool shared = false;      // has one row, for the whole batch
  std::uint32_t table = 0;  // number of its table
  std::uint32_t dim = 0;    // floats of a row
};

struct ShardedFids {
  std::vector<std::int64_t> fids;         // of all blocks, end to end
  std::vector<std::int64_t> block_sizes;  // ids of each block
  std::vector<std::int64_t> row_splits;   // per block: where each feature of its table begins, and the end
  std::vector<std::int32_t> emb_sizes;    // floats of each block

  std::vector<std::uint64_t> fid_offset;     // per occurrence: (block << 32) | first float inside the block
  std::vector<std::int32_t> feature_offset;  // where each (feature, row) begins in fid_offset, and the end
  std::vector<std::uint32_t> nfl_offset;     // where each feature begins in feature_offset, and feature_offset's size
};

// With `unique`, an id occurs once per feature, first seen first; otherwise every occurrence has a row of its own.
// A column has batch_size rows, or one if it is shared. The result does not depend on the number of threads.
ShardedFids shard_fids(std::span<const FidColumn> columns, std::size_t num_tables, std::size_t num_ps,
                       std::size_t batch_size, bool unique);

}  // namespace monolith
