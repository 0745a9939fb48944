// How RowTable gives rows to new ids.
//
// First the admission filter is asked about ids without a row, one after the other in the plan's order, so that its
// answers do not depend on threads. Then rows are made, sub-table by sub-table. All memory is taken here, so that
// running out of it leaves the table as it was.
#include <algorithm>
#include <bitset>
#include <exception>
#include <new>

#include "table/block.h"
#include "table/row_table.h"

namespace monolith {

namespace {
// How many ids ahead of the one that is inserted memory is fetched.
constexpr std::size_t kFetchAhead = 8;

// Brings rows from the order of sub-tables into that of the batch: those of all groups, or of `groups`. A pass of its
// own, since threads that insert would write to neighbours in the batch, and take the cache lines from each other.
void put_in_batch_order(SubTableOrder& order, const std::vector<std::uint32_t>* groups, std::span<FoundRow> found) {
  constexpr std::size_t kTaskGroups = 8192;
  constexpr std::size_t kPlacesAhead = 16;
  const std::span<const std::uint32_t> places = order.places();
  const std::span<const FoundRow> in_order = order.found();
  parallel_for((places.size() + kTaskGroups - 1) / kTaskGroups, [&](std::size_t task) {
    const std::size_t last = std::min(places.size(), (task + 1) * kTaskGroups);
    for (std::size_t i = task * kTaskGroups; i < last; ++i) {
      if (i + kPlacesAhead < last) __builtin_prefetch(&in_order[places[i + kPlacesAhead]]);
      found[groups == nullptr ? i : (*groups)[i]] = in_order[places[i]];
    }
  });
}
}  // namespace

void RowTable::admit(BatchPlan& plan, const ChangeRequest& request, std::vector<std::uint32_t>& skipped,
                     ChangeResult& result) {
  skipped.assign(plan.num_groups(), 0);
  const bool one_by_one = request.kind != ChangeRequest::Kind::kStep || !request.sum_repeated;
  for (std::size_t g = 0; g < plan.num_groups(); ++g) {
    if (plan.found()[g].row != kNoRow) continue;
    const std::int64_t id = hash_.id_of(plan.hashes()[g]);
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

// Gives every group without a row one, unless the filter held all its occurrences back. If the rows are not known yet,
// all groups are searched for here: in the order of sub-tables an insert finds the index in the caches.
void RowTable::insert_missing(BatchPlan& plan, bool rows_are_known, const ChangeRequest& request,
                              const std::vector<std::uint32_t>& skipped, ChangeResult& result) {
  const std::span<FoundRow> found = plan.found();
  const auto is_admitted = [&](std::size_t g) { return skipped.empty() || skipped[g] < plan.positions(g).size(); };
  std::vector<std::uint32_t> missing;
  if (rows_are_known) {
    for (std::size_t g = 0; g < found.size(); ++g) {
      if (found[g].row == kNoRow && is_admitted(g)) missing.push_back(static_cast<std::uint32_t>(g));
    }
    if (missing.empty()) return;
  }
  SubTableOrder order = rows_are_known ? SubTableOrder(plan.hashes(), missing) : SubTableOrder(plan.hashes());
  const std::span<FoundRow> in_order = order.found();
  std::vector<std::uint8_t> is_new(in_order.size(), 0);
  std::atomic<std::size_t> num_new{0};
  std::atomic<std::size_t> refused{0};
  const bool assigned = request.kind == ChangeRequest::Kind::kAssign;
  const auto insert_block = [&](std::size_t first, std::size_t count, const auto& prefetch_next) {
    prefetch_whole_next(prefetch_next);
    const auto hashes = order.hashes().subspan(first, count);
    const Block block(gate_, sub_tables_.get(), hashes, Access::kExclusive);
    std::array<std::uint32_t, kBlockGroups> rows;
    // Also if the rows were known: another batch may have made them meanwhile.
    block.find_rows(hashes, rows.data());
    std::bitset<1024> inserted_here;
    std::size_t new_here = 0;
    for (const Block::Run& run : block.runs()) {
      for (std::size_t i = run.first; i < run.first + run.count; ++i) {
        std::uint32_t row = rows[i];
        // Without merging, an earlier group of the block may be the same id. Few are searched for again in vain.
        const std::size_t mark = (hashes[i] >> 24) % inserted_here.size();  // the last bits of a shard's are alike
        if (row == kNoRow && inserted_here[mark]) row = run.sub_table->index.find_row(hashes[i]);
        if (row == kNoRow) {
          inserted_here[mark] = !plan.is_merged();
          row = insert_row(*run.sub_table, hashes[i], request.time, assigned);
          is_new[first + i] = row != kNoRow;
          new_here += row != kNoRow;
          if (row == kNoRow) refused.fetch_add(1, std::memory_order_relaxed);
        }
        in_order[first + i] = run.sub_table->found(row);
      }
    }
    num_new.fetch_add(new_here, std::memory_order_relaxed);
  };
  try {
    for_each_block(sub_tables_.get(), order.hashes(), insert_block);
  } catch (...) {
    std::vector<std::int64_t> inserted;
    for (std::size_t i = 0; i < is_new.size(); ++i) {
      if (is_new[i] != 0) inserted.push_back(hash_.id_of(order.hashes()[i]));
    }
    erase_rows(inserted);
    plan.set_rows_known(false);
    throw;
  }
  put_in_batch_order(order, rows_are_known ? &missing : nullptr, found);
  result.inserted += num_new.load();
  result.refused += refused.load();
}

// `time` counts from now on: a row that looked unseen until it is changed would be the first to be evicted.
std::uint32_t RowTable::insert_row(SubTable& sub_table, std::uint64_t hash, std::uint32_t time, bool assigned) {
  if (options_.max_memory_bytes != 0 && !make_room(sub_table)) return kNoRow;
  const std::uint32_t row = sub_table.insert(chunk_layout_, arena_, hash);
  std::byte* weights = sub_table.weights(chunk_layout_, row);
  std::byte* state = sub_table.state(chunk_layout_, row);
  // The rows of the next new ids follow, as a rule; past the chunk's end other memory is fetched, and nothing happens.
  if (!assigned) __builtin_prefetch(weights + kFetchAhead * chunk_layout_.weight_stride, 1);
  if (assigned) {
    layout_.initialize_state(weights, state);
  } else {
    layout_.initialize(hash_.id_of(hash), weights, state);
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
  for (std::size_t i = 0; i < num_victims; ++i) erase_row(sub_table, by_age[i].second);
  return true;
}

}  // namespace monolith
