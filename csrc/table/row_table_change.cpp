// The writing half of RowTable.
//
// A batch is changed in three passes: find the rows or make them (all memory is taken here, so that running out of it
// leaves the table as it was), ask the admission filter about new ids (one after the other, in the plan's order, so
// that its answers do not depend on threads), and change the rows.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "table/block.h"
#include "table/copy_row.h"
#include "table/row_table.h"

namespace monolith {

namespace {
// How many rows ahead of the one being changed are fetched: three or more cache lines each.
constexpr std::size_t kFetchAhead = 8;
}  // namespace

struct RowTable::Scratch {
  // Floats from the begin of a cache line: a wide store that crosses one takes twice as long.
  class Floats {
   public:
    void fit(std::size_t count) { lines_.resize(count / kLineFloats + 1); }
    float* data() { return lines_.front().floats; }

   private:
    static constexpr std::size_t kLineFloats = 16;
    struct alignas(64) Line {
      float floats[kLineFloats];
    };
    std::vector<Line> lines_;
  };

  Floats gradient;                  // the sum of a repeated id's
  Floats weights, state;            // of the row before the batch, in case the outcome is not finite
  Floats last_weights, last_state;  // before the last of several steps

  void fit(const RowLayout& layout) {
    for (Floats* one : {&gradient, &weights, &last_weights}) one->fit(layout.dim());
    for (Floats* one : {&state, &last_state}) one->fit(layout.state_bytes() / sizeof(float));
  }
  OldRow before() { return {weights.data(), state.data()}; }
  OldRow between() { return {last_weights.data(), last_state.data()}; }
};

ChangeResult RowTable::change(BatchPlan& plan, const ChangeRequest& request) {
  const std::shared_lock batch(batch_mutex_);
  const ClosedGate closed(gate_);
  raise_max_time(request.time);
  if (request.kind == ChangeRequest::Kind::kStep) raise_max_step(request.global_step);
  ChangeResult result;
  // How many first occurrences of a group the filter held back; all of them if the group gets no row.
  std::vector<std::uint32_t> skipped;
  const bool search = !plan.rows_are_known() || plan.erase_count() != erase_count_.load();
  plan.set_erase_count(erase_count_.load());
  if (filter_ != nullptr) {
    if (search) find(plan);
    admit(plan, request, skipped, result);
    insert_admitted(plan, false, request, skipped, result);
  } else {
    insert_admitted(plan, search, request, skipped, result);
  }
  plan.set_rows_known(true);
  change_rows(plan, request, skipped, result);
  return result;
}

void RowTable::find(BatchPlan& plan) const {
  for_each_block(sub_tables_.get(), plan.hashes(),
                 [&](std::size_t first, std::size_t count, const auto& prefetch_next) {
                   prefetch_whole_next(prefetch_next);
                   const auto hashes = plan.hashes().subspan(first, count);
                   const Block block(sub_tables_.get(), hashes, Access::kShared);
                   block.find_rows(hashes, plan.found().data() + first);
                 });
}

void RowTable::admit(BatchPlan& plan, const ChangeRequest& request, std::vector<std::uint32_t>& skipped,
                     ChangeResult& result) {
  skipped.assign(plan.num_groups(), 0);
  const bool one_by_one = request.kind != ChangeRequest::Kind::kStep || !request.sum_repeated;
  for (std::size_t g = 0; g < plan.num_groups(); ++g) {
    if (plan.found()[g].row != kNoRow) continue;
    const std::int64_t id = id_of_hash(plan.hashes()[g]);
    const std::uint32_t threshold = thresholds_.threshold(id);
    const auto occurrences = static_cast<std::uint32_t>(plan.positions(g).size());
    if (one_by_one) {
      while (skipped[g] < occurrences && filter_->should_be_filtered(id, 1, threshold)) ++skipped[g];
    } else if (filter_->should_be_filtered(id, occurrences, threshold)) {
      skipped[g] = occurrences;
    }
    result.filtered += skipped[g] == occurrences;
  }
}

// Gives every group without a row one, unless the filter held all its occurrences back. With `search`, what the plan
// knows of rows does not count.
void RowTable::insert_admitted(BatchPlan& plan, bool search, const ChangeRequest& request,
                               const std::vector<std::uint32_t>& skipped, ChangeResult& result) {
  std::vector<BatchPlan::FoundRow>& found = plan.found();
  std::vector<std::int64_t> inserted;
  std::mutex inserted_mutex;
  std::atomic<std::size_t> refused{0};
  const bool assigned = request.kind == ChangeRequest::Kind::kAssign;
  const auto is_wanted = [&](std::size_t g) {
    return found[g].row == kNoRow && (skipped.empty() || skipped[g] < plan.positions(g).size());
  };
  const auto insert_block = [&](std::size_t first, std::size_t count, const auto& prefetch_next) {
    const auto any_wanted = [&] {
      for (std::size_t g = first; g < first + count; ++g) {
        if (is_wanted(g)) return true;
      }
      return false;
    };
    if (!search && !any_wanted()) return;
    prefetch_whole_next(prefetch_next);
    const auto hashes = plan.hashes().subspan(first, count);
    std::array<std::int64_t, kBlockGroups> new_ids;
    std::size_t num_new = 0;
    std::exception_ptr error;
    {
      const Block block(sub_tables_.get(), hashes, Access::kExclusive);
      // Also without `search`: another batch may have made the rows meanwhile.
      block.find_rows(hashes, found.data() + first);
      try {
        for (const Block::Run& run : block.runs()) {
          for (std::size_t i = run.first; i < run.first + run.count; ++i) {
            if (!is_wanted(first + i)) continue;
            // Without merging, an earlier group may be the same id.
            std::uint32_t row = plan.is_merged() ? kNoRow : run.sub_table->index.find_row(hashes[i]);
            if (row == kNoRow) {
              row = insert_row(*run.sub_table, hashes[i], request.time, assigned);
              if (row == kNoRow) {
                refused.fetch_add(1, std::memory_order_relaxed);
                continue;
              }
              new_ids[num_new++] = id_of_hash(hashes[i]);
            }
            found[first + i] = run.sub_table->found(row);
          }
        }
      } catch (...) {
        error = std::current_exception();
      }
    }
    if (num_new != 0) {
      const std::lock_guard lock(inserted_mutex);
      inserted.insert(inserted.end(), new_ids.begin(), new_ids.begin() + static_cast<std::ptrdiff_t>(num_new));
    }
    if (error) std::rethrow_exception(error);
  };
  try {
    for_each_block(sub_tables_.get(), plan.hashes(), insert_block);
  } catch (...) {
    erase_rows(inserted);
    plan.set_rows_known(false);
    throw;
  }
  result.inserted += inserted.size();
  result.refused += refused.load();
}

// `time` counts from now on: a row that looked unseen until it is changed would be the first to be evicted.
std::uint32_t RowTable::insert_row(SubTable& sub_table, std::uint64_t hash, std::uint32_t time, bool assigned) {
  if (options_.max_memory_bytes != 0 && !make_room(sub_table)) return kNoRow;
  const std::uint32_t row = sub_table.insert(chunk_layout_, arena_, hash);
  std::byte* weights = sub_table.weights(chunk_layout_, row);
  std::byte* state = sub_table.state(chunk_layout_, row);
  if (assigned) {
    layout_.initialize_state(weights, state);
  } else {
    layout_.initialize(id_of_hash(hash), weights, state);
  }
  sub_table.last_seen(row) = time;
  sub_table.after_insert(chunk_layout_, hash, row);
  return row;
}

// Each sub-table has its share of the memory limit, so that who is refused or evicted does not depend on threads.
bool RowTable::make_room(SubTable& sub_table) {
  const std::size_t share = options_.max_memory_bytes / kNumSubTables;
  const std::size_t more = sub_table.bytes_for_one_more(chunk_layout_);
  // An index now and then grows before it is full (id_index.h) and takes a sub-table over its share. Free rows are used
  // nevertheless: otherwise every new id would push out a sixteenth of the rows.
  if (more == 0 || sub_table.bytes(chunk_layout_) + more <= share) return true;
  if (options_.memory_policy == MemoryPolicy::kRefuseNewIds || sub_table.index.size() == 0) return false;
  // The oldest sixteenth goes at once: a scan for every new id would be far too slow.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> by_age;
  by_age.reserve(sub_table.index.size());
  sub_table.index.visit_lines(0, sub_table.index.num_lines(), [&](std::uint64_t row_hash, std::uint32_t row) {
    by_age.emplace_back(sub_table.last_seen(row), row_hash);
  });
  const std::size_t num_victims = std::max<std::size_t>(1, by_age.size() / 16);
  std::nth_element(by_age.begin(), by_age.begin() + static_cast<std::ptrdiff_t>(num_victims - 1), by_age.end());
  for (std::size_t i = 0; i < num_victims; ++i) sub_table.erase(chunk_layout_, by_age[i].second);
  ++erase_count_;
  return true;
}

void RowTable::change_rows(BatchPlan& plan, const ChangeRequest& request, const std::vector<std::uint32_t>& skipped,
                           ChangeResult& result) {
  std::vector<BatchPlan::FoundRow>& found = plan.found();
  std::atomic<std::size_t> inserted{0};
  std::atomic<std::size_t> refused{0};
  std::atomic<std::size_t> num_not_finite{0};
  std::atomic<std::size_t> first_not_finite{plan.num_groups()};
  const std::size_t dim = layout_.dim();
  // While nobody names a time, all rows have time 0 and none is written.
  const bool keeps_time = max_time() != 0;
  // The rows are known: no index line need be fetched.
  for_each_block(sub_tables_.get(), plan.hashes(), [&](std::size_t first, std::size_t count, const auto&) {
    thread_local Scratch scratch;
    scratch.fit(layout_);
    const auto hashes = plan.hashes().subspan(first, count);
    const Block block(sub_tables_.get(), hashes, Access::kExclusive);
    std::array<SubTable*, kBlockGroups> sub_table_of_group;
    for (const Block::Run& run : block.runs()) {
      std::fill_n(sub_table_of_group.data() + run.first, run.count, run.sub_table);
    }
    const auto fetch = [&](std::size_t i) {
      BatchPlan::FoundRow& at = found[first + i];
      const SubTable& sub_table = *sub_table_of_group[i];
      if (at.row != kNoRow && at.erase_version != sub_table.erase_version) {
        const std::uint32_t row = sub_table.index.find_row(hashes[i]);
        if (row == kNoRow) return;
        at = sub_table.found(row);
      }
      const std::size_t position = request.per_group ? first + i : plan.first_position(first + i);
      prefetch_lines(request.values + position * dim, dim * sizeof(float));
      if (at.row == kNoRow) return;
      prefetch_lines(chunk_layout_.weights(at.chunk, at.row), chunk_layout_.weight_bytes);
      prefetch_lines(chunk_layout_.state(at.chunk, at.row), chunk_layout_.state_bytes);
      if (keeps_time) __builtin_prefetch(&ChunkLayout::last_seen(at.chunk, at.row), 1);
      if (sub_table.watches_changes()) __builtin_prefetch(at.chunk, 1);
    };
    // Rows are fetched while earlier ones are changed.
    for (std::size_t i = 0; i < std::min(count, kFetchAhead); ++i) fetch(i);
    for (const Block::Run& run : block.runs()) {
      for (std::size_t i = run.first; i < run.first + run.count; ++i) {
        if (i + kFetchAhead < count) fetch(i + kFetchAhead);
        const std::size_t g = first + i;
        // Since the row was found, another thread may have erased it, an earlier group of this batch may be the same id
        // and have erased it (skip_zero_embedding), or new ids of this batch may have pushed it out: it comes back.
        if (found[g].erase_version != run.sub_table->erase_version && found[g].row != kNoRow) {
          std::uint32_t row = run.sub_table->index.find_row(hashes[i]);
          if (row == kNoRow) {
            row = insert_row(*run.sub_table, hashes[i], request.time);
            (row == kNoRow ? refused : inserted).fetch_add(1, std::memory_order_relaxed);
          }
          found[g] = run.sub_table->found(row);
        }
        const BatchPlan::FoundRow at = found[g];
        if (at.row == kNoRow) continue;
        auto positions = plan.positions(g).subspan(skipped.empty() ? 0 : skipped[g]);
        const auto group = static_cast<std::uint32_t>(g);
        if (request.per_group && !positions.empty()) positions = {&group, 1};
        if (positions.empty()) continue;
        run.sub_table->before_change(chunk_layout_, hashes[i], at.row);
        if (keeps_time) ChunkLayout::last_seen(at.chunk, at.row) = request.time;
        if (change_row(*run.sub_table, hashes[i], at, request, positions, scratch)) continue;
        num_not_finite.fetch_add(1, std::memory_order_relaxed);
        std::size_t earliest = first_not_finite.load(std::memory_order_relaxed);
        while (g < earliest && !first_not_finite.compare_exchange_weak(earliest, g, std::memory_order_relaxed)) {
        }
      }
    }
  });
  result.inserted += inserted.load();
  result.refused += refused.load();
  if (const std::size_t g = first_not_finite.load(); g < plan.num_groups()) {
    refuse_not_finite(request.kind, id_of_hash(plan.hashes()[g]), num_not_finite.load());
  }
}

void RowTable::refuse_not_finite(ChangeRequest::Kind kind, std::int64_t id, std::size_t count) const {
  const bool stepped = kind == ChangeRequest::Kind::kStep;
  std::string message = "table '" + options_.name + "': " + (stepped ? "the step" : "adding") +
                        " would make the row of id " + std::to_string(id) + " NaN or infinite; it keeps its value";
  if (count > 1) message += ", as do " + std::to_string(count - 1) + " others for the same reason";
  message += "; the other rows of the batch were changed. ";
  message += stepped ? "Lower the learning rate, or clip the gradients of rows (ClippedOptimizer)" : "Add less";
  throw NotFiniteRow(message);
}

void RowTable::assign_row(SubTable& sub_table, std::uint64_t hash, std::byte* weights, const float* values) const {
  const bool skips = options_.skip_zero_embedding;
  const bool is_skipped = skips && std::all_of(values, values + dim(), [](float x) { return x == 0; });
  if (!is_skipped) layout_.write(weights, values);
  // Compressors may make zeros of small numbers, and one_bit makes none of zeros.
  if (is_skipped || (skips && layout_.reads_as_zeros(weights))) {
    sub_table.erase(chunk_layout_, hash);
    ++erase_count_;
  }
}

bool RowTable::change_row(SubTable& sub_table, std::uint64_t hash, BatchPlan::FoundRow at, const ChangeRequest& request,
                          std::span<const std::uint32_t> positions, Scratch& scratch) const {
  const std::size_t dim = layout_.dim();
  std::byte* weights = chunk_layout_.weights(at.chunk, at.row);
  std::byte* state = chunk_layout_.state(at.chunk, at.row);
  const auto value = [&](std::uint32_t position) { return request.values + position * dim; };
  const auto step = [&](const float* gradient, const OldRow& old) {
    return layout_.step(id_of_hash(hash), weights, state, gradient, request.learning_rates, request.global_step, old);
  };
  if (request.kind == ChangeRequest::Kind::kAssign) {
    assign_row(sub_table, hash, weights, value(positions.back()));
    return true;
  }
  if (request.kind == ChangeRequest::Kind::kStep && request.sum_repeated) {
    const float* gradient = value(positions[0]);
    if (positions.size() > 1) {
      float* const sum = scratch.gradient.data();
      copy_row(sum, gradient, dim);
      for (const std::uint32_t position : positions.subspan(1)) {
        const float* more = value(position);
        for (std::size_t i = 0; i < dim; ++i) sum[i] += more[i];
      }
      gradient = sum;
    }
    if (step(gradient, scratch.before())) return true;
  } else {
    std::memcpy(scratch.weights.data(), weights, layout_.weight_bytes());
    std::memcpy(scratch.state.data(), state, layout_.state_bytes());
    const bool added = request.kind == ChangeRequest::Kind::kAdd;
    if (std::ranges::all_of(positions, [&](std::uint32_t position) {
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
