// Random numbers without a generator: a value is a function of its key and its place, so neither threads nor the
// order of work change it.
#pragma once

#include <cstdint>

namespace monolith {

// Scatters the bits of x (the finaliser of splitmix64).
inline std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// 64 random bits for place `index` of the stream that `key` names.
inline std::uint64_t random_bits(std::uint64_t key, std::uint64_t index) {
  return mix_bits(key + (index + 1) * 0x9E3779B97F4A7C15ULL);
}

// The stream of `key` split by one more coordinate.
inline std::uint64_t combine_keys(std::uint64_t key, std::uint64_t part) {
  return mix_bits(mix_bits(key + 0x9E3779B97F4A7C15ULL) ^ part);
}

}  // namespace monolith
