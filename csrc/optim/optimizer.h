// Row optimizers: how a gradient changes one segment of a row.
//
// An optimizer is one header (adagrad.h, ...) that declares its hyper-parameters and their defaults, the parts of the
// state it keeps beside a segment of `dim` weights, the state's first value, and the step. Nothing else says them
// again: Python reads the declaration. The table knows optimizers only through `RowOptimizer`. All SIMD levels give the
// same bits (row_math.h says how).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optim/kernel_types.h"

namespace monolith {

struct OptimizerKind {
  std::string_view name;  // "adagrad", "sgd", ...
  float learning_rate;    // the default; 0: the rule takes none
  std::span<const HyperParameter> hyper_parameters;
  std::span<const StateSlot> state;
  std::size_t required_dim;  // the one dim it works on; 0: any
  std::size_t (*state_floats)(std::size_t dim);
  std::size_t (*state_numbers)(std::size_t dim);
  void (*init_state)(const float* params, std::size_t dim, float* state);
};

// All kinds, in a fixed order; file formats name a kind by its name, never by its place.
std::span<const OptimizerKind> optimizer_kinds();

// The floats of one part of the state beside `dim` weights.
std::size_t slot_floats(const StateSlot& slot, std::size_t dim);

// The values that make sense, in words: "0 or more".
std::string_view range_words(Range range);

// One segment's optimizer: a kind with its hyper-parameters and wrappers.
struct OptimizerConfig {
  std::string kind = "sgd";
  std::vector<float> params;                 // one per declared hyper-parameter; empty means all defaults
  bool stochastic_rounding_float16 = false;  // weights are rounded to neighbouring fp16 values after each step
  float max_gradient_norm = 0;               // a longer gradient is scaled to this length first; 0: none is
};

class RowOptimizer {
 public:
  // Throws std::invalid_argument that names the unknown kind, the wrong parameter count, the senseless parameter or
  // the dim that does not fit.
  RowOptimizer(const OptimizerConfig& config, std::size_t dim);

  std::size_t dim() const { return dim_; }
  std::size_t state_floats() const { return state_floats_; }
  // How many floats of the state, from its first, are numbers; behind them are bits of integers.
  std::size_t state_numbers() const { return kind_->state_numbers(dim_); }
  void init_state(float* state) const;

  // Returns whether all weights and all numbers of the state are finite then; if not, the caller puts back what they
  // were, which is in `old`.
  bool step(float* weights, float* state, const float* gradient, const StepContext& context, const OldRow& old) const {
    if (max_gradient_norm_ > 0) gradient = clipped(gradient);
    constexpr std::uint32_t kFirst = 0;
    const RowsToStep row{&weights, &state, 1, gradient, &kFirst, nullptr};
    const bool is_finite = step_(params_.data(), dim_, row, context, {nullptr, old}) == 1;
    if (stochastic_rounding_) round_weights(weights, context.random_key);
    return is_finite;
  }

  // Whether rows can be stepped together: gradients are not clipped, and weights not rounded.
  bool steps_rows() const { return max_gradient_norm_ == 0 && !stochastic_rounding_; }
  // See StepFunction.
  std::size_t step(const RowsToStep& rows, const StepContext& context, const StepRoom& room) const {
    return step_(params_.data(), dim_, rows, context, room);
  }

 private:
  const float* clipped(const float* gradient) const;
  void round_weights(float* weights, std::uint64_t random_key) const;

  const OptimizerKind* kind_;
  std::vector<float> params_;
  std::size_t dim_;
  std::size_t state_floats_;
  bool stochastic_rounding_;
  float max_gradient_norm_;
  StepFunction step_;  // for the dim, and for the SIMD level in use when the optimizer was made
};

// Delay compensation, before any optimizer's step: g += lambda*g^2*(w - latest), where `weights` is what the row holds
// now and `latest` what the gradient was computed from.
void compensate_delay(float lambda, std::size_t dim, const float* weights, const float* latest, float* gradient);

}  // namespace monolith
