// Products of rows with each other, and slices of rows joined into tensors.
#include "ops/interaction.h"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/ops.h"
#include "ops/slice_copy.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using Rows = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using RowsOut = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

EventRows events_of(const Rows& rows) { return {rows.data(), rows.shape(0), rows.shape(1), rows.shape(2)}; }

// Which columns of blocks, the rows of one feature each, are which columns of tensors.
class SliceLayout {
 public:
  // (block, its first column, tensor, its first column, width)
  using Part = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, std::size_t>;

  explicit SliceLayout(std::vector<Part> parts) : parts_(std::move(parts)) {}

  void join(const std::vector<Matrix<const float>>& blocks, const std::vector<Matrix<float>>& tensors) const {
    std::vector<SliceCopy> copies;
    for (const auto& [block, block_begin, tensor, tensor_begin, width] : parts_) {
      const auto& from = at(blocks, block, block_begin + width, "block");
      const auto& to = at(tensors, tensor, tensor_begin + width, "tensor");
      if (from.shape(0) != 1) check_rows(from.shape(0), to.shape(0));
      const std::size_t stride = from.shape(0) == 1 ? 0 : from.shape(1);
      copies.push_back({from.data() + block_begin, stride, to.data() + tensor_begin, to.shape(1), width, false});
    }
    copy_slices(copies, tensors.empty() ? 0 : tensors[0].shape(0));
  }

  void split(const std::vector<Matrix<const float>>& tensors, const std::vector<bool>& add,
             const std::vector<Matrix<float>>& blocks) const {
    if (add.size() != parts_.size()) throw std::invalid_argument("add must have one value per part");
    std::vector<SliceCopy> copies;
    std::size_t num_rows = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto& [block, block_begin, tensor, tensor_begin, width] = parts_[i];
      if (tensor < tensors.size() && tensors[tensor].size() == 0) continue;
      const auto& from = at(tensors, tensor, tensor_begin + width, "tensor");
      const auto& to = at(blocks, block, block_begin + width, "block");
      check_rows(to.shape(0), from.shape(0));
      num_rows = from.shape(0);
      copies.push_back(
          {from.data() + tensor_begin, from.shape(1), to.data() + block_begin, to.shape(1), width, add[i]});
    }
    copy_slices(copies, num_rows);
  }

 private:
  template <class Array>
  static const Array& at(const std::vector<Array>& arrays, std::size_t number, std::size_t columns, const char* what) {
    if (number >= arrays.size() || arrays[number].shape(1) < columns) {
      throw std::invalid_argument(std::string("there is no ") + what + " " + std::to_string(number) + " with " +
                                  std::to_string(columns) + " columns");
    }
    return arrays[number];
  }

  static void check_rows(std::size_t block, std::size_t tensor) {
    if (block != tensor) {
      throw std::invalid_argument("a block has " + std::to_string(block) + " rows, its tensor " +
                                  std::to_string(tensor) + "; both must be those of one batch");
    }
  }

  std::vector<Part> parts_;
};

}  // namespace

void bind_interaction(nb::module_& m) {
  nb::class_<SliceLayout>(m, "SliceLayout")
      .def(nb::init<std::vector<SliceLayout::Part>>(), "parts"_a,
           "Parts are (block, its first column, tensor, its first column, width).")
      .def("join", &SliceLayout::join, "blocks"_a, "tensors"_a, Release(),
           "Writes the tensors; a block of one row counts for every row.")
      .def("split", &SliceLayout::split, "tensors"_a, "add"_a, "blocks"_a, Release(),
           "Writes columns of the blocks, or adds to them; an empty tensor is left out.");
  m.def(
      "pair_sums", [](Rows rows, Flat<float> out) { pair_sums(events_of(rows), span_of(out)); }, "rows"_a.noconvert(),
      "out"_a.noconvert(), Release());
  m.def(
      "pair_sums_grad",
      [](Rows rows, Flat<const float> grad, RowsOut out) {
        pair_sums_grad(events_of(rows), span_of(grad), span_of(out));
      },
      "rows"_a.noconvert(), "grad"_a.noconvert(), "out"_a.noconvert(), Release());
  m.def(
      "pair_products", [](Rows rows, Matrix<float> out) { pair_products(events_of(rows), span_of(out)); },
      "rows"_a.noconvert(), "out"_a.noconvert(), Release());
  m.def(
      "pair_products_grad",
      [](Rows rows, Matrix<const float> grad, RowsOut out) {
        pair_products_grad(events_of(rows), span_of(grad), span_of(out));
      },
      "rows"_a.noconvert(), "grad"_a.noconvert(), "out"_a.noconvert(), Release());
}

}  // namespace monolith::bind
