// The plain types that the row kernels and the rest of the core share.
//
// The kernel files are compiled with AVX flags, so what they include may hold no inline function with code of its own:
// the linker would keep one copy, perhaps the AVX one, for every caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace monolith {

// What one step knows beside the row and its gradient.
struct StepContext {
  float learning_rate = 0;
  std::int64_t global_step = 0;  // never negative; callers check it once per batch
  // Seeds stochastic rounding; the table derives it from the id and the step, so results do not depend on threads.
  std::uint64_t random_key = 0;
};

// Where a step leaves what the weights and the state were: room for `dim` and `state_floats` floats.
struct OldRow {
  float* weights;
  float* state;
};

// Rows to step one after the other, and where their gradients are.
struct RowsToStep {
  float* const* weights;
  float* const* state;
  std::size_t count;
  const float* gradients;          // `dim` floats each
  const std::uint32_t* positions;  // of a row's first gradient among them
  // After each position, that of the next gradient of the same row, or kNoNext; they are added up in this order.
  // nullptr: a row has one gradient.
  const std::uint32_t* nexts;
};
inline constexpr std::uint32_t kNoNext = ~0U;

// What a step needs beside: room for a sum of gradients, and for a row's numbers of before the step.
struct StepRoom {
  float* sum;  // `dim` floats; nullptr where every row has one gradient
  OldRow old;
};

// Updates `dim` weights of each row in place; gradients are not changed. `params` are the hyper-parameters in declared
// order. No two of a row's weights, its state, a gradient and `room` overlap. Stops after a row whose weights or
// numbers of state are not all finite then; what they were is in `room.old`. Returns the place of that row, or
// `rows.count`.
using StepFunction = std::size_t (*)(const float* params, std::size_t dim, const RowsToStep& rows,
                                     const StepContext& context, const StepRoom& room);

// The values that make sense for a hyper-parameter.
enum class Range {
  kNotNegative,  // [0, inf)
  kPositive,     // (0, inf)
  kUnit,         // [0, 1]
  kBelowOne,     // [0, 1)
  kSwitch,       // 0 or 1
};

struct HyperParameter {
  std::string_view name;
  float default_value;
  Range range;
  std::string_view meaning;  // one sentence, which help() in Python shows
};

// What several rules declare alike.
inline constexpr HyperParameter kWeightDecayFactor{"weight_decay_factor", 0.0F, Range::kNotNegative,
                                                   "Share of a weight that is added to its gradient."};
inline constexpr HyperParameter kUseNesterov{"use_nesterov", 0.0F, Range::kSwitch,
                                             "Whether to step from where the momentum leads."};

// How many floats one part of the state takes.
enum class Extent {
  kWeight,   // one for each weight
  kSegment,  // one for the segment
  kStep,     // a step number, its 64 bits in two floats; after all others
};
inline constexpr std::size_t kStepFloats = 2;

// One part of the state; parts lie in declared order. The name is that of its field in optimizer_dump.proto.
struct StateSlot {
  std::string_view name;
  Extent extent;
};

// One kind of optimizer as one SIMD level compiled it.
struct KindKernels {
  std::string_view name;
  float learning_rate;  // the default of its learning rate; 0: the rule takes none
  const HyperParameter* hyper_parameters;
  std::size_t num_hyper_parameters;
  const StateSlot* state;
  std::size_t num_state_slots;
  std::size_t required_dim;  // 0: any
  std::size_t (*state_floats)(std::size_t dim);
  std::size_t (*state_numbers)(std::size_t dim);  // the first floats of the state; behind them are bits of integers
  void (*init_state)(const float* params, std::size_t dim, float* state);
  StepFunction (*step_for_dim)(std::size_t dim);
};

// All row kernels of one SIMD level. The levels list the same kinds in the same order.
struct RowKernels {
  const KindKernels* kinds;
  std::size_t num_kinds;
  void (*compensate_delay)(float lambda, std::size_t dim, const float* weights, const float* latest, float* gradient);
};

namespace scalar {
extern const RowKernels kRowKernels;
}
namespace avx2 {
extern const RowKernels kRowKernels;
}
namespace avx512 {
extern const RowKernels kRowKernels;
}

}  // namespace monolith
