// RMSProp: g' = g + wd*w; n = mu*n + (1-mu)*g'^2; w -= lr/(sqrt(n) + 1) * g'. Inside in double precision.
// State: n[dim], first 0.
// Mend: the learning rate is the one passed to the step (the original used a constant of the configuration).
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct Rmsprop {
  static constexpr std::string_view kName = "rmsprop";
  static constexpr float kLearningRate = 0.01F;
  struct Params {
    float weight_decay_factor;
    float momentum;
  };
  static constexpr std::array kParameters{
      kWeightDecayFactor,
      HyperParameter{"momentum", 0.9F, Range::kUnit, "Share of the mean squared gradient that a step keeps."},
  };
  static constexpr std::array kState{StateSlot{"n", Extent::kWeight}};

  static void init_state(const Params&, std::size_t dim, float* state) { fill_row(state, dim, 0.0F); }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict n,
                              const float* __restrict g, const StepContext& context) {
    const double lr = context.learning_rate;
    const double decay = params.weight_decay_factor;
    const double mu = params.momentum;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      const double gradient = g[i] + decay * w[i];
      const double new_n = mu * n[i] + (1.0 - mu) * (gradient * gradient);
      n[i] = static_cast<float>(new_n);
      w[i] = static_cast<float>(w[i] - lr / (__builtin_sqrt(new_n) + 1.0) * gradient);
    }
  }
};

}  // namespace monolith::MONOLITH_SIMD
