#include "bind/finite_checks.h"

#include <string>

#include "ops/finite.h"

namespace monolith::bind {

void check_finite(const RowTable& table, const BatchPlan& plan, std::span<const float> values, Meaning meaning,
                  bool per_group) {
  const std::size_t place = first_not_finite(values);
  if (place == values.size()) return;
  const std::size_t row = place / table.dim();
  const std::int64_t id = per_group ? plan.id_of_group(row) : plan.id_at(row);
  const bool gradients = meaning == Meaning::kGradients;
  throw std::invalid_argument(
      "table '" + table.options().name + "': the " + (gradients ? "gradient" : "value") + " of id " +
      std::to_string(id) + " in row " + std::to_string(row) + ", column " + std::to_string(place % table.dim()) +
      " is " + std::to_string(values[place]) + "; nothing was changed: " +
      (gradients ? "check the loss, or clip or skip the batch" : "leave such rows out, or mend them"));
}

void check_finite_rows(const RowTable& table, std::span<const std::int64_t> ids, std::span<const std::byte> rows) {
  const RowLayout& layout = table.layout();
  const std::size_t bad = layout.first_not_finite(rows);
  if (bad == ids.size()) return;
  throw std::invalid_argument("table '" + table.options().name + "': of the row of id " + std::to_string(ids[bad]) +
                              ", " + layout.not_finite_part(rows.data() + bad * layout.row_bytes()) +
                              "; nothing was changed: leave such rows out, or mend them");
}

}  // namespace monolith::bind
