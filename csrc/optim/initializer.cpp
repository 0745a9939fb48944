#include "optim/initializer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <sstream>
#include <stdexcept>

#include "optim/random_bits.h"

namespace monolith {

namespace {

// Uniform in [0, 1) and, for logarithms, in (0, 1].
double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }
double unit_above_zero(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1p-53; }

[[noreturn]] void reject(const InitializerConfig& config, const char* rule) {
  std::ostringstream message;
  message << config.kind << ": " << rule << ", got " << config.a << " and " << config.b;
  throw std::invalid_argument(message.str());
}

}  // namespace

Initializer::Initializer(const InitializerConfig& config) : a_(config.a), b_(config.b), seed_(config.seed) {
  if (config.kind == "zeros" || config.kind == "ones") {
    kind_ = Kind::kConstant;
    a_ = config.kind == "ones" ? 1.0F : 0.0F;
  } else if (config.kind == "constants") {
    kind_ = Kind::kConstant;
    if (!std::isfinite(a_)) reject(config, "the constant must be finite");
  } else if (config.kind == "random_uniform") {
    kind_ = Kind::kUniform;
    if (!std::isfinite(a_) || !std::isfinite(b_)) reject(config, "minval and maxval must be finite");
    if (a_ > b_) reject(config, "minval must not be above maxval");
  } else if (config.kind == "random_normal") {
    kind_ = Kind::kNormal;
    if (!std::isfinite(a_) || !std::isfinite(b_)) reject(config, "mean and standard deviation must be finite");
    if (b_ < 0) reject(config, "the standard deviation must be 0 or more");
  } else {
    throw std::invalid_argument("unknown initializer '" + config.kind +
                                "'; choose one of zeros, ones, constants, random_uniform, random_normal");
  }
}

void Initializer::fill(std::uint64_t id, std::size_t segment, float* weights, std::size_t dim) const {
  const auto key = [&] { return combine_keys(combine_keys(seed_, id), segment); };
  switch (kind_) {
    case Kind::kConstant:
      std::fill_n(weights, dim, a_);
      break;
    case Kind::kUniform:
      fill_uniform(key(), weights, dim);
      break;
    case Kind::kNormal:
      fill_normal(key(), weights, dim);
      break;
  }
}

void Initializer::fill_uniform(std::uint64_t key, float* weights, std::size_t dim) const {
  const double low = a_;
  const double width = static_cast<double>(b_) - low;
  // Rounding a double just below maxval to float may give maxval, which the half-open range leaves out.
  const float highest = a_ < b_ ? std::nextafter(b_, a_) : a_;
  for (std::size_t i = 0; i < dim; ++i) {
    weights[i] = std::min(static_cast<float>(low + width * unit(random_bits(key, i))), highest);
  }
}

void Initializer::fill_normal(std::uint64_t key, float* weights, std::size_t dim) const {
  // One pair of uniform numbers makes the pair of weights 2i, 2i + 1.
  for (std::size_t i = 0; i < dim; i += 2) {
    const double radius = b_ * std::sqrt(-2.0 * std::log(unit_above_zero(random_bits(key, i))));
    const double angle = 2.0 * std::numbers::pi * unit(random_bits(key, i + 1));
    weights[i] = static_cast<float>(a_ + radius * std::cos(angle));
    if (i + 1 < dim) weights[i + 1] = static_cast<float>(a_ + radius * std::sin(angle));
  }
}

}  // namespace monolith
