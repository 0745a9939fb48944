// What finding a row needs of a sub-table, packed: the views of a table stay in the first caches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith {

// A sub-table without rows has one line of empty entries.
struct SubTableView {
  const std::uint64_t* lines;
  std::byte* const* chunks;
  const std::uint64_t* larger_lines;  // twice as many, where the homes before `num_moved` are searched
  int log2_lines;
  std::uint32_t num_moved;
};

}  // namespace monolith
