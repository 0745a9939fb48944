// FTRL-proximal: n' = norm + g^2; z += g - (sqrt(n') - sqrt(norm))/lr * w; norm = n';
// w = 0 if |z| <= l1, else lr*(sign(z)*l1 - z)/(sqrt(norm) + beta + l2*lr).
// State: norm[dim] first initial_accumulator_value, z[dim] first 0.
// Mends: sign(z) is -1 or +1 as in the textbook (the original used 1 for negative z and 0 for positive z); a learning
// rate of 0 leaves the row alone instead of dividing by it.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct Ftrl {
  static constexpr std::string_view kName = "ftrl";
  static constexpr float kLearningRate = 0.01F;
  struct Params {
    float beta;
    float initial_accumulator_value;
    float l1_regularization_strength;
    float l2_regularization_strength;
  };
  static constexpr std::array kParameters{
      HyperParameter{"beta", 0.0F, Range::kNotNegative, "Added to the root of the summed squared gradients."},
      HyperParameter{"initial_accumulator_value", 0.1F, Range::kNotNegative,
                     "First value of the sum of squared gradients."},
      HyperParameter{"l1_regularization_strength", 0.0F, Range::kNotNegative, "Pull of each weight towards 0."},
      HyperParameter{"l2_regularization_strength", 0.0F, Range::kNotNegative,
                     "Shrinks each weight in proportion to it."},
  };
  static constexpr std::array kState{StateSlot{"norm", Extent::kWeight}, StateSlot{"zero", Extent::kWeight}};

  static void init_state(const Params& params, std::size_t dim, float* state) {
    fill_row(state, dim, params.initial_accumulator_value);
    fill_row(state + dim, dim, 0.0F);
  }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict norm,
                              const float* __restrict g, const StepContext& context) {
    const float lr = context.learning_rate;
    if (lr == 0.0F) return;
    float* const z = norm + dim;
    const float l1 = params.l1_regularization_strength;
    const float beta = params.beta;
    const float ridge = params.l2_regularization_strength * lr;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      const float new_norm = norm[i] + g[i] * g[i];
      const float root = square_root(new_norm);
      z[i] += g[i] - (root - square_root(norm[i])) / lr * w[i];
      norm[i] = new_norm;
      // Pulled towards 0 by l1, but not past it: exactly 0 where |z| <= l1.
      const float size = __builtin_fabsf(z[i]);
      const float pull = size < l1 ? size : l1;
      w[i] = lr * (__builtin_copysignf(pull, z[i]) - z[i]) / (root + beta + ridge + kTiny);
    }
  }
};

}  // namespace monolith::MONOLITH_SIMD
