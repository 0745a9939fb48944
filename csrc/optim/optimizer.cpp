#include "optim/optimizer.h"

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "ops/simd.h"
#include "optim/half.h"
#include "optim/random_bits.h"

namespace monolith {

namespace {

const RowKernels& kernels_in_use() {
  switch (simd_level()) {
    case SimdLevel::kAvx512:
      return avx512::kRowKernels;
    case SimdLevel::kAvx2:
      return avx2::kRowKernels;
    case SimdLevel::kScalar:
      break;
  }
  return scalar::kRowKernels;
}

const OptimizerKind& find_kind(const std::string& name) {
  std::string known;
  for (const OptimizerKind& kind : optimizer_kinds()) {
    if (kind.name == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw std::invalid_argument("unknown optimizer '" + name + "'; choose one of " + known);
}

bool is_within(Range range, float value) {
  switch (range) {
    case Range::kNotNegative:
      return value >= 0;
    case Range::kPositive:
      return value > 0;
    case Range::kUnit:
      return value >= 0 && value <= 1;
    case Range::kBelowOne:
      return value >= 0 && value < 1;
    case Range::kSwitch:
      break;
  }
  return value == 0 || value == 1;
}

void check_value(const OptimizerKind& kind, const HyperParameter& parameter, float value) {
  if (is_within(parameter.range, value) && std::isfinite(value)) return;
  std::ostringstream message;
  message << kind.name << ": " << parameter.name << " must be " << range_words(parameter.range) << " and finite, got "
          << value << "; the default is " << parameter.default_value;
  throw std::invalid_argument(message.str());
}

std::vector<float> checked_params(const OptimizerKind& kind, const std::vector<float>& given) {
  std::vector<float> params = given;
  if (params.empty()) {
    for (const HyperParameter& parameter : kind.hyper_parameters) params.push_back(parameter.default_value);
  }
  if (params.size() != kind.hyper_parameters.size()) {
    std::ostringstream message;
    message << kind.name << " takes " << kind.hyper_parameters.size() << " hyper-parameters (";
    const char* separator = "";
    for (const HyperParameter& parameter : kind.hyper_parameters) {
      message << separator << parameter.name;
      separator = ", ";
    }
    message << "), got " << given.size() << "; give all of them in this order, or none for the defaults";
    throw std::invalid_argument(message.str());
  }
  for (std::size_t i = 0; i < params.size(); ++i) check_value(kind, kind.hyper_parameters[i], params[i]);
  return params;
}

StepFunction find_step(const OptimizerKind& kind, std::size_t dim) {
  const auto place = static_cast<std::size_t>(&kind - optimizer_kinds().data());
  return kernels_in_use().kinds[place].step_for_dim(dim);
}

}  // namespace

std::span<const OptimizerKind> optimizer_kinds() {
  static const std::vector<OptimizerKind> kinds = [] {
    std::vector<OptimizerKind> list;
    const RowKernels& kernels = scalar::kRowKernels;
    for (std::size_t i = 0; i < kernels.num_kinds; ++i) {
      const KindKernels& kind = kernels.kinds[i];
      list.push_back({kind.name,
                      kind.learning_rate,
                      {kind.hyper_parameters, kind.num_hyper_parameters},
                      {kind.state, kind.num_state_slots},
                      kind.required_dim,
                      kind.state_floats,
                      kind.state_numbers,
                      kind.init_state});
    }
    return list;
  }();
  return kinds;
}

std::size_t slot_floats(const StateSlot& slot, std::size_t dim) {
  if (slot.extent == Extent::kWeight) return dim;
  return slot.extent == Extent::kStep ? kStepFloats : 1;
}

std::string_view range_words(Range range) {
  switch (range) {
    case Range::kNotNegative:
      return "0 or more";
    case Range::kPositive:
      return "more than 0";
    case Range::kUnit:
      return "between 0 and 1";
    case Range::kBelowOne:
      return "0 or more and less than 1";
    case Range::kSwitch:
      break;
  }
  return "0 or 1";
}

RowOptimizer::RowOptimizer(const OptimizerConfig& config, std::size_t dim)
    : kind_(&find_kind(config.kind)),
      params_(checked_params(*kind_, config.params)),
      dim_(dim),
      state_floats_(kind_->state_floats(dim)),
      stochastic_rounding_(config.stochastic_rounding_float16),
      max_gradient_norm_(config.max_gradient_norm),
      step_(find_step(*kind_, dim)) {
  if (dim == 0) {
    throw std::invalid_argument(config.kind + ": dim must be positive, got 0; give the width of the segment");
  }
  if (!(max_gradient_norm_ >= 0) || !std::isfinite(max_gradient_norm_)) {
    throw std::invalid_argument(config.kind + ": max_gradient_norm must be 0 or more and finite, got " +
                                std::to_string(max_gradient_norm_) + "; 0 clips nothing");
  }
  if (kind_->required_dim != 0 && dim != kind_->required_dim) {
    throw std::invalid_argument(config.kind + " works on dim " + std::to_string(kind_->required_dim) +
                                " only, got dim " + std::to_string(dim) + "; give it a segment of its own");
  }
}

void RowOptimizer::init_state(float* state) const { kind_->init_state(params_.data(), dim_, state); }

// In double precision, where the square of no float overflows, and one after the other: the result depends neither on
// threads nor on the SIMD level. Gradients that add up to infinity stay not finite, and the step reports it.
const float* RowOptimizer::clipped(const float* gradient) const {
  thread_local std::vector<float> scaled;
  double squares = 0;
  for (std::size_t i = 0; i < dim_; ++i) squares += double{gradient[i]} * gradient[i];
  const double norm = std::sqrt(squares);
  if (!(norm > max_gradient_norm_)) return gradient;
  const double scale = max_gradient_norm_ / norm;
  scaled.resize(dim_);
  for (std::size_t i = 0; i < dim_; ++i) scaled[i] = static_cast<float>(gradient[i] * scale);
  return scaled.data();
}

void RowOptimizer::round_weights(float* weights, std::uint64_t random_key) const {
  for (std::size_t i = 0; i < dim_; ++i) {
    weights[i] = round_to_half_randomly(weights[i], random_bits(random_key, i));
  }
}

void compensate_delay(float lambda, std::size_t dim, const float* weights, const float* latest, float* gradient) {
  kernels_in_use().compensate_delay(lambda, dim, weights, latest, gradient);
}

}  // namespace monolith
