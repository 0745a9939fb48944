// AMSGrad: Adam with vhat = max(vhat, v) in the denominator, so a row's rate never grows again.
// State: m[dim], v[dim], vhat[dim] first 0; beta1^t, beta2^t first beta1, beta2.
#pragma once

#include "optim/adam.h"

namespace monolith::MONOLITH_SIMD {

struct Amsgrad {
  static constexpr std::string_view kName = "amsgrad";
  static constexpr float kLearningRate = 0.01F;
  using Params = Adam::Params;
  static constexpr auto kParameters = Adam::kParameters;
  static constexpr std::array kState{StateSlot{"m", Extent::kWeight}, StateSlot{"v", Extent::kWeight},
                                     StateSlot{"vhat", Extent::kWeight}, StateSlot{"beta1_power", Extent::kSegment},
                                     StateSlot{"beta2_power", Extent::kSegment}};

  static void init_state(const Params& params, std::size_t dim, float* state) {
    fill_row(state, 3 * dim, 0.0F);
    state[3 * dim] = params.beta1;
    state[3 * dim + 1] = params.beta2;
  }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict state,
                              const float* __restrict g, const StepContext& context) {
    float* const powers = state + 3 * dim;
    const float rate = context.learning_rate * square_root(1.0F - powers[1]) / (1.0F - powers[0]);
    if (params.use_nesterov != 0.0F) {
      move<true>(params, dim, w, state, g, rate);
    } else {
      move<false>(params, dim, w, state, g, rate);
    }
    powers[0] = next_power(powers[0], params.beta1);
    powers[1] = next_power(powers[1], params.beta2);
  }

 private:
  template <bool kNesterov>
  MONOLITH_ROW_STEP void move(const Params& params, std::size_t dim, float* __restrict w, float* __restrict m,
                              const float* __restrict g, float rate) {
    float* const v = m + dim;
    float* const vhat = v + dim;
    const float decay = params.weight_decay_factor;
    const float keep1 = params.beta1;
    const float take1 = 1.0F - params.beta1;
    const float take2 = 1.0F - params.beta2;
    const float epsilon = params.epsilon;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      const float gradient = g[i] + decay * w[i];
      m[i] += (gradient - m[i]) * take1;
      v[i] += (gradient * gradient - v[i]) * take2;
      vhat[i] = larger(vhat[i], v[i]);
      const float direction = kNesterov ? gradient * take1 + keep1 * m[i] : m[i];
      w[i] -= direction * rate / (square_root(vhat[i]) + epsilon);
    }
  }
};

}  // namespace monolith::MONOLITH_SIMD
