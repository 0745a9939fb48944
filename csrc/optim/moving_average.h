// Moving average of observed values: w = mu*w + (1-mu)*g. The "gradient" is the observation; the learning rate is
// not used. No state.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct MovingAverage {
  static constexpr std::string_view kName = "moving_average";
  static constexpr float kLearningRate = 0.0F;  // it takes none
  struct Params {
    float momentum;
  };
  static constexpr std::array kParameters{
      HyperParameter{"momentum", 0.9F, Range::kUnit, "Share of the old average that a step keeps."}};
  static constexpr std::array<StateSlot, 0> kState{};

  static void init_state(const Params&, std::size_t, float*) {}

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float*,
                              const float* __restrict g, const StepContext&) {
    const float keep = params.momentum;
    const float take = 1.0F - keep;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) w[i] = keep * w[i] + take * g[i];
  }
};

}  // namespace monolith::MONOLITH_SIMD
