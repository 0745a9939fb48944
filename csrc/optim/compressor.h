// How a segment is stored in a serving row, and what a training lookup reads (quantisation-aware training).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace monolith {

struct CompressorConfig {
  std::string kind = "fp32";       // fp32, fp16, bf16, fixed_r8, one_bit
  float r = 1.0F;                  // fixed_r8: values are clipped to [-r, r)
  std::int64_t step_size = 200;    // one_bit: the scale is refreshed every so many steps
  float init_scale = 1.0F;         // one_bit
  float max_scale = 10000.0F;      // one_bit
  float amplitude = 0.1F;          // one_bit
};

class Compressor {
 public:
  // Throws std::invalid_argument that names the unknown kind or the senseless value.
  Compressor(const CompressorConfig& config, std::size_t dim);
  Compressor(Compressor&&) noexcept = default;

  std::size_t dim() const { return dim_; }

  // Serving rows.
  std::size_t encoded_bytes() const;
  void encode(const float* weights, std::uint8_t* out) const;
  void decode(const std::uint8_t* encoded, float* out) const;

  // Training rows keep full floats; a lookup reads through `retrieve` and a gradient passes `backward` (in place).
  // For fp32, fp16 and bf16 both are the identity, and `is_identity()` says so.
  bool is_identity() const;
  void retrieve(const float* weights, float* out) const;
  void backward(const float* weights, float* gradient, std::int64_t global_step) const;

 private:
  CompressorConfig config_;
  std::size_t dim_;
  // one_bit's scale, shared by all rows of the segment; refreshed while other threads read it.
  std::unique_ptr<std::atomic<float>> scale_;
};

}  // namespace monolith
