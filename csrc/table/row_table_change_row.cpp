// How one row of a batch is changed.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "table/copy_row.h"
#include "table/row_table.h"
#include "table/row_table_change.h"

namespace monolith {

// Alone, or with the sub-table's lock held.
template <bool kAlone>
void RowTable::change_group(Change& change, std::size_t g, Scratch& scratch) {
  const std::uint64_t hash = change.hashes[g];
  FoundRow& at = change.found[g];
  if (at.row == kNoRow) return;
  const auto positions = change.plan.positions(g).without_first(change.skipped.empty() ? 0 : change.skipped[g]);
  if (positions.empty()) return;
  if constexpr (kAlone) {
    if (change.is_watched) mark_change(change, hash, at);
  } else {
    SubTable& sub_table = sub_table_of(hash);
    if (change.plan.erase_count() != erase_count_.load(std::memory_order_relaxed)) {
      find_again(change, g, sub_table);
      if (at.row == kNoRow) return;
    }
    sub_table.before_change(chunk_layout_, hash, at.row);
  }
  if (change.keeps_time) ChunkLayout::last_seen(at.chunk, at.row) = change.request.time;
  if (!change_row(change, g, positions, scratch)) change.note_not_finite(g);
}

template void RowTable::change_group<true>(Change& change, std::size_t g, Scratch& scratch);
template void RowTable::change_group<false>(Change& change, std::size_t g, Scratch& scratch);

// Since the row was found, another thread may have erased it, an earlier group of this batch may be the same id and
// have erased it (skip_zero_embedding), or new ids of this batch may have pushed it out: it comes back.
void RowTable::find_again(Change& change, std::size_t g, SubTable& sub_table) {
  std::uint32_t row = sub_table.index.find_row(change.hashes[g]);
  if (row == kNoRow) {
    row = insert_row(sub_table, change.hashes[g], change.request.time);
    (row == kNoRow ? change.refused : change.inserted).fetch_add(1, std::memory_order_relaxed);
  }
  change.found[g] = sub_table.found(row);
}

// For a thread that has the table for itself but for other threads of its batch. Rows of one chunk share a word of
// dirty bits, so they are set under the lock; most rows that training changes are dirty already, and need none.
void RowTable::mark_change(const Change& change, std::uint64_t hash, FoundRow at) const {
  auto& header = *reinterpret_cast<ChunkHeader*>(at.chunk);
  const std::uint64_t bit = std::uint64_t{1} << SubTable::place_of(at.row);
  if (!snapshot_running_ && header.is_dirty_for_all(change.num_consumers, bit)) return;
  SubTable& sub_table = sub_table_of(hash);
  const std::unique_lock lock(sub_table.lock);
  sub_table.before_change(chunk_layout_, hash, at.row);
}

void RowTable::assign_row(std::uint64_t hash, std::byte* weights, const float* values) {
  const bool skips = options_.skip_zero_embedding;
  const bool is_skipped = skips && std::all_of(values, values + dim(), [](float x) { return x == 0; });
  if (!is_skipped) layout_.write(weights, values);
  // Compressors may make zeros of small numbers, and one_bit makes none of zeros.
  if (is_skipped || (skips && layout_.reads_as_zeros(weights))) erase_row(sub_table_of(hash), hash);
}

bool RowTable::change_row(Change& change, std::size_t g, BatchPlan::Positions positions, Scratch& scratch) {
  const ChangeRequest& request = change.request;
  const std::size_t dim = layout_.dim();
  const FoundRow at = change.found[g];
  std::byte* weights = chunk_layout_.weights(at.chunk, at.row);
  std::byte* state = chunk_layout_.state(at.chunk, at.row);
  const auto value = [&](std::size_t position) { return request.values + position * dim; };
  const auto step = [&](const float* gradient, const OldRow& old) {
    return layout_.step(hash_, change.hashes[g], weights, state, gradient, request.learning_rates, request.global_step,
                        old);
  };
  if (request.kind == ChangeRequest::Kind::kAssign) {
    assign_row(change.hashes[g], weights, value(change.plan.last_position(g)));
    return true;
  }
  if (request.kind == ChangeRequest::Kind::kStep && request.sum_repeated) {
    const float* gradient = value(request.per_group ? g : positions.front());
    auto next = ++positions.begin();
    if (!request.per_group && next != positions.end()) {
      float* const sum = scratch.gradient.data();
      copy_row(sum, gradient, dim);
      for (; next != positions.end(); ++next) {
        const float* more = value(*next);
        for (std::size_t i = 0; i < dim; ++i) sum[i] += more[i];
      }
      gradient = sum;
    }
    if (step(gradient, scratch.before())) return true;
  } else {
    std::memcpy(scratch.weights.data(), weights, layout_.weight_bytes());
    std::memcpy(scratch.state.data(), state, layout_.state_bytes());
    const bool added = request.kind == ChangeRequest::Kind::kAdd;
    if (std::all_of(positions.begin(), positions.end(), [&](std::uint32_t position) {
          return added ? layout_.add(weights, value(position)) : step(value(position), scratch.between());
        })) {
      return true;
    }
  }
  std::memcpy(weights, scratch.weights.data(), layout_.weight_bytes());
  std::memcpy(state, scratch.state.data(), layout_.state_bytes());
  return false;
}

}  // namespace monolith
