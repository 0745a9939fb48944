#include <nanobind/stl/string.h>

#include <string>

#include "bind/ops.h"
#include "ops/pool.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

Pooling reducing(const std::string& kind) {
  return pooling_from_name(kind, {Pooling::kSum, Pooling::kMean, Pooling::kSqrtn});
}

template <class T>
void check_width(const Matrix<const T>& from, const Matrix<T>& to) {
  if (from.shape(1) != to.shape(1)) {
    const std::string widths = std::to_string(from.shape(1)) + " and " + std::to_string(to.shape(1));
    throw nb::value_error(("input and output rows must be equally wide, got " + widths).c_str());
  }
}

template <class T>
void bind_pooling_of(nb::module_& m) {
  using In = Matrix<const T>;
  using Out = Matrix<T>;
  m.def(
      "pool",
      [](In values, Ids row_splits, const std::string& kind, Out out) {
        check_width(values, out);
        pool(span_of(values), span_of(row_splits), values.shape(1), reducing(kind), span_of(out));
      },
      "values"_a.noconvert(), "row_splits"_a.noconvert(), "kind"_a, "out"_a.noconvert(), Release());
  m.def(
      "pool_grad",
      [](In grad, Ids row_splits, const std::string& kind, Out out) {
        check_width(grad, out);
        pool_grad(span_of(grad), span_of(row_splits), grad.shape(1), reducing(kind), span_of(out));
      },
      "grad"_a.noconvert(), "row_splits"_a.noconvert(), "kind"_a, "out"_a.noconvert(), Release());
  m.def(
      "pool_unique",
      [](In rows, Ids inverse, Ids row_splits, const std::string& kind, Out out) {
        check_width(rows, out);
        pool_unique(span_of(rows), span_of(inverse), span_of(row_splits), rows.shape(1), reducing(kind), span_of(out));
      },
      "rows"_a.noconvert(), "inverse"_a.noconvert(), "row_splits"_a.noconvert(), "kind"_a, "out"_a.noconvert(),
      Release());
  m.def(
      "pool_unique_grad",
      [](In grad, Ids inverse, Ids row_splits, const std::string& kind, Out out) {
        check_width(grad, out);
        pool_unique_grad(span_of(grad), span_of(inverse), span_of(row_splits), grad.shape(1), reducing(kind),
                         span_of(out));
      },
      "grad"_a.noconvert(), "inverse"_a.noconvert(), "row_splits"_a.noconvert(), "kind"_a, "out"_a.noconvert(),
      Release(), "Adds to `out`, in the order of the occurrences.");
}

template <class T>
void bind_rows_of(nb::module_& m) {
  using In = Matrix<const T>;
  using Out = Matrix<T>;
  m.def(
      "first_n",
      [](In values, Ids row_splits, std::size_t length, Out out) {
        check_width(values, out);
        first_n(span_of(values), span_of(row_splits), values.shape(1), length, span_of(out));
      },
      "values"_a.noconvert(), "row_splits"_a.noconvert(), "length"_a, "out"_a.noconvert(), Release(),
      "`out` is [bags * length, dim].");
  m.def(
      "first_n_grad",
      [](In grad, Ids row_splits, std::size_t length, Out out) {
        check_width(grad, out);
        first_n_grad(span_of(grad), span_of(row_splits), grad.shape(1), length, span_of(out));
      },
      "grad"_a.noconvert(), "row_splits"_a.noconvert(), "length"_a, "out"_a.noconvert(), Release());
  m.def(
      "gather_rows",
      [](In rows, Ids index, Out out) {
        check_width(rows, out);
        gather_rows(span_of(rows), span_of(index), rows.shape(1), span_of(out));
      },
      "rows"_a.noconvert(), "index"_a.noconvert(), "out"_a.noconvert(), Release());
  m.def(
      "scatter_add_rows",
      [](In grad, Ids index, Out out) {
        check_width(grad, out);
        scatter_add_rows(span_of(grad), span_of(index), grad.shape(1), span_of(out));
      },
      "grad"_a.noconvert(), "index"_a.noconvert(), "out"_a.noconvert(), Release(),
      "Adds to `out`, in the order of `index`.");
}

}  // namespace

void bind_pooling(nb::module_& m) {
  bind_pooling_of<float>(m);
  bind_pooling_of<double>(m);
  bind_rows_of<float>(m);
  bind_rows_of<double>(m);
}

}  // namespace monolith::bind
