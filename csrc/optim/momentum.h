// Momentum: n' = mu*n - lr*(g + wd*w); w += n', or with use_nesterov w += (1+mu)*n' - mu*n.
// State: n[dim], first 0.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct Momentum {
  static constexpr std::string_view kName = "momentum";
  static constexpr float kLearningRate = 0.01F;
  struct Params {
    float weight_decay_factor;
    float use_nesterov;
    float momentum;
  };
  static constexpr std::array kParameters{
      kWeightDecayFactor,
      kUseNesterov,
      HyperParameter{"momentum", 0.9F, Range::kUnit, "Share of the last move that a step keeps."},
  };
  static constexpr std::array kState{StateSlot{"n", Extent::kWeight}};

  static void init_state(const Params&, std::size_t dim, float* state) { fill_row(state, dim, 0.0F); }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict n,
                              const float* __restrict g, const StepContext& context) {
    const float lr = context.learning_rate;
    const float decay = params.weight_decay_factor;
    const float mu = params.momentum;
    const bool nesterov = params.use_nesterov != 0.0F;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      const float old_n = n[i];
      n[i] = mu * old_n - lr * (g[i] + decay * w[i]);
      w[i] = nesterov ? w[i] - mu * old_n + (1.0F + mu) * n[i] : w[i] + n[i];
    }
  }
};

}  // namespace monolith::MONOLITH_SIMD
