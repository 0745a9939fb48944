#include "ops/finite.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/parallel_for.h"

namespace monolith {

bool all_finite(const std::byte* floats, std::size_t count) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  // No branch in the loop, so that it vectorises: an exponent of all ones, which carries into the sign bit, is NaN or
  // infinity.
  std::uint32_t carried = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, floats + i * sizeof bits, sizeof bits);
    carried |= (bits & kExponent) + 0x00800000U;
  }
  return (carried & 0x80000000U) == 0;
}

std::size_t first_not_finite(std::span<const float> values) {
  constexpr std::size_t kPiece = std::size_t{32} << 10;
  const std::size_t num_pieces = (values.size() + kPiece - 1) / kPiece;
  std::vector<char> bad(num_pieces, 0);
  parallel_for(num_pieces, [&](std::size_t piece) {
    const auto part = values.subspan(piece * kPiece, std::min(kPiece, values.size() - piece * kPiece));
    bad[piece] = !all_finite(std::as_bytes(part).data(), part.size());
  });
  const auto piece = static_cast<std::size_t>(std::ranges::find(bad, 1) - bad.begin());
  if (piece == num_pieces) return values.size();
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(piece * kPiece);
  return static_cast<std::size_t>(std::find_if(first, values.end(), [](float x) { return !std::isfinite(x); }) -
                                  values.begin());
}

}  // namespace monolith
