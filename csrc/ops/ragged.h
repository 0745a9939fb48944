// Ragged arrays: values of many rows end to end, and row_splits that say where each row begins.
//
// row_splits has one entry more than there are rows, begins with 0, never decreases and ends with the number of
// values. Every function that takes row_splits checks that and throws std::invalid_argument otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace monolith {

using Int64Span = std::span<const std::int64_t>;

// Throws std::invalid_argument that names `what` unless row_splits fits num_values.
void check_row_splits(Int64Span row_splits, std::size_t num_values, std::string_view what = "row_splits");

// Throws std::invalid_argument that names `what` unless every index is in [0, bound).
void check_indices(Int64Span indices, std::size_t bound, std::string_view what);

// The row of each value; out holds row_splits.back() entries.
void value_rowids(Int64Span row_splits, std::span<std::int64_t> out);

// Joins row-split vectors that stand end to end (`sizes` entries each) into one: each next vector is shifted by the
// running total and loses its leading 0.
std::vector<std::int64_t> normalize_merged_split(Int64Span row_splits, Int64Span sizes);

// A stable partition: positions 0..n-1 ordered by group, and where each group begins in that order.
struct Groups {
  std::vector<std::int64_t> order;
  std::vector<std::int64_t> splits;
};
Groups group_by_index(Int64Span indices, std::size_t num_groups);

// The partition of ragged values by group. row_splits holds num_groups vectors of the input's size end to end:
// every group keeps the number of rows of the input.
struct RaggedGroups {
  Groups groups;
  std::vector<std::int64_t> row_splits;
};
RaggedGroups ragged_group_by_index(Int64Span indices, Int64Span row_splits, std::size_t num_groups);

}  // namespace monolith
