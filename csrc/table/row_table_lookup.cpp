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
// unknown id, while the row cannot change. A merged plan remembers the rows for the step that follows.
template <std::size_t kWeightBytes, typename Copy>
std::size_t RowTable::for_found_rows(BatchPlan& plan, const Copy& copy) const {
  const std::size_t weight_bytes = kWeightBytes == 0 ? chunk_layout_.weight_bytes : kWeightBytes;
  BatchPlan::FoundRow* const found = plan.is_merged() ? plan.found().data() : nullptr;
  std::atomic<std::size_t> hits{0};
  plan.set_erase_count(erase_count_.load());
  for_each_block(sub_tables_.get(), plan.hashes(),
                 [&](std::size_t first, std::size_t count, const auto& prefetch_next) {
                   const std::uint64_t* hashes = plan.hashes().data() + first;
                   std::array<std::uint32_t, kBlockGroups> rows;
                   std::array<const std::byte*, kBlockGroups> weights;
                   const Block block(sub_tables_.get(), {hashes, count}, Access::kShared);
                   for (const Block::Run& run : block.runs()) {
                     const SubTable& sub_table = *run.sub_table;
                     for (std::size_t from = run.first; from < run.first + run.count; from += kFetchAtOnce) {
                       const std::size_t until = std::min(from + kFetchAtOnce, run.first + run.count);
                       sub_table.index.find_rows(hashes + from, until - from, rows.data() + from);
                       for (std::size_t i = from; i < until; ++i) {
                         const BatchPlan::FoundRow at = sub_table.found(rows[i]);
                         weights[i] = at.row == kNoRow ? nullptr : chunk_layout_.weights(at.chunk, at.row);
                         prefetch_lines(weights[i], weight_bytes);
                         if (found != nullptr) found[first + i] = at;
                       }
                     }
                   }
                   std::size_t block_hits = 0;
                   for (std::size_t from = 0; from < count; from += kFetchAtOnce) {
                     prefetch_next(from);
                     for (std::size_t i = from; i < std::min(count, from + kFetchAtOnce); ++i) {
                       const std::size_t copies = copy(first + i, weights[i]);
                       block_hits += weights[i] == nullptr ? 0 : copies;
                     }
                   }
                   hits.fetch_add(block_hits, std::memory_order_relaxed);
                 });
  plan.set_rows_known(plan.is_merged());
  return hits.load();
}

// Rows whose lookup is a plain copy; kDim is the width of a row, or 0 for any.
template <Store kStore, std::size_t kDim>
std::size_t RowTable::lookup_plain(BatchPlan& plan, float* out, std::size_t stride) const {
  const std::size_t dim = kDim == 0 ? layout_.dim() : kDim;
  const auto copy_to = [=](std::uint32_t position, const std::byte* weights) {
    float* to = out + position * stride;
    if (weights != nullptr) {
      copy_row<kStore>(to, reinterpret_cast<const float*>(weights), dim);
    } else {
      std::fill_n(to, dim, 0.0F);
    }
  };
  if (!plan.is_merged()) {
    return for_found_rows<kDim * sizeof(float)>(plan, [&plan, copy_to](std::size_t group, const std::byte* weights) {
      copy_to(plan.first_position(group), weights);
      return std::size_t{1};
    });
  }
  return for_found_rows<kDim * sizeof(float)>(plan, [&plan, copy_to](std::size_t group, const std::byte* weights) {
    const auto positions = plan.positions(group);
    for (const std::uint32_t position : positions) copy_to(position, weights);
    return positions.size();
  });
}

bool RowTable::is_large(std::size_t num_ids) const { return num_ids * layout_.dim() * sizeof(float) > kStreamBytes; }

std::size_t RowTable::lookup(BatchPlan& plan, float* out, std::size_t stride) const {
  const std::size_t dim = layout_.dim();
  if (layout_.reads_plain()) {
    if (is_large(plan.num_ids()) && can_stream(out, stride, dim)) {
      const std::size_t hits = lookup_plain_any<Store::kStreaming>(plan, out, stride);
      finish_streaming();
      return hits;
    }
    return lookup_plain_any<Store::kCached>(plan, out, stride);
  }
  return for_found_rows<0>(plan, [&](std::size_t group, const std::byte* weights) {
    const auto positions = plan.positions(group);
    for (const std::uint32_t position : positions) {
      float* to = out + position * stride;
      if (weights == nullptr) {
        std::fill_n(to, dim, 0.0F);
      } else {
        layout_.read(weights, to);
      }
    }
    return positions.size();
  });
}

// Usual widths get a loop of their own, which the compiler unrolls.
template <Store kStore>
std::size_t RowTable::lookup_plain_any(BatchPlan& plan, float* out, std::size_t stride) const {
  switch (layout_.dim()) {
    case 8:
      return lookup_plain<kStore, 8>(plan, out, stride);
    case 16:
      return lookup_plain<kStore, 16>(plan, out, stride);
    case 32:
      return lookup_plain<kStore, 32>(plan, out, stride);
    case 64:
      return lookup_plain<kStore, 64>(plan, out, stride);
    default:
      return lookup_plain<kStore, 0>(plan, out, stride);
  }
}

std::size_t RowTable::lookup_groups(BatchPlan& plan, float* out) const {
  const std::size_t dim = layout_.dim();
  return for_found_rows<0>(plan, [&](std::size_t group, const std::byte* weights) {
    if (weights == nullptr) {
      std::fill_n(out + group * dim, dim, 0.0F);
    } else {
      layout_.read(weights, out + group * dim);
    }
    return plan.positions(group).size();
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
  for_found_rows<0>(*plan, [&](std::size_t group, const std::byte* weights) {
    out[plan->first_position(group)] = weights != nullptr;
    return std::size_t{1};
  });
}

}  // namespace monolith
