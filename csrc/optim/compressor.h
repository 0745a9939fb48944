// How a segment is stored in a serving row, and what a training lookup reads (quantisation-aware training).
//
//   kind      bytes per row   encode                                               decode
//   fp32      4*dim           as it is                                             as it is
//   fp16      2*dim           IEEE half, nearest even                              exact
//   bf16      2*dim           upper half of a float, nearest even                  exact
//   fixed_r8  dim             q = x/step rounded half away from 0, step = r/128,   q*step
//                             clipped to [-128, 127]; NaN becomes 0
//   one_bit   (dim + 7)/8     bit i is x_i > 0 (0 and NaN count as negative)       +amplitude or -amplitude
//
// The multi-byte kinds are stored in the processor's byte order. one_bit packs eight weights to a byte, weight 0 in
// the lowest bit (the original spent a byte on each).
//
// Training with fixed_r8 reads the quantised value, and gradients pass unchanged (straight-through). Training with
// one_bit reads amplitude*tanh(scale*x), and the gradient is multiplied by that function's slope; the scale grows with
// the step, so the reading nears the stored bit: min(init_scale*sqrt(1 + 0.005*t), max_scale), where t is the last
// multiple of step_size. (Mend: the original changed the scale only if a gradient came at exactly that step, and forgot
// it at a restart.)
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace monolith {

struct CompressorConfig {
  std::string kind = "fp32";     // fp32, fp16, bf16, fixed_r8, one_bit
  float r = 1.0F;                // fixed_r8: values are clipped to [-r, r)
  std::int64_t step_size = 200;  // one_bit: steps between refreshes of the scale
  float init_scale = 1.0F;       // one_bit
  float max_scale = 10000.0F;    // one_bit
  float amplitude = 0.1F;        // one_bit
};

class Compressor {
 public:
  // Throws std::invalid_argument that names the unknown kind or the senseless value.
  Compressor(const CompressorConfig& config, std::size_t dim);
  Compressor(Compressor&&) noexcept = default;
  Compressor& operator=(Compressor&&) noexcept = default;

  std::size_t dim() const { return dim_; }

  // Serving rows. `out` and `encoded` need no alignment.
  std::size_t encoded_bytes() const;
  // Weights beyond this on either side have no finite code; a table stores it instead of them.
  float largest() const;
  void encode(const float* weights, std::uint8_t* out) const;
  void decode(const std::uint8_t* encoded, float* out) const;

  // Training rows keep full floats; a lookup reads through `retrieve` and a gradient passes `backward` (in place).
  // For fp32, fp16 and bf16 both are the identity, and `is_identity()` says so. `retrieve` may work in place.
  bool is_identity() const { return kind_ != Kind::kFixedR8 && kind_ != Kind::kOneBit; }
  void retrieve(const float* weights, float* out) const;
  // Moves one_bit's scale on to `global_step` first.
  void backward(const float* weights, float* gradient, std::int64_t global_step) const;

  // one_bit's scale. `advance` moves it on to where `global_step` has it, and never back: a gradient may come late.
  // `set_step` puts it there in any case, for a table that starts again.
  float scale() const { return scale_->load(std::memory_order_relaxed); }
  void advance(std::int64_t global_step) const;
  void set_step(std::int64_t global_step) const;

 private:
  enum class Kind { kFp32, kFp16, kBf16, kFixedR8, kOneBit };

  static Kind parse(const std::string& kind);
  float scale_at(std::int64_t global_step) const;

  CompressorConfig config_;
  Kind kind_;
  std::size_t dim_;
  // one_bit's scale, shared by all rows of the segment; refreshed while other threads read it.
  std::unique_ptr<std::atomic<float>> scale_;
};

}  // namespace monolith
