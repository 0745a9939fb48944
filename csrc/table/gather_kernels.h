// The inner loop of lookups that need no lock, one per instruction set (gather_kernels.inl).
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith {

// Where the rows of one sub-table are, while nobody writes to it. An empty one has one line of empty entries.
struct SubTableView {
  const std::uint64_t* lines;
  const std::byte* const* chunks;
  int log2_lines;
};

// One row of `dim` floats per id, in order, `stride` floats apart; an unknown id reads as zeros.
struct GatherRequest {
  const SubTableView* sub_tables;
  const std::int64_t* ids;
  std::size_t count;
  float* out;
  std::size_t stride;
  std::size_t dim;
  std::size_t first_weights;  // of a chunk, in bytes
  std::size_t weight_stride;
  const std::byte* no_chunk;  // where an unknown id is read from: zeros
  bool streaming;             // writes around the caches; out, stride and dim are fit for it (can_stream)
};

// Returns how many ids were found.
namespace scalar {
std::size_t gather_rows(const GatherRequest& request);
}
namespace avx2 {
std::size_t gather_rows(const GatherRequest& request);
}
namespace avx512 {
std::size_t gather_rows(const GatherRequest& request);
}

}  // namespace monolith
