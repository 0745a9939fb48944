// Adagrad: g' = g + wd*w; norm += g'^2; w -= lr/sqrt(norm) * g'.
// State: norm[dim], first initial_accumulator_value.
// Mends: the decayed gradient g' moves the weights at every SIMD level; a norm of 0 (no gradient yet) moves nothing
// instead of giving NaN.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct Adagrad {
  static constexpr std::string_view kName = "adagrad";
  static constexpr float kLearningRate = 0.001F;
  struct Params {
    float initial_accumulator_value;
    float weight_decay_factor;
  };
  static constexpr std::array kParameters{
      HyperParameter{"initial_accumulator_value", 0.1F, Range::kNotNegative,
                     "First value of the sum of squared gradients."},
      kWeightDecayFactor,
  };
  static constexpr std::array kState{StateSlot{"norm", Extent::kWeight}};

  static void init_state(const Params& params, std::size_t dim, float* state) {
    fill_row(state, dim, params.initial_accumulator_value);
  }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict norm,
                              const float* __restrict g, const StepContext& context) {
    const float lr = context.learning_rate;
    const float decay = params.weight_decay_factor;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      const float gradient = g[i] + decay * w[i];
      norm[i] += gradient * gradient;
      w[i] -= lr / square_root(norm[i] + kTiny) * gradient;
    }
  }
};

}  // namespace monolith::MONOLITH_SIMD
