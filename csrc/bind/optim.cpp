// Row optimizers, initializers and compressors on arrays of rows. Tables use the core directly; this is the way in for
// tests, tools and tables kept elsewhere.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bind/module.h"
#include "optim/compressor.h"
#include "optim/initializer.h"
#include "optim/optimizer.h"
#include "optim/random_bits.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

using ConstRows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Array>
void check_shape(const char* name, const Array& array, std::size_t rows, std::size_t width, const char* why) {
  if (array.shape(0) == rows && array.shape(1) == width) return;
  throw nb::value_error((std::string(name) + " has shape [" + std::to_string(array.shape(0)) + ", " +
                         std::to_string(array.shape(1)) + "], expected [" + std::to_string(rows) + ", " +
                         std::to_string(width) + "]: " + why)
                            .c_str());
}

// A new array of shape [rows, width] that owns its memory; never empty underneath, so that data() is never null.
template <class T>
struct NewRows {
  NewRows(std::size_t rows, std::size_t width)
      : rows(rows), width(width), values(std::make_unique<T[]>(rows * width + 1)) {}

  T* row(std::size_t i) { return values.get() + i * width; }
  nb::ndarray<nb::numpy, T, nb::ndim<2>> release() {
    T* data = values.release();
    nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
    return nb::ndarray<nb::numpy, T, nb::ndim<2>>(data, {rows, width}, owner);
  }

  std::size_t rows;
  std::size_t width;
  std::unique_ptr<T[]> values;
};

// The double that prints as the float does: 0.1, not 0.10000000149.
double shortest(float value) {
  std::array<char, 32> text;
  const char* end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double parsed = 0;
  std::from_chars(text.data(), end, parsed);
  return parsed;
}

// What each rule declares (optim/optimizer.h). Python takes names and defaults from here.
void bind_kinds(nb::module_& m) {
  nb::class_<HyperParameter>(m, "HyperParameter", "A number that a rule takes beside the learning rate.")
      .def_ro("name", &HyperParameter::name)
      .def_prop_ro(
          "default",
          [](const HyperParameter& self) {
            return self.range == Range::kSwitch ? nb::object(nb::bool_(self.default_value != 0))
                                                : nb::object(nb::float_(shortest(self.default_value)));
          },
          nb::sig("def default(self) -> float"), "A bool for a switch.")
      .def_prop_ro(
          "range", [](const HyperParameter& self) { return range_words(self.range); }, "The values that make sense.")
      .def_ro("meaning", &HyperParameter::meaning);
  nb::class_<StateSlot>(m, "StateSlot", "A part of the state that a rule keeps beside the weights.")
      .def_ro("name", &StateSlot::name)
      .def_prop_ro(
          "is_step", [](const StateSlot& self) { return self.extent == Extent::kStep; },
          "Whether it is a step number, whose 64 bits lie in two floats.")
      .def("floats", &slot_floats, "dim"_a, "Returns its number of floats beside dim weights.");
  nb::class_<OptimizerKind>(m, "OptimizerKind", "A rule as its header in csrc/optim declares it.")
      .def_ro("name", &OptimizerKind::name)
      .def_prop_ro(
          "learning_rate", [](const OptimizerKind& self) { return shortest(self.learning_rate); },
          "The default; 0 for a rule that takes none.")
      .def_prop_ro("hyper_parameters",
                   [](const OptimizerKind& self) {
                     return std::vector(self.hyper_parameters.begin(), self.hyper_parameters.end());
                   })
      .def_prop_ro("state",
                   [](const OptimizerKind& self) { return std::vector(self.state.begin(), self.state.end()); });
  m.def(
      "optimizer_kinds",
      [] {
        const std::span<const OptimizerKind> kinds = optimizer_kinds();
        return std::vector(kinds.begin(), kinds.end());
      },
      "Returns every rule; its hyper-parameters and the parts of its state are in the order of the kernels.");
}

std::vector<float> first_state(const std::string& kind, const std::vector<float>& params, std::size_t dim) {
  const RowOptimizer optimizer({kind, params, false}, dim);
  std::vector<float> state(optimizer.state_floats());
  optimizer.init_state(state.data());
  return state;
}

void optimizer_step(const std::string& kind, const std::vector<float>& params, Rows weights, Rows state,
                    ConstRows gradients, float learning_rate, std::int64_t global_step, bool stochastic_rounding,
                    std::uint64_t seed) {
  const std::size_t rows = weights.shape(0);
  const std::size_t dim = weights.shape(1);
  const RowOptimizer optimizer({kind, params, stochastic_rounding}, dim);
  check_shape("state", state, rows, optimizer.state_floats(), "state_floats(kind, params, dim) for each row");
  check_shape("gradients", gradients, rows, dim, "the shape of weights");
  if (!std::isfinite(learning_rate)) {
    const std::string got = std::to_string(learning_rate);
    throw nb::value_error((kind + ": learning_rate must be finite, got " + got + "; check its schedule").c_str());
  }
  if (global_step < 0) {
    throw nb::value_error(("global_step must be 0 or more, got " + std::to_string(global_step)).c_str());
  }
  StepContext context{learning_rate, global_step, 0};
  std::vector<float> old_weights(dim), old_state(optimizer.state_floats());
  for (std::size_t i = 0; i < rows; ++i) {
    context.random_key = combine_keys(seed, i);
    optimizer.step(weights.data() + i * dim, state.data() + i * optimizer.state_floats(), gradients.data() + i * dim,
                   context, {old_weights.data(), old_state.data()});
  }
}

nb::object initialize(const std::string& kind, float a, float b, std::uint64_t seed, Ids ids, std::size_t segment,
                      std::size_t dim) {
  const Initializer initializer({kind, a, b, seed});
  NewRows<float> out(ids.shape(0), dim);
  {
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < ids.shape(0); ++i) {
      initializer.fill(static_cast<std::uint64_t>(ids.data()[i]), segment, out.row(i), dim);
    }
  }
  return nb::cast(out.release());
}

void compensate_rows(float lambda, ConstRows weights, ConstRows latest, Rows gradients) {
  check_shape("latest", latest, weights.shape(0), weights.shape(1), "the shape of weights");
  check_shape("gradients", gradients, weights.shape(0), weights.shape(1), "the shape of weights");
  compensate_delay(lambda, weights.size(), weights.data(), latest.data(), gradients.data());
}

nb::object encode(const Compressor& compressor, ConstRows weights) {
  const std::size_t rows = weights.shape(0);
  const std::size_t dim = compressor.dim();
  check_shape("weights", weights, rows, dim, "the compressor's dim");
  NewRows<std::uint8_t> out(rows, compressor.encoded_bytes());
  {
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < rows; ++i) compressor.encode(weights.data() + i * dim, out.row(i));
  }
  return nb::cast(out.release());
}

nb::object decode(const Compressor& compressor, Bytes encoded) {
  const std::size_t rows = encoded.shape(0);
  const std::size_t width = compressor.encoded_bytes();
  check_shape("encoded", encoded, rows, width, "the compressor's encoded_bytes");
  NewRows<float> out(rows, compressor.dim());
  {
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < rows; ++i) compressor.decode(encoded.data() + i * width, out.row(i));
  }
  return nb::cast(out.release());
}

nb::object retrieve(const Compressor& compressor, ConstRows weights) {
  const std::size_t rows = weights.shape(0);
  const std::size_t dim = compressor.dim();
  check_shape("weights", weights, rows, dim, "the compressor's dim");
  NewRows<float> out(rows, dim);
  {
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < rows; ++i) compressor.retrieve(weights.data() + i * dim, out.row(i));
  }
  return nb::cast(out.release());
}

void backward(const Compressor& compressor, ConstRows weights, Rows gradients, std::int64_t global_step) {
  const std::size_t rows = weights.shape(0);
  const std::size_t dim = compressor.dim();
  check_shape("weights", weights, rows, dim, "the compressor's dim");
  check_shape("gradients", gradients, rows, dim, "the shape of weights");
  for (std::size_t i = 0; i < rows; ++i) {
    compressor.backward(weights.data() + i * dim, gradients.data() + i * dim, global_step);
  }
}

void bind_compressor(nb::module_& m) {
  const CompressorConfig defaults;
  nb::class_<Compressor>(m, "Compressor", "How the rows of one segment are stored for serving and read in training.")
      .def(
          "__init__",
          [](Compressor* self, const std::string& kind, std::size_t dim, float r, std::int64_t step_size,
             float init_scale, float max_scale,
             float amplitude) { new (self) Compressor({kind, r, step_size, init_scale, max_scale, amplitude}, dim); },
          "kind"_a, "dim"_a, nb::kw_only(), "r"_a = defaults.r, "step_size"_a = defaults.step_size,
          "init_scale"_a = defaults.init_scale, "max_scale"_a = defaults.max_scale, "amplitude"_a = defaults.amplitude)
      .def_prop_ro("dim", &Compressor::dim)
      .def_prop_ro("encoded_bytes", &Compressor::encoded_bytes, "Bytes of one encoded row.")
      .def_prop_ro("is_identity", &Compressor::is_identity, "Whether training reads the stored weights as they are.")
      .def_prop_ro("scale", &Compressor::scale, "one_bit's present scale.")
      .def("set_step", &Compressor::set_step, "global_step"_a, "Puts one_bit's scale where global_step has it.")
      .def("encode", &encode, nb::arg("weights").noconvert(), "Returns uint8 [rows, encoded_bytes].")
      .def("decode", &decode, nb::arg("encoded").noconvert(), "Returns float32 [rows, dim].")
      .def("retrieve", &retrieve, nb::arg("weights").noconvert(), "Returns what a training lookup reads.")
      .def("backward", &backward, nb::arg("weights").noconvert(), nb::arg("gradients").noconvert(), "global_step"_a,
           nb::call_guard<nb::gil_scoped_release>(), "Passes gradients back through retrieve, in place.");
}

}  // namespace

void bind_optim(nb::module_& m) {
  bind_kinds(m);
  m.def(
      "state_floats",
      [](const std::string& kind, const std::vector<float>& params, std::size_t dim) {
        return RowOptimizer({kind, params, false}, dim).state_floats();
      },
      "kind"_a, "params"_a, "dim"_a, "Returns the floats of state beside dim weights; no params means the defaults.");
  m.def(
      "init_state",
      [](const std::string& kind, const std::vector<float>& params, std::size_t dim) {
        const std::vector<float> state = first_state(kind, params, dim);
        NewRows<float> out(1, state.size());
        std::copy(state.begin(), state.end(), out.row(0));
        return nb::cast(out.release()).attr("reshape")(-1);
      },
      "kind"_a, "params"_a, "dim"_a, "Returns the state of a new row.");
  m.def("optimizer_step", &optimizer_step, "kind"_a, "params"_a, nb::arg("weights").noconvert(),
        nb::arg("state").noconvert(), nb::arg("gradients").noconvert(), "learning_rate"_a, "global_step"_a = 0,
        "stochastic_rounding"_a = false, "seed"_a = 0, nb::call_guard<nb::gil_scoped_release>(),
        "Steps every row of weights [n, dim] and state [n, state_floats] in place. Rounding draws from (seed, row).");
  m.def("initialize", &initialize, "kind"_a, "a"_a, "b"_a, "seed"_a, nb::arg("ids").noconvert(), "segment"_a, "dim"_a,
        "Returns first values, float32 [len(ids), dim].");
  m.def("compensate_delay", &compensate_rows, "lambda_"_a, nb::arg("weights").noconvert(),
        nb::arg("latest").noconvert(), nb::arg("gradients").noconvert(), nb::call_guard<nb::gil_scoped_release>(),
        "Adds lambda*g^2*(weights - latest) to the gradients, in place; call it before optimizer_step.");
  bind_compressor(m);
}

}  // namespace monolith::bind
