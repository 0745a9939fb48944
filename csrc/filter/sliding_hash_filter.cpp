#include "filter/sliding_hash_filter.h"

#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>

#include "filter/cell_range.h"
#include "filter/filter_changes.h"
#include "filter/filter_file_format.h"
#include "filter/filter_files.h"

namespace monolith {

bool operator==(const SlidingHashFilter::State& a, const SlidingHashFilter::State& b) {
  // Only the moves since the last full turn matter, once the ring has turned.
  return a.splits == b.splits && a.head == b.head &&
         a.head_increment % a.splits.size() == b.head_increment % b.splits.size();
}

void SlidingHashFilter::State::clear() {
  for (Split& split : splits) split.clear();
  head = 0;
  head_increment = 0;
  failure_count = 0;
}

SlidingHashFilter::State SlidingHashFilter::empty_state(std::size_t capacity, std::size_t split_num) {
  State state;
  const std::size_t split_capacity = capacity / (split_num - kMaxForwardStep + 1);
  if (split_capacity == 0) {
    throw std::invalid_argument("sliding hash filter: capacity " + std::to_string(capacity) + " is too small for " +
                                std::to_string(split_num) + " splits; each must hold at least one id");
  }
  state.splits.reserve(split_num);
  for (std::size_t i = 0; i < split_num; ++i) state.splits.emplace_back(split_capacity, kFillRate);
  return state;
}

SlidingHashFilter::SlidingHashFilter(std::size_t capacity, std::size_t split_num, HashShard shard)
    : capacity_(std::max(capacity, kMinCapacity)), shard_(shard) {
  shard.check();
  if (split_num > kMaxSplits) {
    throw std::invalid_argument("sliding hash filter: split_num is at most " + std::to_string(kMaxSplits) + ", got " +
                                std::to_string(split_num));
  }
  state_ = empty_state(capacity_, std::max(split_num, kMinSplits));
}

SlidingHashFilter::SlidingHashFilter(const SlidingHashFilter& other)
    : SlidingHashFilter(other, std::lock_guard(other.mutex_)) {}

SlidingHashFilter::SlidingHashFilter(const SlidingHashFilter& other, const std::lock_guard<std::mutex>&)
    : capacity_(other.capacity_), shard_(other.shard_), state_(other.state_) {}

std::optional<SlidingHashFilter::Place> SlidingHashFilter::find_forward(std::size_t start,
                                                                        std::uint16_t signature) const {
  for (std::size_t step = 0; step < kMaxForwardStep; ++step) {
    const std::size_t split = (state_.head + step) % state_.splits.size();
    if (const auto cell = state_.splits[split].find(start, signature, kMaxStep)) return Place{split, *cell};
  }
  return std::nullopt;
}

std::optional<SlidingHashFilter::Place> SlidingHashFilter::find_backward(std::size_t start,
                                                                         std::uint16_t signature) const {
  const std::size_t num_splits = state_.splits.size();
  const std::size_t steps = std::min<std::uint64_t>(state_.head_increment, state_.max_backward_step());
  for (std::size_t step = 1; step <= steps; ++step) {
    state_.splits[(state_.head + num_splits - step) % num_splits].prefetch(start);
  }
  for (std::size_t step = 1; step <= steps; ++step) {
    const std::size_t split = (state_.head + num_splits - step) % num_splits;
    const auto cell = state_.splits[split].find(start, signature, kMaxStep);
    if (cell && !state_.splits[split].is_empty(*cell)) return Place{split, *cell};
  }
  return std::nullopt;
}

std::uint32_t SlidingHashFilter::add(std::int64_t id, std::uint32_t count) {
  const std::lock_guard lock(mutex_);
  const std::uint16_t signature = Split::signature(id);
  const std::size_t start = state_.splits[0].start(id);  // all splits have the same size
  const auto place = find_forward(start, signature);
  if (!place) {
    ++state_.failure_count;
    return kMaxCount;
  }
  if (frozen_) frozen_->before_write(state_, place->split, place->cell);
  Split& split = state_.splits[place->split];
  std::uint32_t old = 0;
  if (!split.is_empty(place->cell)) {
    old = split.raise(place->cell, count);
  } else {
    if (const auto older = find_backward(start, signature)) old = state_.splits[older->split].count(older->cell);
    const std::uint32_t sum = Split::saturated(old, count);
    if (sum > 0) split.occupy(place->cell, signature, sum);
  }
  if (changed_ && !split.is_empty(place->cell)) changed_->mark(place->split, place->cell);
  advance_head_when_full();
  return old;
}

void SlidingHashFilter::advance_head_when_full() {
  const Split& split = state_.splits[state_.head];
  // A part of a small filter would have no room at all, and forget at once.
  const std::size_t share = std::max<std::size_t>(split.capacity() / shard_.count, 2);
  if (shard_.is_all() ? !split.full() : split.num_elements() + 1 < share) return;
  state_.head = (state_.head + 1) % state_.splits.size();
  ++state_.head_increment;
  const std::size_t next = (state_.head + 1) % state_.splits.size();
  if (frozen_) {
    frozen_->clear(state_, next);
  } else {
    state_.splits[next].clear();
  }
  if (changed_) changed_->empty(next);
}

std::uint32_t SlidingHashFilter::get(std::int64_t id) const {
  const std::lock_guard lock(mutex_);
  const std::uint16_t signature = Split::signature(id);
  const std::size_t start = state_.splits[0].start(id);
  const auto place = find_forward(start, signature);
  if (!place) return kMaxCount;
  if (!state_.splits[place->split].is_empty(place->cell)) return state_.splits[place->split].count(place->cell);
  const auto older = find_backward(start, signature);
  return older ? state_.splits[older->split].count(older->cell) : 0;
}

bool SlidingHashFilter::forget(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  std::random_device random;
  constexpr std::uint16_t kSignatures = 0x1000;
  const std::uint16_t signature = Split::signature(id);
  const std::size_t start = state_.splits[0].start(id);
  bool found = false;
  for (std::size_t split = 0; split < state_.splits.size(); ++split) {
    // All of them: behind the id's own cell there may be one of another id that it would be taken for next.
    for (std::size_t cell = start; cell < start + kMaxStep; ++cell) {
      if (state_.splits[split].is_empty(cell) || state_.splits[split].signature_at(cell) != signature) continue;
      if (frozen_) frozen_->before_write(state_, split, cell);
      const std::uint16_t other = (signature + 1 + random() % (kSignatures - 1)) % kSignatures;
      state_.splits[split].disown(cell, other);
      if (changed_) changed_->mark(split, cell);
      found = true;
    }
  }
  return found;
}

bool SlidingHashFilter::should_be_filtered(std::int64_t id, std::uint32_t count, std::uint32_t threshold) {
  return threshold > 0 && add(id, count) < threshold;
}

void SlidingHashFilter::save(const std::string& basename) {
  const std::lock_guard lock(mutex_);
  save_filter_files(basename, shard_, state_);
}

std::uint32_t SlidingHashFilter::restore(const std::string& basename, std::span<const std::string> changes) {
  const std::lock_guard lock(mutex_);
  State restored = empty_state(capacity_, state_.splits.size());
  const std::uint32_t oldest = load_filter_files(basename, changes, shard_, restored);
  while (frozen_ && frozen_->copy_some(state_)) {
  }
  state_ = std::move(restored);
  if (changed_) mark_all();
  return oldest < filter_format::kVersion ? oldest : 0;
}

std::unique_ptr<SlidingHashFilter> SlidingHashFilter::join(std::span<const SlidingHashFilter* const> parts) {
  for (std::uint32_t next = 0; next < parts.size(); ++next) {
    const SlidingHashFilter* part = parts[next];
    const HashShard wanted{next, parts[0]->shard_.count};
    if (part->shard_ == wanted && part->capacity_ == parts[0]->capacity_ &&
        part->split_num() == parts[0]->split_num()) {
      continue;
    }
    throw std::invalid_argument("sliding hash filter: the part of " + part->shard_.name() + " stands where that of " +
                                wanted.name() + ", of the same capacity and split_num, is needed");
  }
  if (parts.empty() || parts.size() != parts[0]->shard_.count) {
    const std::uint32_t count = parts.empty() ? 1 : parts[0]->shard_.count;
    throw std::invalid_argument("sliding hash filter: the part of " +
                                HashShard{static_cast<std::uint32_t>(parts.size()), count}.name() + " is missing");
  }
  auto whole = std::make_unique<SlidingHashFilter>(parts[0]->capacity_, parts[0]->split_num());
  for (const SlidingHashFilter* part : parts) {
    whole->state_.head_increment = std::max(whole->state_.head_increment, part->head_increment());
  }
  whole->state_.head = whole->state_.head_increment % whole->state_.splits.size();
  for (const SlidingHashFilter* part : parts) whole->add_part(*part);
  return whole;
}

// An id finds its cell again if it has moved on: all cells on the way are in use.
void SlidingHashFilter::add_part(const SlidingHashFilter& part) {
  const std::lock_guard lock(part.mutex_);
  const CellRange range(part.state_.splits[0], part.shard_);
  const std::size_t num_splits = state_.splits.size();
  for (std::size_t step = 0; step < num_splits; ++step) {
    const Split& from = part.state_.splits[(part.state_.head + step) % num_splits];
    Split& to = state_.splits[(state_.head + step) % num_splits];
    const std::size_t end = from.num_elements() == 0 ? 0 : from.cells().size();
    for (std::size_t cell = 0; cell < end; ++cell) {
      if (from.is_empty(cell)) continue;
      if (!range.contains(cell)) {
        throw std::invalid_argument("sliding hash filter: the part of " + part.shard_.name() +
                                    " has counted ids of others; send each id to its shard");
      }
      const auto place = to.find(cell, from.signature_at(cell), kMaxStep);
      if (!place) continue;  // a crowded filter lets ids pass rather than block them
      if (to.is_empty(*place)) {
        to.occupy(*place, from.signature_at(cell), from.count(cell));
      } else if (from.count(cell) > to.count(*place)) {
        to.raise(*place, from.count(cell) - to.count(*place));
      }
    }
  }
  state_.failure_count += part.state_.failure_count;
}

bool SlidingHashFilter::freeze(bool take_changes) {
  const std::lock_guard lock(mutex_);
  if (frozen_) throw std::logic_error("sliding hash filter: it is frozen already; save or drop that first");
  frozen_ = std::make_unique<FrozenSplits<State>>(state_);
  if (!take_changes || !changed_) return false;
  frozen_changed_ = std::exchange(changed_, no_changes());
  return true;
}

void SlidingHashFilter::save_frozen(const std::string& basename) {
  const auto copy_some = [&] {
    const std::lock_guard lock(mutex_);
    if (!frozen_) throw std::logic_error("sliding hash filter: it is not frozen");
    return frozen_->copy_some(state_);
  };
  while (copy_some()) {
  }
  std::unique_ptr<FrozenSplits<State>> frozen;
  {
    const std::lock_guard lock(mutex_);
    frozen = std::move(frozen_);
    frozen_changed_.reset();
  }
  save_filter_files(basename, shard_, frozen->then());
}

void SlidingHashFilter::save_frozen_changes(const std::string& name) {
  std::unique_ptr<ChangedCells> changed;
  {
    const std::lock_guard lock(mutex_);
    if (!frozen_changed_) throw std::logic_error("sliding hash filter: it is not frozen with its changes");
    changed = std::move(frozen_changed_);
  }
  std::vector<SplitChanges> changes(split_num());
  for (std::size_t split = 0; split < changes.size(); ++split) {
    changes[split].was_emptied = changed->was_emptied(split);
    for (std::size_t page = 0; page < changed->num_pages(); ++page) {
      SplitChanges::Page found{page * ChangedCells::kPageCells, {}};
      const std::lock_guard lock(mutex_);  // for a page at a time: others count meanwhile
      if (!frozen_) throw std::logic_error("sliding hash filter: it is not frozen any more");
      changed->visit_page(split, page, [&](std::size_t cell) {
        const std::uint16_t value = frozen_->cell(state_, split, cell);
        found.cells.push_back({static_cast<std::uint16_t>(cell - found.first_cell), value});
      });
      if (!found.cells.empty()) changes[split].pages.push_back(std::move(found));
    }
  }
  std::unique_ptr<FrozenSplits<State>> frozen;
  {
    const std::lock_guard lock(mutex_);
    frozen = std::move(frozen_);
  }
  const State& then = frozen->then_without_cells();
  for (std::size_t split = 0; split < changes.size(); ++split) {
    changes[split].num_elements = then.splits[split].num_elements();
  }
  save_filter_changes(name, shard_, then, changes);
}

void SlidingHashFilter::drop_frozen() {
  const std::lock_guard lock(mutex_);
  frozen_.reset();
  frozen_changed_.reset();
}

void SlidingHashFilter::track_changes(bool on) {
  const std::lock_guard lock(mutex_);
  changed_ = on ? no_changes() : nullptr;
}

std::unique_ptr<ChangedCells> SlidingHashFilter::no_changes() const {
  return std::make_unique<ChangedCells>(state_.splits.size(), state_.splits[0].cells().size());
}

void SlidingHashFilter::mark_all() {
  for (std::size_t split = 0; split < state_.splits.size(); ++split) {
    changed_->empty(split);
    if (state_.splits[split].num_elements() == 0) continue;
    const auto cells = std::as_const(state_.splits[split]).cells();
    for (std::size_t cell = 0; cell < cells.size(); ++cell) {
      if (cells[cell] != 0) changed_->mark(split, cell);
    }
  }
}

std::size_t SlidingHashFilter::split_num() const {
  const std::lock_guard lock(mutex_);
  return state_.splits.size();
}

std::uint64_t SlidingHashFilter::head() const {
  const std::lock_guard lock(mutex_);
  return state_.head;
}

std::uint64_t SlidingHashFilter::head_increment() const {
  const std::lock_guard lock(mutex_);
  return state_.head_increment;
}

std::uint64_t SlidingHashFilter::failure_count() const {
  const std::lock_guard lock(mutex_);
  return state_.failure_count;
}

std::size_t SlidingHashFilter::estimated_total_element() const {
  const std::lock_guard lock(mutex_);
  std::size_t total = 0;
  for (const Split& split : state_.splits) total += split.num_elements();
  return total;
}

bool operator==(const SlidingHashFilter& a, const SlidingHashFilter& b) {
  if (&a == &b) return true;
  const std::scoped_lock lock(a.mutex_, b.mutex_);
  return a.capacity_ == b.capacity_ && a.shard_ == b.shard_ && a.state_ == b.state_;
}

}  // namespace monolith
