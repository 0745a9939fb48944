// Which cells of a filter were written since some moment: a bit for each.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "filter/zeroed_array.h"

namespace monolith {

// Not thread-safe. Takes a sixteenth of the filter's memory, and that only where cells were written.
class ChangedCells {
 public:
  // The cells that are asked for together; their places among them fit 16 bits.
  static constexpr std::size_t kPageCells = 65536;

  ChangedCells(std::size_t num_splits, std::size_t num_cells) : num_words_((num_cells + 63) / 64) {
    for (std::size_t split = 0; split < num_splits; ++split) splits_.emplace_back(Split{Bits(num_words_), false});
  }

  void mark(std::size_t split, std::size_t cell) { splits_[split].bits[cell / 64] |= std::uint64_t{1} << (cell % 64); }

  // All cells of a split were emptied; what is marked from here on was written after that.
  void empty(std::size_t split) { splits_[split] = {Bits(num_words_), true}; }

  bool was_emptied(std::size_t split) const { return splits_[split].was_emptied; }
  std::size_t num_pages() const { return (num_words_ * 64 + kPageCells - 1) / kPageCells; }

  // Calls visit(cell) for each marked cell of a page, in order.
  template <typename Visit>
  void visit_page(std::size_t split, std::size_t page, Visit&& visit) const {
    const std::size_t end = std::min(num_words_, (page + 1) * (kPageCells / 64));
    for (std::size_t word = page * (kPageCells / 64); word < end; ++word) {
      for (std::uint64_t bits = splits_[split].bits[word]; bits != 0; bits &= bits - 1) {
        visit(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
      }
    }
  }

 private:
  using Bits = ZeroedArray<std::uint64_t>;
  struct Split {
    Bits bits;
    bool was_emptied;
  };

  std::size_t num_words_;
  std::vector<Split> splits_;
};

}  // namespace monolith
