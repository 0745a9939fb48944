// Copies of column ranges between matrices, many at once: the slices of the features' rows into the tensors that a
// model reads, and their gradients back.
#pragma once

#include <cstddef>
#include <span>

namespace monolith {

// `width` floats of every row; strides are in floats.
struct SliceCopy {
  const float* from;
  std::size_t from_stride;
  float* to;
  std::size_t to_stride;
  std::size_t width;
  bool add;  // to what is there
};

// Does all copies for `num_rows` rows. For each row they are done in order, so a later one may add to what an earlier
// one wrote; apart from that, they must not overlap.
void copy_slices(std::span<const SliceCopy> copies, std::size_t num_rows);

}  // namespace monolith
