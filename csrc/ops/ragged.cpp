#include "ops/ragged.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace monolith {

void check_row_splits(Int64Span row_splits, std::size_t num_values, std::string_view what) {
  const std::string name(what);
  if (row_splits.empty()) throw std::invalid_argument(name + " is empty; it needs one entry more than there are rows");
  if (row_splits.front() != 0) {
    throw std::invalid_argument(name + " must start with 0, got " + std::to_string(row_splits.front()));
  }
  for (std::size_t i = 1; i < row_splits.size(); ++i) {
    if (row_splits[i] < row_splits[i - 1]) {
      throw std::invalid_argument(name + " must not decrease, but entry " + std::to_string(i) + " is " +
                                  std::to_string(row_splits[i]) + " after " + std::to_string(row_splits[i - 1]));
    }
  }
  if (static_cast<std::size_t>(row_splits.back()) != num_values) {
    throw std::invalid_argument(name + " ends with " + std::to_string(row_splits.back()) + " but there are " +
                                std::to_string(num_values) + " values; the two must be equal");
  }
}

void check_indices(Int64Span indices, std::size_t bound, std::string_view what) {
  // One branch-free pass for the usual case; the culprit is looked for only when there is one.
  std::uint64_t largest = 0;
  for (const std::int64_t index : indices) largest = std::max(largest, static_cast<std::uint64_t>(index));
  if (indices.empty() || largest < bound) return;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (static_cast<std::uint64_t>(indices[i]) >= bound) {
      throw std::invalid_argument(std::string(what) + "[" + std::to_string(i) + "] is " + std::to_string(indices[i]) +
                                  ", outside [0, " + std::to_string(bound) + ")");
    }
  }
}

void value_rowids(Int64Span row_splits, std::span<std::int64_t> out) {
  check_row_splits(row_splits, out.size());
  for (std::size_t row = 0; row + 1 < row_splits.size(); ++row) {
    std::fill(out.begin() + row_splits[row], out.begin() + row_splits[row + 1], static_cast<std::int64_t>(row));
  }
}

std::vector<std::int64_t> normalize_merged_split(Int64Span row_splits, Int64Span sizes) {
  std::vector<std::int64_t> merged{0};
  merged.reserve(row_splits.size() + 1);
  std::size_t begin = 0;
  for (const std::int64_t size : sizes) {
    if (size < 1 || static_cast<std::size_t>(size) > row_splits.size() - begin) {
      throw std::invalid_argument("row_split_size " + std::to_string(size) + " does not fit: " +
                                  std::to_string(row_splits.size() - begin) + " entries of row_split are left");
    }
    const Int64Span part = row_splits.subspan(begin, static_cast<std::size_t>(size));
    check_row_splits(part, static_cast<std::size_t>(std::max<std::int64_t>(part.back(), 0)), "row_split");
    const std::int64_t shift = merged.back();
    for (const std::int64_t split : part.subspan(1)) merged.push_back(shift + split);
    begin += part.size();
  }
  if (begin != row_splits.size()) {
    throw std::invalid_argument("row_split_size adds up to " + std::to_string(begin) + " but row_split has " +
                                std::to_string(row_splits.size()) + " entries");
  }
  return merged;
}

Groups group_by_index(Int64Span indices, std::size_t num_groups) {
  check_indices(indices, num_groups, "indices");
  Groups groups{std::vector<std::int64_t>(indices.size()), std::vector<std::int64_t>(num_groups + 1, 0)};
  for (const std::int64_t index : indices) ++groups.splits[index + 1];
  for (std::size_t i = 1; i <= num_groups; ++i) groups.splits[i] += groups.splits[i - 1];
  std::vector<std::int64_t> next(groups.splits.begin(), groups.splits.end() - 1);
  for (std::size_t i = 0; i < indices.size(); ++i) groups.order[next[indices[i]]++] = static_cast<std::int64_t>(i);
  return groups;
}

RaggedGroups ragged_group_by_index(Int64Span indices, Int64Span row_splits, std::size_t num_groups) {
  check_row_splits(row_splits, indices.size());
  RaggedGroups result{group_by_index(indices, num_groups), {}};
  const std::size_t stride = row_splits.size();
  result.row_splits.assign(num_groups * stride, 0);
  for (std::size_t row = 0; row + 1 < stride; ++row) {
    for (std::size_t group = 0; group < num_groups; ++group) {
      result.row_splits[group * stride + row + 1] = result.row_splits[group * stride + row];
    }
    for (std::int64_t k = row_splits[row]; k < row_splits[row + 1]; ++k) {
      ++result.row_splits[indices[k] * stride + row + 1];
    }
  }
  return result;
}

}  // namespace monolith
