// Adagrad whose weight decay may follow how often the row is seen.
// Coupled: g' = g + d*w; norm += g'^2; w -= lr/sqrt(norm) * g'.
// Decoupled (decouple_weight_decay): norm += g^2; w -= lr/sqrt(norm)*g + lr*d*w.
// State: norm[dim] first initial_accumulator_value; the last step as int64 in two floats, first 0 (never seen).
// Mend: implemented (the original declared the parameters and refused the optimizer), so the meaning of the dynamic
// decay is ours. With k = steps since the row's last update (at least 1; 1 for a new row) and T the temperature:
//   enable_dynamic_wd = 0                d = wd
//   enable_dynamic_wd = 1                d = wd * k/(k + T)   rarely seen rows fade, common ones are spared
//   ... and flip_direction = 1           d = wd * T/(k + T)   common rows fade, rarely seen ones are spared
// At k = T both are wd/2. The factor stays in [0, 1], so a row that comes back after a long time is not thrown about.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct DynamicWdAdagrad {
  static constexpr std::string_view kName = "dynamic_wd_adagrad";
  static constexpr float kLearningRate = 0.001F;
  struct Params {
    float initial_accumulator_value;
    float weight_decay_factor;
    float decouple_weight_decay;
    float enable_dynamic_wd;
    float dynamic_wd_temperature;
    float flip_direction;
  };
  static constexpr std::array kParameters{
      HyperParameter{"initial_accumulator_value", 0.1F, Range::kNotNegative,
                     "First value of the sum of squared gradients."},
      kWeightDecayFactor,
      HyperParameter{"decouple_weight_decay", 0.0F, Range::kSwitch, "Whether weights decay apart from the gradient."},
      HyperParameter{"enable_dynamic_wd", 0.0F, Range::kSwitch,
                     "Whether the decay depends on how many steps a row was not seen."},
      HyperParameter{"dynamic_wd_temperature", 1.0F, Range::kPositive,
                     "Number of steps without a row at which its decay is half."},
      HyperParameter{"flip_direction", 0.0F, Range::kSwitch,
                     "Whether common rows decay more than rare ones, not less."},
  };
  static constexpr std::array kState{StateSlot{"norm", Extent::kWeight}, StateSlot{"last_update_step", Extent::kStep}};

  static void init_state(const Params& params, std::size_t dim, float* state) {
    fill_row(state, dim, params.initial_accumulator_value);
    store_step(state + dim, 0);
  }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict norm,
                              const float* __restrict g, const StepContext& context) {
    const float decay = params.weight_decay_factor * decay_share(params, load_step(norm + dim), context.global_step);
    store_step(norm + dim, context.global_step);
    const bool decoupled = params.decouple_weight_decay != 0.0F;
    const float coupled_decay = decoupled ? 0.0F : decay;
    const float lr = context.learning_rate;
    const float pull = decoupled ? lr * decay : 0.0F;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      const float gradient = g[i] + coupled_decay * w[i];
      norm[i] += gradient * gradient;
      w[i] = w[i] - lr / square_root(norm[i] + kTiny) * gradient - pull * w[i];
    }
  }

 private:
  MONOLITH_ROW_STEP float decay_share(const Params& params, std::int64_t last_step, std::int64_t global_step) {
    if (params.enable_dynamic_wd == 0.0F) return 1.0F;
    const std::int64_t elapsed = last_step == 0 ? 1 : steps_between(last_step, global_step);
    const float interval = elapsed > 1 ? static_cast<float>(elapsed) : 1.0F;
    const float temperature = params.dynamic_wd_temperature;
    return (params.flip_direction != 0.0F ? temperature : interval) / (interval + temperature);
  }
};

}  // namespace monolith::MONOLITH_SIMD
