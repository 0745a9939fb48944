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

  // Fills `dim` weights for `id`. `segment` is the place of the segment in the row. Weight i depends on
  // (seed, id, segment, i) alone: not on threads, order, earlier rows or the dim. random_uniform draws from
  // [minval, maxval) (from minval alone if they are equal). random_normal is Box-Muller in double precision, so
  // platforms whose math libraries differ in the last bit of a double still agree to a float's rounding.
  void fill(std::uint64_t id, std::size_t segment, float* weights, std::size_t dim) const;

 private:
  enum class Kind { kConstant, kUniform, kNormal };

  void fill_uniform(std::uint64_t key, float* weights, std::size_t dim) const;
  void fill_normal(std::uint64_t key, float* weights, std::size_t dim) const;

  Kind kind_;
  float a_;
  float b_;
  std::uint64_t seed_;
};

}  // namespace monolith
