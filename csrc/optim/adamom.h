// Adamom, the dense optimizer of the same name for rows: g' = g + wd*w; m = mom*m + (1-mom)*g'; v = ada*v + g'^2;
// c = ada*c + 1; w -= lr*m/sqrt(v/c + eps).
// State: m[dim], v[dim], c[1] (one count serves the row: all its weights step together), first 0.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct Adamom {
  static constexpr std::string_view kName = "adamom";
  static constexpr float kLearningRate = 5e-6F;
  struct Params {
    float ada_decay;
    float mom_decay;
    float epsilon;
    float weight_decay_factor;
  };
  static constexpr std::array kParameters{
      HyperParameter{"ada_decay", 0.9999F, Range::kUnit, "Share of the summed squared gradients that a step keeps."},
      HyperParameter{"mom_decay", 0.99F, Range::kUnit, "Share of the mean gradient that a step keeps."},
      HyperParameter{"epsilon", 1e-6F, Range::kPositive, "Added under the root, so that it is not 0."},
      kWeightDecayFactor,
  };
  static constexpr std::array kState{StateSlot{"m", Extent::kWeight}, StateSlot{"v", Extent::kWeight},
                                     StateSlot{"c", Extent::kSegment}};

  static void init_state(const Params&, std::size_t dim, float* state) { fill_row(state, 2 * dim + 1, 0.0F); }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict m,
                              const float* __restrict g, const StepContext& context) {
    float* const v = m + dim;
    float& count = m[2 * dim];
    const float lr = context.learning_rate;
    const float decay = params.weight_decay_factor;
    const float ada = params.ada_decay;
    const float keep = params.mom_decay;
    const float take = 1.0F - keep;
    const float epsilon = params.epsilon;
    const float new_count = ada * count + 1.0F;
    count = new_count;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      const float gradient = g[i] + decay * w[i];
      m[i] = keep * m[i] + take * gradient;
      v[i] = ada * v[i] + gradient * gradient;
      w[i] -= lr * m[i] / square_root(v[i] / new_count + epsilon);
    }
  }
};

}  // namespace monolith::MONOLITH_SIMD
