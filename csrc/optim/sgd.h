// Stochastic gradient descent: w -= lr*g. No state.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct Sgd {
  static constexpr std::string_view kName = "sgd";
  static constexpr float kLearningRate = 0.01F;
  struct Params {};
  static constexpr std::array<HyperParameter, 0> kParameters{};
  static constexpr std::array<StateSlot, 0> kState{};

  static void init_state(const Params&, std::size_t, float*) {}

  MONOLITH_ROW_STEP void step(const Params&, std::size_t dim, float* __restrict w, float*, const float* __restrict g,
                              const StepContext& context) {
    const float lr = context.learning_rate;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) w[i] -= lr * g[i];
  }
};

}  // namespace monolith::MONOLITH_SIMD
