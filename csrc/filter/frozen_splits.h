// The splits of a filter at one moment, while counting goes on: a page is copied before it is first written to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace monolith {

// Not thread-safe: all calls are made under the filter's lock. State is SlidingHashFilter::State.
template <typename State>
class FrozenSplits {
 public:
  static constexpr std::size_t kPageCells = 2048;
  static constexpr std::size_t kPagesAtOnce = 64;  // copied under one hold of the lock

  explicit FrozenSplits(const State& state) {
    then_.head = state.head;
    then_.head_increment = state.head_increment;
    then_.failure_count = state.failure_count;
    for (const auto& split : state.splits) {
      auto& copy = then_.splits.emplace_back(split.capacity(), split.fill_rate());
      copy.set_num_elements(split.num_elements());
      const std::size_t num_pages = (split.cells().size() + kPageCells - 1) / kPageCells;
      // A split that holds no id is not read: it may be large.
      copied_.emplace_back(num_pages, split.num_elements() == 0);
    }
  }

  void before_write(const State& now, std::size_t split, std::size_t cell) {
    if (!copied_[split][cell / kPageCells]) copy_page(now, split, cell / kPageCells);
  }

  // Empties a split of the filter; what is not copied yet is taken over with the whole array.
  void clear(State& now, std::size_t split) {
    auto& live = now.splits[split];
    if (std::find(copied_[split].begin(), copied_[split].end(), false) == copied_[split].end()) {
      live.clear();
      return;
    }
    for (std::size_t page = 0; page < copied_[split].size(); ++page) {
      if (copied_[split][page]) copy_cells(std::as_const(then_.splits[split]).cells(), live.cells(), page, true);
    }
    const std::size_t num_elements = then_.splits[split].num_elements();
    auto empty = std::move(then_.splits[split]);
    then_.splits[split] = std::move(live);
    then_.splits[split].set_num_elements(num_elements);
    empty.clear();
    live = std::move(empty);
    std::fill(copied_[split].begin(), copied_[split].end(), true);
  }

  // Copies the next pages that have not been copied yet; false if there are none.
  bool copy_some(const State& now) {
    for (std::size_t left = kPagesAtOnce; left > 0; --left) {
      while (next_split_ < copied_.size() && next_page_ == copied_[next_split_].size()) {
        ++next_split_;
        next_page_ = 0;
      }
      if (next_split_ == copied_.size()) return false;
      if (!copied_[next_split_][next_page_]) copy_page(now, next_split_, next_page_);
      ++next_page_;
    }
    return true;
  }

  // What a cell was.
  auto cell(const State& now, std::size_t split, std::size_t cell) const {
    return (copied_[split][cell / kPageCells] ? then_ : now).splits[split].cells()[cell];
  }

  // What the filter was but for its cells.
  const State& then_without_cells() const { return then_; }

  // What the filter was; only once copy_some has returned false.
  const State& then() const { return then_; }

 private:
  void copy_page(const State& now, std::size_t split, std::size_t page) {
    copy_cells(now.splits[split].cells(), then_.splits[split].cells(), page, false);
    copied_[split][page] = true;
  }

  // `over`: what stands there is not known to be zero.
  template <typename From, typename To>
  static void copy_cells(const From& from, const To& to, std::size_t page, bool over) {
    const std::size_t first = page * kPageCells;
    const auto cells = from.subspan(first, std::min(kPageCells, from.size() - first));
    // A copy of zeros would take memory for nothing.
    if (over || std::ranges::any_of(cells, [](auto cell) { return cell != 0; })) {
      std::ranges::copy(cells, to.begin() + static_cast<std::ptrdiff_t>(first));
    }
  }

  State then_;
  std::vector<std::vector<bool>> copied_;  // by split and page
  std::size_t next_split_ = 0;
  std::size_t next_page_ = 0;
};

}  // namespace monolith
