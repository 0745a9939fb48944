// First values of a new row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace monolith {

struct InitializerConfig {
  std::string kind = "zeros";  // zeros, ones, constants, random_uniform, random_normal
  float a = 0;                 // constants: the value; random_uniform: minval; random_normal: mean
  float b = 0;                 // random_uniform: maxval; random_normal: standard deviation
  std::uint64_t seed = 0;
};

class Initializer {
 public:
  // Throws std::invalid_argument that names the unknown kind or the senseless range.
  explicit Initializer(const InitializerConfig& config);

  // Fills `dim` weights for `id`. `segment` is the place of the segment in the row. The value depends on
  // (seed, id, segment) alone: not on threads, order or earlier rows.
  void fill(std::uint64_t id, std::size_t segment, float* weights, std::size_t dim) const;

 private:
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind_;
  float a_;
  float b_;
  std::uint64_t seed_;
};

}  // namespace monolith
