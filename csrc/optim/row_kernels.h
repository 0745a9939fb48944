// The table of all row kernels of one SIMD level; kernels_scalar.cpp, kernels_avx2.cpp and kernels_avx512.cpp each
// include it once with MONOLITH_SIMD set. A new optimizer is a header of its own and one line in kKinds.
#pragma once

#include "optim/adadelta.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/adamom.h"
#include "optim/amsgrad.h"
#include "optim/batch_softmax.h"
#include "optim/dynamic_wd_adagrad.h"
#include "optim/ftrl.h"
#include "optim/group_adagrad.h"
#include "optim/group_ftrl.h"
#include "optim/momentum.h"
#include "optim/moving_average.h"
#include "optim/rmsprop.h"
#include "optim/rmspropv2.h"
#include "optim/rowwise_adagrad.h"
#include "optim/sgd.h"

namespace monolith::MONOLITH_SIMD {

template <class Optimizer>
[[gnu::always_inline]] inline typename Optimizer::Params load_params(const float* params) {
  typename Optimizer::Params loaded;
  __builtin_memcpy(&loaded, params, Optimizer::kParameters.size() * sizeof(float));
  return loaded;
}

template <class Optimizer>
void init_state(const float* params, std::size_t dim, float* state) {
  Optimizer::init_state(load_params<Optimizer>(params), dim, state);
}

template <class Optimizer>
consteval std::size_t count_slots(Extent extent) {
  std::size_t count = 0;
  for (const StateSlot& slot : Optimizer::kState) count += slot.extent == extent;
  return count;
}

template <class Optimizer>
consteval bool steps_are_last() {
  bool seen = false;
  for (const StateSlot& slot : Optimizer::kState) {
    if (seen && slot.extent != Extent::kStep) return false;
    seen = slot.extent == Extent::kStep;
  }
  return true;
}

template <class Optimizer>
std::size_t state_numbers(std::size_t dim) {
  return count_slots<Optimizer>(Extent::kWeight) * dim + count_slots<Optimizer>(Extent::kSegment);
}

template <class Optimizer>
std::size_t state_floats(std::size_t dim) {
  return state_numbers<Optimizer>(dim) + count_slots<Optimizer>(Extent::kStep) * kStepFloats;
}

// The gradient of a row: the only one where it is, or the sum of several.
[[gnu::always_inline]] inline const float* gradient_of(const RowsToStep& rows, std::size_t i, std::size_t dim,
                                                       float* __restrict sum) {
  const std::uint32_t position = rows.positions[i];
  const float* first = rows.gradients + position * dim;
  if (rows.nexts == nullptr) return first;
  std::uint32_t next = rows.nexts[position];
  if (next == kNoNext) return first;
  // Sixteen floats at a time stay in registers.
  std::size_t done = 0;
  for (; done + kSumLanes <= dim; done += kSumLanes) {
    Sixteen lanes;
    __builtin_memcpy(&lanes, first + done, sizeof lanes);
    for (std::uint32_t at = next; at != kNoNext; at = rows.nexts[at]) {
      Sixteen more;
      __builtin_memcpy(&more, rows.gradients + at * dim + done, sizeof more);
      lanes += more;
    }
    __builtin_memcpy(sum + done, &lanes, sizeof lanes);
  }
  if (done == dim) return sum;
  copy_floats(sum + done, first + done, dim - done);
  for (; next != kNoNext; next = rows.nexts[next]) {
    const float* __restrict more = rows.gradients + next * dim;
    for (std::size_t d = done; d < dim; ++d) sum[d] += more[d];
  }
  return sum;
}

// Sum, copy, step and check in one: what the one reads or writes, the next finds in registers or the nearest cache.
template <class Optimizer>
[[gnu::always_inline]] inline std::size_t checked_steps(const float* params, std::size_t dim, const RowsToStep& rows,
                                                        const StepContext& context, const StepRoom& room) {
  const auto loaded = load_params<Optimizer>(params);
  const OldRow old = room.old;
  for (std::size_t i = 0; i < rows.count; ++i) {
    float* const weights = rows.weights[i];
    float* const state = rows.state[i];
    const float* const gradient = gradient_of(rows, i, dim, room.sum);
    copy_floats(old.weights, weights, dim);
    copy_floats(old.state, state, state_floats<Optimizer>(dim));
    Optimizer::step(loaded, dim, weights, state, gradient, context);
    if (!(all_finite(weights, dim) && all_finite(state, state_numbers<Optimizer>(dim)))) [[unlikely]]
      return i;
  }
  return rows.count;
}

template <class Optimizer>
std::size_t any_dim_step(const float* params, std::size_t dim, const RowsToStep& rows, const StepContext& context,
                         const StepRoom& room) {
  return checked_steps<Optimizer>(params, dim, rows, context, room);
}

template <class Optimizer, std::size_t kDim>
std::size_t fixed_dim_step(const float* params, std::size_t, const RowsToStep& rows, const StepContext& context,
                           const StepRoom& room) {
  return checked_steps<Optimizer>(params, kDim, rows, context, room);
}

template <class Optimizer>
StepFunction step_for_dim(std::size_t dim) {
  switch (dim) {
    case 8:
      return &fixed_dim_step<Optimizer, 8>;
    case 16:
      return &fixed_dim_step<Optimizer, 16>;
    case 32:
      return &fixed_dim_step<Optimizer, 32>;
    case 64:
      return &fixed_dim_step<Optimizer, 64>;
    case 128:
      return &fixed_dim_step<Optimizer, 128>;
    default:
      return &any_dim_step<Optimizer>;
  }
}

template <class Optimizer>
consteval std::size_t required_dim() {
  if constexpr (requires { Optimizer::kRequiredDim; }) {
    return Optimizer::kRequiredDim;
  } else {
    return 0;
  }
}

template <class Optimizer>
consteval KindKernels kernels_of() {
  using Params = typename Optimizer::Params;
  constexpr std::size_t kCount = Optimizer::kParameters.size();
  static_assert(kCount == 0 || sizeof(Params) == kCount * sizeof(float), "Params and kParameters must match");
  static_assert(steps_are_last<Optimizer>(), "a step number lies after the other slots of the state");
  return {Optimizer::kName,          Optimizer::kLearningRate, Optimizer::kParameters.data(), kCount,
          Optimizer::kState.data(),  Optimizer::kState.size(), required_dim<Optimizer>(),     &state_floats<Optimizer>,
          &state_numbers<Optimizer>, &init_state<Optimizer>,   &step_for_dim<Optimizer>};
}

// Delay compensation: g += lambda*g^2*(w - latest).
inline void compensate_delay(float lambda, std::size_t dim, const float* __restrict weights,
                             const float* __restrict latest, float* __restrict gradient) {
  MONOLITH_VECTOR_LOOP
  for (std::size_t i = 0; i < dim; ++i) {
    gradient[i] += lambda * (gradient[i] * gradient[i]) * (weights[i] - latest[i]);
  }
}

constexpr KindKernels kKinds[] = {
    kernels_of<Sgd>(),      kernels_of<Adagrad>(),   kernels_of<RowwiseAdagrad>(), kernels_of<Adadelta>(),
    kernels_of<Adam>(),     kernels_of<Amsgrad>(),   kernels_of<Adamom>(),         kernels_of<BatchSoftmax>(),
    kernels_of<Ftrl>(),     kernels_of<GroupFtrl>(), kernels_of<GroupAdagrad>(),   kernels_of<DynamicWdAdagrad>(),
    kernels_of<Momentum>(), kernels_of<Rmsprop>(),   kernels_of<RmspropV2>(),      kernels_of<MovingAverage>(),
};

constexpr RowKernels kRowKernels{kKinds, sizeof kKinds / sizeof kKinds[0], &compensate_delay};

}  // namespace monolith::MONOLITH_SIMD
