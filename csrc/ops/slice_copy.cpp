#include "ops/slice_copy.h"

#include <algorithm>
#include <cstring>

#include "ops/parallel_for.h"

namespace monolith {

namespace {

// What a task reads and writes of 26 features of 16 floats fits the second cache.
constexpr std::size_t kTaskRows = 128;

// kWidth is the width, or 0 for any: a call to memcpy would cost more than the copy of a short slice.
template <std::size_t kWidth>
void copy_rows(const SliceCopy& copy, std::size_t begin, std::size_t end) {
  const std::size_t width = kWidth == 0 ? copy.width : kWidth;
  const float* from = copy.from + begin * copy.from_stride;
  float* to = copy.to + begin * copy.to_stride;
  for (std::size_t row = begin; row < end; ++row, from += copy.from_stride, to += copy.to_stride) {
    std::memcpy(to, from, width * sizeof(float));
  }
}

void add_rows(const SliceCopy& copy, std::size_t begin, std::size_t end) {
  for (std::size_t row = begin; row < end; ++row) {
    const float* from = copy.from + row * copy.from_stride;
    float* to = copy.to + row * copy.to_stride;
    for (std::size_t i = 0; i < copy.width; ++i) to[i] += from[i];
  }
}

void do_copy(const SliceCopy& copy, std::size_t begin, std::size_t end) {
  if (copy.add) return add_rows(copy, begin, end);
  switch (copy.width) {
    case 1:
      return copy_rows<1>(copy, begin, end);
    case 8:
      return copy_rows<8>(copy, begin, end);
    case 16:
      return copy_rows<16>(copy, begin, end);
    case 32:
      return copy_rows<32>(copy, begin, end);
    default:
      return copy_rows<0>(copy, begin, end);
  }
}

}  // namespace

void copy_slices(std::span<const SliceCopy> copies, std::size_t num_rows) {
  parallel_for((num_rows + kTaskRows - 1) / kTaskRows, [&](std::size_t task) {
    const std::size_t begin = task * kTaskRows;
    const std::size_t end = std::min(num_rows, begin + kTaskRows);
    for (const SliceCopy& copy : copies) do_copy(copy, begin, end);
  });
}

}  // namespace monolith
