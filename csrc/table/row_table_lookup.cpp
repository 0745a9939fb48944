// The reading half of RowTable.
#include <algorithm>
#include <cstring>

#include "table/block.h"
#include "table/copy_row.h"
#include "table/row_table.h"

namespace monolith {

namespace {
// Above this many bytes an output does not fit the caches beside the table's own lines.
constexpr std::size_t kStreamBytes = std::size_t{8} << 20;
}  // namespace

// Finds the rows of a plan's groups block by block and calls copy(group, weights) for each, with nullptr for an
// unknown id, while the row cannot change.
template <typename Copy>
std::size_t RowTable::for_found_rows(BatchPlan& plan, const Copy& copy) const {
  std::vector<BatchPlan::FoundRow>& found = plan.found();
  std::atomic<std::size_t> hits{0};
  plan.set_erase_count(erase_count_.load());
  for_each_block(sub_tables_.get(), plan.hashes(),
                 [&](std::size_t first, std::size_t count, const auto& prefetch_next) {
                   const auto hashes = plan.hashes().subspan(first, count);
                   std::array<std::uint32_t, kBlockGroups> rows;
                   std::array<const std::byte*, kBlockGroups> weights;
                   std::size_t block_hits = 0;
                   const Block block(sub_tables_.get(), hashes, Access::kShared);
                   for (const Block::Run& run : block.runs()) {
                     for (std::size_t from = run.first; from < run.first + run.count; from += kFetchAtOnce) {
                       const std::size_t until = std::min(from + kFetchAtOnce, run.first + run.count);
                       run.sub_table->index.find_rows(hashes.data() + from, until - from, rows.data() + from);
                       for (std::size_t i = from; i < until; ++i) {
                         found[first + i] = {rows[i], run.sub_table->erase_version};
                         weights[i] = rows[i] == kNoRow ? nullptr : run.sub_table->weights(chunk_layout_, rows[i]);
                         if (weights[i] != nullptr) prefetch_lines(weights[i], chunk_layout_.weight_bytes);
                       }
                     }
                   }
                   for (std::size_t from = 0; from < count; from += kFetchAtOnce) {
                     prefetch_next(from);
                     for (std::size_t i = from; i < std::min(count, from + kFetchAtOnce); ++i) {
                       copy(first + i, weights[i]);
                       if (weights[i] != nullptr) block_hits += plan.positions(first + i).size();
                     }
                   }
                   hits.fetch_add(block_hits, std::memory_order_relaxed);
                 });
  plan.set_rows_known(true);
  return hits.load();
}

template <Store kStore>
std::size_t RowTable::lookup_plain(BatchPlan& plan, float* out, std::size_t stride) const {
  const std::size_t dim = layout_.dim();
  return for_found_rows(plan, [&plan, out, stride, dim](std::size_t group, const std::byte* weights) {
    for (const std::uint32_t position : plan.positions(group)) {
      float* to = out + position * stride;
      if (weights != nullptr) {
        copy_row<kStore>(to, reinterpret_cast<const float*>(weights), dim);
      } else {
        std::fill_n(to, dim, 0.0F);
      }
    }
  });
}

std::size_t RowTable::lookup(BatchPlan& plan, float* out, std::size_t stride) const {
  const std::size_t dim = layout_.dim();
  if (layout_.reads_plain()) {
    const bool large = plan.num_ids() * dim * sizeof(float) > kStreamBytes;
    if (!large || !can_stream(out, stride, dim)) return lookup_plain<Store::kCached>(plan, out, stride);
    const std::size_t hits = lookup_plain<Store::kStreaming>(plan, out, stride);
    finish_streaming();
    return hits;
  }
  return for_found_rows(plan, [&](std::size_t group, const std::byte* weights) {
    for (const std::uint32_t position : plan.positions(group)) {
      float* to = out + position * stride;
      if (weights == nullptr) {
        std::fill_n(to, dim, 0.0F);
      } else {
        layout_.read(weights, to);
      }
    }
  });
}

std::size_t RowTable::lookup_groups(BatchPlan& plan, float* out) const {
  const std::size_t dim = layout_.dim();
  return for_found_rows(plan, [&](std::size_t group, const std::byte* weights) {
    if (weights == nullptr) {
      std::fill_n(out + group * dim, dim, 0.0F);
    } else {
      layout_.read(weights, out + group * dim);
    }
  });
}

std::vector<EntryDump> RowTable::lookup_entries(std::span<const std::int64_t> ids) const {
  std::vector<EntryDump> entries(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint64_t hash = hash_id(ids[i]);
    const Block block(sub_tables_.get(), std::span(&hash, 1), Access::kShared);
    const SubTable& sub_table = sub_table_of(hash);
    const std::uint32_t row = sub_table.index.find_row(hash);
    if (row == kNoRow) continue;
    EntryDump& entry = entries[i];
    entry.found = true;
    entry.last_seen = sub_table.last_seen(row);
    entry.weights.resize(layout_.dim());
    layout_.read_stored(sub_table.weights(chunk_layout_, row), entry.weights.data());
    entry.state.resize(layout_.state_bytes() / sizeof(float));
    if (!entry.state.empty()) {
      std::memcpy(entry.state.data(), sub_table.state(chunk_layout_, row), layout_.state_bytes());
    }
  }
  return entries;
}

void RowTable::contains(std::span<const std::int64_t> ids, bool* out) const {
  const PooledPlan plan = acquire_plan();
  plan->build(ids, false);
  for_found_rows(*plan, [&](std::size_t group, const std::byte* weights) {
    out[plan->first_position(group)] = weights != nullptr;
  });
}

}  // namespace monolith
