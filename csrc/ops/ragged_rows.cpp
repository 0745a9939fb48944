#include "ops/ragged_rows.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "ops/parallel_for.h"

namespace monolith {
namespace {

// Rows per task: enough work to be worth a thread.
constexpr std::size_t kRowsPerTask = 8192;

void require(bool holds, const char* message) {
  if (!holds) throw std::invalid_argument(message);
}

}  // namespace

void chosen_row_splits(Int64Span row_splits, Int64Span indices, std::span<std::int64_t> out) {
  require(!row_splits.empty(), "row_splits is empty; it needs one entry more than there are rows");
  require(out.size() == indices.size() + 1, "out must have one entry more than there are indices");
  check_indices(indices, row_splits.size() - 1, "indices");
  std::int64_t end = 0;
  out[0] = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    end += row_splits[indices[i] + 1] - row_splits[indices[i]];
    out[i + 1] = end;
  }
}

void copy_rows(std::span<const std::uint8_t> values, std::size_t value_bytes, Int64Span row_splits, Int64Span indices,
               Int64Span out_splits, std::span<std::uint8_t> out) {
  require(value_bytes > 0, "value_bytes must be positive");
  check_row_splits(row_splits, values.size() / value_bytes);
  check_indices(indices, row_splits.size() - 1, "indices");
  check_row_splits(out_splits, out.size() / value_bytes, "out_splits");
  require(values.size() % value_bytes == 0 && out.size() % value_bytes == 0, "values and out must hold whole values");
  require(out_splits.size() == indices.size() + 1, "out_splits must have one entry more than there are indices");
  parallel_for((indices.size() + kRowsPerTask - 1) / kRowsPerTask, [&](std::size_t task) {
    const std::size_t last = std::min(indices.size(), (task + 1) * kRowsPerTask);
    for (std::size_t i = task * kRowsPerTask; i < last; ++i) {
      const std::int64_t begin = row_splits[indices[i]];
      const std::int64_t length = row_splits[indices[i] + 1] - begin;
      require(out_splits[i + 1] - out_splits[i] == length, "out_splits do not fit the chosen rows");
      if (length == 0) continue;
      std::memcpy(out.data() + static_cast<std::size_t>(out_splits[i]) * value_bytes,
                  values.data() + static_cast<std::size_t>(begin) * value_bytes,
                  static_cast<std::size_t>(length) * value_bytes);
    }
  });
}

}  // namespace monolith
