// Row optimizers: how a gradient changes one segment of a row.
//
// An optimizer is one header (adagrad.h, ...) that declares its hyper-parameters once, the floats of state it keeps
// beside a segment of `dim` weights, the state's first value, and the step. The table knows optimizers only through
// `RowOptimizer`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace monolith {

// What one step knows beside the row and its gradient.
struct StepContext {
  float learning_rate = 0;
  std::int64_t global_step = 0;
  // Seeds stochastic rounding; the table derives it from the id and the step, so results do not depend on threads.
  std::uint64_t random_key = 0;
};

// Updates `dim` weights in place; `gradient` is not changed. `params` are the hyper-parameters in declared order.
using StepFunction = void (*)(const float* params, std::size_t dim, float* weights, float* state,
                              const float* gradient, const StepContext& context);

struct HyperParameter {
  std::string_view name;
  float default_value;
};

struct OptimizerKind {
  std::string_view name;  // "adagrad", "sgd", ...
  std::span<const HyperParameter> hyper_parameters;
  std::size_t (*state_floats)(std::size_t dim);
  void (*init_state)(const float* params, std::size_t dim, float* state);
};

// All kinds, in a fixed order; file formats name a kind by its name, never by its place.
std::span<const OptimizerKind> optimizer_kinds();

// One segment's optimizer: a kind with its hyper-parameters and wrappers.
struct OptimizerConfig {
  std::string kind = "sgd";
  std::vector<float> params;                 // one per declared hyper-parameter; empty means all defaults
  bool stochastic_rounding_float16 = false;  // weights are rounded to neighbouring fp16 values after each step
};

class RowOptimizer {
 public:
  // Throws std::invalid_argument that names the unknown kind, the wrong parameter count or a dim that does not fit.
  RowOptimizer(const OptimizerConfig& config, std::size_t dim);

  std::size_t dim() const { return dim_; }
  std::size_t state_floats() const { return state_floats_; }
  void init_state(float* state) const;
  void step(float* weights, float* state, const float* gradient, const StepContext& context) const {
    step_(params_.data(), dim_, weights, state, gradient, context);
    if (stochastic_rounding_) round_weights(weights, context.random_key);
  }

 private:
  void round_weights(float* weights, std::uint64_t random_key) const;

  const OptimizerKind* kind_;
  std::vector<float> params_;
  std::size_t dim_;
  std::size_t state_floats_;
  bool stochastic_rounding_;
  StepFunction step_;  // for the SIMD level in use when the optimizer was made
};

}  // namespace monolith
