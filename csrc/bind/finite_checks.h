// Refuses NaN and infinity before a table is changed.
#pragma once

#include <span>

#include "table/row_table.h"

namespace monolith::bind {

// What the values of a batch are, for messages.
enum class Meaning { kValues, kGradients };

// Throws std::invalid_argument, which names table, id and value, unless all `values` of a plan's batch are finite: a
// row per id, or with `per_group` per group.
void check_finite(const RowTable& table, const BatchPlan& plan, std::span<const float> values, Meaning meaning,
                  bool per_group = false);

// The same for rows with their state, as files have them.
void check_finite_rows(const RowTable& table, std::span<const std::int64_t> ids, std::span<const std::byte> rows);

}  // namespace monolith::bind
