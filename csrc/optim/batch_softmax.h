// Streaming frequency of an id, for the in-batch softmax loss: the single weight B is a moving average of the steps
// between two sightings, B = (1-lr)*B + lr*(global_step - last step), so 1/B estimates how often the id is seen.
// The gradient's value is ignored. dim must be 1.
// State: the last step as int64 in two floats, first 0.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct BatchSoftmax {
  static constexpr std::string_view kName = "batch_softmax";
  static constexpr float kLearningRate = 0.1F;
  static constexpr std::size_t kRequiredDim = 1;
  struct Params {};
  static constexpr std::array<HyperParameter, 0> kParameters{};
  static constexpr std::array kState{StateSlot{"global_step", Extent::kStep}};

  static void init_state(const Params&, std::size_t, float* state) { store_step(state, 0); }

  MONOLITH_ROW_STEP void step(const Params&, std::size_t, float* __restrict w, float* __restrict state, const float*,
                              const StepContext& context) {
    const float lr = context.learning_rate;
    const auto interval = static_cast<float>(steps_between(load_step(state), context.global_step));
    w[0] = (1.0F - lr) * w[0] + lr * interval;
    store_step(state, context.global_step);
  }
};

}  // namespace monolith::MONOLITH_SIMD
