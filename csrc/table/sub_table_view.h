// What finding a row needs of a sub-table, packed: the views of a table stay in the first caches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith {

// A sub-table without rows has one line of empty entries.
struct SubTableView {
  const std::uint64_t* lines;
  std::byte* const* chunks;
  int log2_lines;
};

}  // namespace monolith
