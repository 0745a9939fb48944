// Adadelta: g' = g + wd*w; accum = r*accum + (1-r)*g'^2; delta = sqrt(update + eps)/sqrt(accum + eps) * g';
// w -= lr*delta; update = r*update + (1-r)*delta^2.
// State: accum[dim], update[dim], first 0.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct Adadelta {
  static constexpr std::string_view kName = "adadelta";
  static constexpr float kLearningRate = 0.01F;
  struct Params {
    float weight_decay_factor;
    float averaging_ratio;
    float epsilon;
  };
  static constexpr std::array kParameters{
      kWeightDecayFactor,
      HyperParameter{"averaging_ratio", 0.9F, Range::kUnit, "Share of the old averages that a step keeps."},
      HyperParameter{"epsilon", 0.01F, Range::kPositive, "Added under both roots, so that they are not 0."},
  };
  static constexpr std::array kState{StateSlot{"accum", Extent::kWeight}, StateSlot{"accum_update", Extent::kWeight}};

  static void init_state(const Params&, std::size_t dim, float* state) { fill_row(state, 2 * dim, 0.0F); }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict accum,
                              const float* __restrict g, const StepContext& context) {
    float* const update = accum + dim;
    const float lr = context.learning_rate;
    const float decay = params.weight_decay_factor;
    const float keep = params.averaging_ratio;
    const float take = 1.0F - keep;
    const float epsilon = params.epsilon;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      const float gradient = g[i] + decay * w[i];
      accum[i] = keep * accum[i] + take * (gradient * gradient);
      const float delta = square_root(update[i] + epsilon) / square_root(accum[i] + epsilon) * gradient;
      w[i] -= lr * delta;
      update[i] = keep * update[i] + take * (delta * delta);
    }
  }
};

}  // namespace monolith::MONOLITH_SIMD
