#include "ops/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/parallel_for.h"

namespace monolith {

std::size_t first_not_finite(std::span<const float> values) {
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  constexpr std::uint32_t kExponent = 0x7F800000;
  const std::size_t num_pieces = (values.size() + kPiece - 1) / kPiece;
  std::vector<char> bad(num_pieces, 0);
  parallel_for(num_pieces, [&](std::size_t piece) {
    const auto part = values.subspan(piece * kPiece, std::min(kPiece, values.size() - piece * kPiece));
    // No branch in the loop, so that it vectorises: an exponent of all ones is NaN or infinity.
    std::uint32_t any = 0;
    for (const float value : part) any |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
    bad[piece] = any != 0;
  });
  const auto piece = static_cast<std::size_t>(std::ranges::find(bad, 1) - bad.begin());
  if (piece == num_pieces) return values.size();
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(piece * kPiece);
  return static_cast<std::size_t>(std::find_if(first, values.end(), [](float x) { return !std::isfinite(x); }) -
                                  values.begin());
}

}  // namespace monolith
