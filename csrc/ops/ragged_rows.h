// Rows of a ragged array taken in another order, whatever type its values have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/ragged.h"

namespace monolith {

// Where the chosen rows begin when they stand end to end; out has indices.size() + 1 entries.
// Throws std::invalid_argument unless every index names a row. `row_splits` must have been checked.
void chosen_row_splits(Int64Span row_splits, Int64Span indices, std::span<std::int64_t> out);

// Copies the chosen rows end to end. A value takes value_bytes bytes; out_splits comes from chosen_row_splits.
// Throws std::invalid_argument unless all sizes fit each other.
void copy_rows(std::span<const std::uint8_t> values, std::size_t value_bytes, Int64Span row_splits, Int64Span indices,
               Int64Span out_splits, std::span<std::uint8_t> out);

}  // namespace monolith
