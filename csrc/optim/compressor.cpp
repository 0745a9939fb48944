#include "optim/compressor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "optim/half.h"

namespace monolith {

namespace {

constexpr float kScaleGrowth = 0.005F;

[[noreturn]] void reject(const CompressorConfig& config, const char* name, double value, const char* rule) {
  std::ostringstream message;
  message << config.kind << ": " << name << " must be " << rule << ", got " << value;
  throw std::invalid_argument(message.str());
}

void check_positive(const CompressorConfig& config, const char* name, float value) {
  if (!(value > 0) || !std::isfinite(value)) reject(config, name, value, "more than 0 and finite");
}

std::int8_t quantize(float value, float step) {
  const float shifted = (value + std::copysign(step / 2, value)) / step;
  if (std::isnan(shifted)) return 0;
  return static_cast<std::int8_t>(std::clamp(shifted, -128.0F, 127.0F));
}

// Two-byte kinds, read and written by memcpy since rows need no alignment.
template <class Convert>
void encode_words(const float* weights, std::size_t dim, std::uint8_t* out, Convert convert) {
  for (std::size_t i = 0; i < dim; ++i) {
    const std::uint16_t word = convert(weights[i]);
    std::memcpy(out + 2 * i, &word, sizeof word);
  }
}

template <class Convert>
void decode_words(const std::uint8_t* encoded, std::size_t dim, float* out, Convert convert) {
  for (std::size_t i = 0; i < dim; ++i) {
    std::uint16_t word;
    std::memcpy(&word, encoded + 2 * i, sizeof word);
    out[i] = convert(word);
  }
}

// 1 - tanh(x)^2 without the cancellation of that form.
float tanh_slope(float x) {
  const float decay = std::exp(-2.0F * std::abs(x));
  return 4.0F * decay / ((1.0F + decay) * (1.0F + decay));
}

}  // namespace

Compressor::Kind Compressor::parse(const std::string& kind) {
  if (kind == "fp32") return Kind::kFp32;
  if (kind == "fp16") return Kind::kFp16;
  if (kind == "bf16") return Kind::kBf16;
  if (kind == "fixed_r8") return Kind::kFixedR8;
  if (kind == "one_bit") return Kind::kOneBit;
  throw std::invalid_argument("unknown compressor '" + kind + "'; choose one of fp32, fp16, bf16, fixed_r8, one_bit");
}

Compressor::Compressor(const CompressorConfig& config, std::size_t dim)
    : config_(config),
      kind_(parse(config.kind)),
      dim_(dim),
      scale_(std::make_unique<std::atomic<float>>(std::min(config.init_scale, config.max_scale))) {
  if (dim == 0) {
    throw std::invalid_argument(config.kind + ": dim must be positive, got 0; give the width of the segment");
  }
  if (kind_ == Kind::kFixedR8) check_positive(config, "r", config.r);
  if (kind_ == Kind::kOneBit) {
    check_positive(config, "init_scale", config.init_scale);
    check_positive(config, "max_scale", config.max_scale);
    check_positive(config, "amplitude", config.amplitude);
    if (config.step_size <= 0) {
      reject(config, "step_size", static_cast<double>(config.step_size), "more than 0");
    }
  }
}

std::size_t Compressor::encoded_bytes() const {
  switch (kind_) {
    case Kind::kFp32:
      return dim_ * sizeof(float);
    case Kind::kFp16:
    case Kind::kBf16:
      return dim_ * sizeof(std::uint16_t);
    case Kind::kFixedR8:
      return dim_;
    case Kind::kOneBit:
      break;
  }
  return (dim_ + 7) / 8;
}

float Compressor::largest() const {
  switch (kind_) {
    case Kind::kFp16:
      return 65504.0F;
    case Kind::kBf16:
      return 0x1.FEp127F;
    case Kind::kFp32:
    case Kind::kFixedR8:
    case Kind::kOneBit:
      break;
  }
  return std::numeric_limits<float>::max();
}

void Compressor::encode(const float* weights, std::uint8_t* out) const {
  switch (kind_) {
    case Kind::kFp32:
      std::memcpy(out, weights, dim_ * sizeof(float));
      break;
    case Kind::kFp16:
      encode_words(weights, dim_, out, float_to_half);
      break;
    case Kind::kBf16:
      encode_words(weights, dim_, out, float_to_bfloat);
      break;
    case Kind::kFixedR8:
      for (std::size_t i = 0; i < dim_; ++i) {
        out[i] = static_cast<std::uint8_t>(quantize(weights[i], config_.r / 128.0F));
      }
      break;
    case Kind::kOneBit:
      std::memset(out, 0, encoded_bytes());
      for (std::size_t i = 0; i < dim_; ++i) {
        if (weights[i] > 0) out[i / 8] = static_cast<std::uint8_t>(out[i / 8] | (1U << (i % 8)));
      }
      break;
  }
}

void Compressor::decode(const std::uint8_t* encoded, float* out) const {
  switch (kind_) {
    case Kind::kFp32:
      std::memcpy(out, encoded, dim_ * sizeof(float));
      break;
    case Kind::kFp16:
      decode_words(encoded, dim_, out, half_to_float);
      break;
    case Kind::kBf16:
      decode_words(encoded, dim_, out, bfloat_to_float);
      break;
    case Kind::kFixedR8: {
      const float step = config_.r / 128.0F;
      for (std::size_t i = 0; i < dim_; ++i) out[i] = static_cast<float>(static_cast<std::int8_t>(encoded[i])) * step;
      break;
    }
    case Kind::kOneBit:
      for (std::size_t i = 0; i < dim_; ++i) {
        out[i] = (encoded[i / 8] >> (i % 8) & 1U) != 0 ? config_.amplitude : -config_.amplitude;
      }
      break;
  }
}

void Compressor::retrieve(const float* weights, float* out) const {
  if (kind_ == Kind::kFixedR8) {
    const float step = config_.r / 128.0F;
    for (std::size_t i = 0; i < dim_; ++i) out[i] = static_cast<float>(quantize(weights[i], step)) * step;
  } else if (kind_ == Kind::kOneBit) {
    const float factor = scale();
    for (std::size_t i = 0; i < dim_; ++i) out[i] = config_.amplitude * std::tanh(factor * weights[i]);
  } else {
    std::memmove(out, weights, dim_ * sizeof(float));
  }
}

void Compressor::backward(const float* weights, float* gradient, std::int64_t global_step) const {
  if (kind_ != Kind::kOneBit) return;
  advance(global_step);
  const float factor = scale();
  const float slope = config_.amplitude * factor;
  for (std::size_t i = 0; i < dim_; ++i) gradient[i] *= slope * tanh_slope(factor * weights[i]);
}

void Compressor::advance(std::int64_t global_step) const {
  if (kind_ != Kind::kOneBit) return;
  const float wanted = scale_at(global_step);
  float factor = scale();
  while (factor < wanted && !scale_->compare_exchange_weak(factor, wanted, std::memory_order_relaxed)) {
  }
}

void Compressor::set_step(std::int64_t global_step) const {
  if (kind_ == Kind::kOneBit) scale_->store(scale_at(global_step), std::memory_order_relaxed);
}

float Compressor::scale_at(std::int64_t global_step) const {
  const std::int64_t step = std::max<std::int64_t>(global_step, 0);
  const auto refreshed = static_cast<float>(step - step % config_.step_size);
  return std::min(config_.init_scale * std::sqrt(1.0F + kScaleGrowth * refreshed), config_.max_scale);
}

}  // namespace monolith
