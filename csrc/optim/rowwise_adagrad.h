// Row-wise Adagrad: one accumulator for the whole row, so a row of 64 weights carries 1 float of state, not 64.
// g' = g + wd*w; acc += mean(g'^2); w -= lr/(sqrt(acc) + eps) * g'.
// State: acc[1], first initial_accumulator_value. The rule FBGEMM calls EXACT_ROWWISE_ADAGRAD.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct RowwiseAdagrad {
  static constexpr std::string_view kName = "rowwise_adagrad";
  static constexpr float kLearningRate = 0.001F;
  struct Params {
    float initial_accumulator_value;
    float weight_decay_factor;
    float epsilon;
  };
  static constexpr std::array kParameters{
      HyperParameter{"initial_accumulator_value", 0.0F, Range::kNotNegative,
                     "First value of the sum of squared gradients."},
      kWeightDecayFactor,
      HyperParameter{"epsilon", 1e-8F, Range::kPositive, "Added to the divisor, so that it is not 0."},
  };
  static constexpr std::array kState{StateSlot{"norm", Extent::kSegment}};

  static void init_state(const Params& params, std::size_t, float* state) {
    state[0] = params.initial_accumulator_value;
  }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict state,
                              const float* __restrict g, const StepContext& context) {
    const float decay = params.weight_decay_factor;
    const float sum = sum_row(dim, [=](auto at) {
      const auto gradient = at(g) + decay * at(w);
      return gradient * gradient;
    });
    state[0] += sum / static_cast<float>(dim);
    const float rate = context.learning_rate / (square_root(state[0]) + params.epsilon);
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) w[i] -= rate * (g[i] + decay * w[i]);
  }
};

}  // namespace monolith::MONOLITH_SIMD
