// The fixed 64-bit mix of the filters: the output step of splitmix64.
// It is part of the admission filter's file format (docs/formats.md), so it never changes and has no seed.
#pragma once

#include <cstdint>

namespace monolith {

constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace monolith
