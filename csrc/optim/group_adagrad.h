// Adagrad with group lasso: the row lives or dies as a whole. g' = g + wd*w; s += max(g'^2); L = lr/(beta + sqrt(s));
// z = g' - w/L; Z = ||z||_2; w = 0 if Z <= l2, else -L*(Z - l2)/Z * z.
// State: s[1], first initial_accumulator_value.
// Mends: Z = l2 = 0 gives 0, not NaN; a learning rate of 0, or beta = s = 0, leaves the weights alone.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct GroupAdagrad {
  static constexpr std::string_view kName = "group_adagrad";
  static constexpr float kLearningRate = 0.01F;
  struct Params {
    float beta;
    float initial_accumulator_value;
    float l2_regularization_strength;
    float weight_decay_factor;
  };
  static constexpr std::array kParameters{
      HyperParameter{"beta", 0.0F, Range::kNotNegative, "Added to the root of the summed squared gradients."},
      HyperParameter{"initial_accumulator_value", 0.1F, Range::kNotNegative,
                     "First value of the sum of squared gradients."},
      HyperParameter{"l2_regularization_strength", 0.0F, Range::kNotNegative, "Pull of the whole segment towards 0."},
      kWeightDecayFactor,
  };
  static constexpr std::array kState{StateSlot{"grad_square_sum", Extent::kSegment}};

  static void init_state(const Params& params, std::size_t, float* state) {
    state[0] = params.initial_accumulator_value;
  }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict state,
                              const float* __restrict g, const StepContext& context) {
    const float decay = params.weight_decay_factor;
    state[0] += max_row(dim, [=](auto at) {
      const auto gradient = at(g) + decay * at(w);
      return gradient * gradient;
    });
    const float scale = params.beta + square_root(state[0]);
    const float rate = context.learning_rate / scale;
    if (context.learning_rate == 0.0F || scale == 0.0F) return;
    const float length = square_root(sum_row(dim, [=](auto at) {
      const auto z = at(g) + decay * at(w) - at(w) / rate;
      return z * z;
    }));
    const float l2 = params.l2_regularization_strength;
    if (length <= l2) {
      fill_row(w, dim, 0.0F);
      return;
    }
    const float move = -rate * (length - l2) / length;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) w[i] = move * (g[i] + decay * w[i] - w[i] / rate);
  }
};

}  // namespace monolith::MONOLITH_SIMD
