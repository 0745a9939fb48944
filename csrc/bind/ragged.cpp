#include "ops/ragged.h"

#include "bind/ops.h"
#include "ops/ragged_rows.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

auto group(Ids indices, std::size_t num_groups) {
  Groups groups;
  {
    const nb::gil_scoped_release release;
    groups = group_by_index(span_of(indices), num_groups);
  }
  return nb::make_tuple(to_tensor(std::move(groups.order)), to_tensor(std::move(groups.splits)));
}

auto ragged_group(Ids indices, Ids row_splits, std::size_t num_groups) {
  RaggedGroups result;
  {
    const nb::gil_scoped_release release;
    result = ragged_group_by_index(span_of(indices), span_of(row_splits), num_groups);
  }
  return nb::make_tuple(to_tensor(std::move(result.groups.order)), to_tensor(std::move(result.groups.splits)),
                        to_tensor(std::move(result.row_splits)));
}

auto normalize(Ids row_split, Ids row_split_size) {
  std::vector<std::int64_t> merged;
  {
    const nb::gil_scoped_release release;
    merged = normalize_merged_split(span_of(row_split), span_of(row_split_size));
  }
  return to_tensor(std::move(merged));
}

}  // namespace

void bind_ragged(nb::module_& m) {
  m.def(
      "check_row_splits",
      [](Ids row_splits, std::size_t num_values) { check_row_splits(span_of(row_splits), num_values); },
      "row_splits"_a.noconvert(), "num_values"_a, Release());
  m.def(
      "value_rowids", [](Ids row_splits, Flat<std::int64_t> out) { value_rowids(span_of(row_splits), span_of(out)); },
      "row_splits"_a.noconvert(), "out"_a.noconvert(), Release());
  m.def("normalize_merged_split", &normalize, "row_split"_a.noconvert(), "row_split_size"_a.noconvert());
  m.def(
      "chosen_row_splits",
      [](Ids row_splits, Ids indices, Flat<std::int64_t> out) {
        chosen_row_splits(span_of(row_splits), span_of(indices), span_of(out));
      },
      "row_splits"_a.noconvert(), "indices"_a.noconvert(), "out"_a.noconvert(), Release());
  m.def(
      "copy_rows",
      [](Flat<const std::uint8_t> values, std::size_t value_bytes, Ids row_splits, Ids indices, Ids out_splits,
         Flat<std::uint8_t> out) {
        copy_rows(span_of(values), value_bytes, span_of(row_splits), span_of(indices), span_of(out_splits),
                  span_of(out));
      },
      "values"_a.noconvert(), "value_bytes"_a, "row_splits"_a.noconvert(), "indices"_a.noconvert(),
      "out_splits"_a.noconvert(), "out"_a.noconvert(), Release());
  m.def("group_by_index", &group, "indices"_a.noconvert(), "num_groups"_a);
  m.def("ragged_group_by_index", &ragged_group, "indices"_a.noconvert(), "row_splits"_a.noconvert(), "num_groups"_a);
}

}  // namespace monolith::bind
