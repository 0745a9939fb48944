// RMSProp, second form: g' = g + wd*w; n = mu*n + g'^2; w -= lr/(sqrt(n) + 1) * g'.
// State: n[dim], first 0.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct RmspropV2 {
  static constexpr std::string_view kName = "rmspropv2";
  static constexpr float kLearningRate = 0.01F;
  struct Params {
    float weight_decay_factor;
    float momentum;
  };
  static constexpr std::array kParameters{
      kWeightDecayFactor,
      HyperParameter{"momentum", 0.9F, Range::kUnit, "Share of the summed squared gradients that a step keeps."},
  };
  static constexpr std::array kState{StateSlot{"n", Extent::kWeight}};

  static void init_state(const Params&, std::size_t dim, float* state) { fill_row(state, dim, 0.0F); }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict n,
                              const float* __restrict g, const StepContext& context) {
    const float lr = context.learning_rate;
    const float decay = params.weight_decay_factor;
    const float mu = params.momentum;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      const float gradient = g[i] + decay * w[i];
      n[i] = mu * n[i] + gradient * gradient;
      w[i] -= lr / (square_root(n[i]) + 1.0F) * gradient;
    }
  }
};

}  // namespace monolith::MONOLITH_SIMD
