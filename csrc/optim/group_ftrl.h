// FTRL with group sparsity: norm and z as in FTRL, then the row lives or dies as a whole. Z = ||z||_2;
// w = 0 if Z <= l1, else lr*z*((l1 - Z)/Z)/(beta + sqrt(norm) + l2*lr).
// State: norm[dim] first initial_accumulator_value, z[dim] first 0.
// Mends: implemented (the original refused it), with l2*lr added, never subtracted; Z = l1 = 0 gives 0, not NaN; a
// learning rate of 0 leaves the row alone.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct GroupFtrl {
  static constexpr std::string_view kName = "group_ftrl";
  static constexpr float kLearningRate = 0.01F;
  struct Params {
    float beta;
    float initial_accumulator_value;
    float l1_regularization_strength;
    float l2_regularization_strength;
  };
  static constexpr std::array kParameters{
      HyperParameter{"beta", 1.0F, Range::kNotNegative, "Added to the root of the summed squared gradients."},
      HyperParameter{"initial_accumulator_value", 0.0F, Range::kNotNegative,
                     "First value of the sum of squared gradients."},
      HyperParameter{"l1_regularization_strength", 0.0F, Range::kNotNegative, "Pull of the whole segment towards 0."},
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
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      const float new_norm = norm[i] + g[i] * g[i];
      z[i] += g[i] - (square_root(new_norm) - square_root(norm[i])) / lr * w[i];
      norm[i] = new_norm;
    }
    const float length = square_root(sum_row(dim, [=](auto at) { return at(z) * at(z); }));
    const float l1 = params.l1_regularization_strength;
    if (length <= l1) {
      fill_row(w, dim, 0.0F);
      return;
    }
    const float shrink = (l1 - length) / length;
    const float beta = params.beta;
    const float ridge = params.l2_regularization_strength * lr;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      w[i] = lr * z[i] * shrink / (beta + square_root(norm[i]) + ridge + kTiny);
    }
  }
};

}  // namespace monolith::MONOLITH_SIMD
