// The file of what changed in a sliding hash filter since a save, specified in docs/formats.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "filter/cell_range.h"
#include "filter/sliding_hash_filter.h"

namespace monolith {

// What became of one split.
struct SplitChanges {
  struct Cell {
    std::uint16_t place;  // on its page of ChangedCells::kPageCells
    std::uint16_t value;
  };
  struct Page {
    std::uint64_t first_cell;
    std::vector<Cell> cells;
  };

  bool was_emptied = false;  // before the cells below were written
  std::uint64_t num_elements = 0;
  std::vector<Page> pages;
};

// Writes the file `name`, flushed to the disk; `state` tells the sizes and the head. Throws std::system_error, after
// removing what it had written.
void save_filter_changes(const std::string& name, HashShard shard, const SlidingHashFilter::State& state,
                         const std::vector<SplitChanges>& changes);

// Makes the changes of a file of this shard in a filter's splits, where cells lie in `kept`; after those of an older
// version the filter is empty. Returns the version. Throws std::system_error or std::invalid_argument; `state` is then
// of no use.
std::uint32_t apply_filter_changes(const std::string& name, HashShard shard, const CellRange& kept,
                                   SlidingHashFilter::State& state);

}  // namespace monolith
