// Adam with its own bias correction per row: g' = g + wd*w; m += (g'-m)*(1-beta1); v += (g'^2-v)*(1-beta2);
// w -= L*m/(sqrt(v)+eps), L = lr*sqrt(1-beta2^t)/(1-beta1^t), t counting the steps of this row.
// With use_nesterov the numerator is L*(g'*(1-beta1) + beta1*m).
// State: m[dim], v[dim] first 0; beta1^t, beta2^t first beta1, beta2.
// Mend: both powers survive a restore, since the state is one run of floats.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

// beta^t for the next t. It ends at 0 instead of lingering as a denormal, which would slow every later step and
// changes nothing: 1 - power is 1 long before.
[[gnu::always_inline]] inline float next_power(float power, float beta) { return power > 1e-30F ? power * beta : 0.0F; }

struct Adam {
  static constexpr std::string_view kName = "adam";
  static constexpr float kLearningRate = 0.01F;
  struct Params {
    float beta1;
    float beta2;
    float weight_decay_factor;
    float use_nesterov;
    float epsilon;
  };
  static constexpr std::array kParameters{
      HyperParameter{"beta1", 0.9F, Range::kBelowOne, "Share of the mean gradient that a step keeps."},
      HyperParameter{"beta2", 0.99F, Range::kBelowOne, "Share of the mean squared gradient that a step keeps."},
      kWeightDecayFactor,
      kUseNesterov,
      HyperParameter{"epsilon", 0.01F, Range::kPositive, "Added to the divisor, so that it is not 0."},
  };
  static constexpr std::array kState{StateSlot{"m", Extent::kWeight}, StateSlot{"v", Extent::kWeight},
                                     StateSlot{"beta1_power", Extent::kSegment},
                                     StateSlot{"beta2_power", Extent::kSegment}};

  static void init_state(const Params& params, std::size_t dim, float* state) {
    fill_row(state, 2 * dim, 0.0F);
    state[2 * dim] = params.beta1;
    state[2 * dim + 1] = params.beta2;
  }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict state,
                              const float* __restrict g, const StepContext& context) {
    float* const powers = state + 2 * dim;
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
      const float direction = kNesterov ? gradient * take1 + keep1 * m[i] : m[i];
      w[i] -= direction * rate / (square_root(v[i]) + epsilon);
    }
  }
};

}  // namespace monolith::MONOLITH_SIMD
