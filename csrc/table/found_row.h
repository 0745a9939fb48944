// What finding an id gives. Plain types: kernels compiled for different instruction sets include this.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith {

inline constexpr std::uint32_t kNoRow = ~0U;
inline constexpr std::uint32_t kNoPosition = ~0U;  // of a batch

// Where a row is. The chunk's address is kept because asking the sub-table for it again is a cache miss.
struct FoundRow {
  std::byte* chunk = nullptr;
  std::uint32_t row = kNoRow;
};

}  // namespace monolith
