// The inner loops of lookups that need no lock, one per instruction set (gather_kernels.inl).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/fetch_ahead.h"
#include "table/found_row.h"
#include "table/sub_table_view.h"
#include "table/table_hash.h"

namespace monolith {

// Where the weights of rows are, and where copies of them go: `dim` floats each, `stride` floats apart.
struct RowCopies {
  float* out;
  std::size_t stride;
  std::size_t dim;
  std::size_t first_weights;  // of a chunk, in bytes
  std::size_t weight_stride;
  std::byte* no_chunk;  // where an unknown id is read from: zeros
  bool streaming;       // writes around the caches; out, stride and dim are fit for it (can_stream)
  FetchInto into;
};

// One row per id, in order.
struct IdsToGather {
  const SubTableView* sub_tables;
  const std::int64_t* ids;
  TableHash hash;
  std::size_t count;
  RowCopies copies;
};

// The rows of some groups of a plan: noted in `found`, and copied to every position of the group unless copies.out is
// nullptr.
struct GroupsToGather {
  const SubTableView* sub_tables;
  const std::uint64_t* hashes;
  std::size_t first;  // group
  std::size_t count;
  const std::uint32_t* firsts;  // first position of a group; nullptr: group and position are the same
  const std::uint32_t* nexts;   // next position of the same group, or kNoPosition
  FoundRow* found;
  RowCopies copies;
};

// Both return how many ids were found; of groups, how many positions have one (or groups, where nothing is copied).
#define MONOLITH_GATHER_KERNELS                       \
  std::size_t gather_ids(const IdsToGather& request); \
  std::size_t gather_groups(const GroupsToGather& request);
namespace scalar {
MONOLITH_GATHER_KERNELS
}
namespace avx2 {
MONOLITH_GATHER_KERNELS
}
namespace avx512 {
MONOLITH_GATHER_KERNELS
}
#undef MONOLITH_GATHER_KERNELS

}  // namespace monolith
