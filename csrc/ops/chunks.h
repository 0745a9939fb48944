// Chunks of a flat buffer: rows of different widths that lie at given offsets.
//
// Where several chunks are written or added to one buffer, each task owns a range of it and walks over all chunks in
// order: no two threads touch one element, and the result does not depend on how many there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/ragged.h"

namespace monolith {

// The functions exist for float and double.

// outs[m][j] = fused[offsets[m][j] .. + dims[m]).
template <class T>
void fused_gather(std::span<const T> fused, std::span<const std::span<const std::int32_t>> offsets, Int64Span dims,
                  std::span<const std::span<T>> outs);
// Adds scale * grads[m][j] to those places of `fused`.
template <class T>
void fused_gather_grad(std::span<const std::span<const T>> grads,
                       std::span<const std::span<const std::int32_t>> offsets, Int64Span dims, T scale,
                       std::span<T> fused);

// What a buffer of values needs to be filled from unique keys: which chunks are copies of which key's value.
struct UniqueKeys {
  std::vector<std::int64_t> keys;           // per row: first seen first
  std::vector<std::int64_t> key_splits;     // [rows + 1]
  std::vector<std::int64_t> offsets;        // for each unique key, the offsets of all its occurrences
  std::vector<std::int64_t> offset_splits;  // [unique keys + 1]
  std::int64_t buffer_size = 0;
};
// Each occurrence of a key in row i takes dims[i] elements of the buffer.
UniqueKeys unique_keys_with_offsets(Int64Span keys, Int64Span key_splits, Int64Span dims);

// Which unique keys a value holds (`pos`, row i of it in chunks of dims[i]), and where their chunks lie.
struct OffsetMap {
  Int64Span pos;
  Int64Span pos_splits;
  Int64Span offsets;
  Int64Span offset_splits;
  Int64Span dims;
};
// Copies each chunk of `value` to all offsets of its key.
template <class T>
void fill_with_offset_map(const OffsetMap& map, std::span<const T> value, std::span<T> buffer);
// grad_value = for each chunk the sum of the buffer's gradient over all offsets of its key.
template <class T>
void fill_with_offset_map_grad(const OffsetMap& map, std::span<const T> grad_buffer, std::span<T> grad_value);

}  // namespace monolith
