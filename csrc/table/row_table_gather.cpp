// Lookups in the order of the batch, without locks while nobody writes.
#include <array>
#include <atomic>

#include "ops/parallel_for.h"
#include "ops/simd.h"
#include "table/copy_row.h"
#include "table/gather_kernels.h"
#include "table/row_table.h"

namespace monolith {

namespace {

// A task's ids are looked up without letting writers in: about 50 microseconds.
constexpr std::size_t kTaskIds = 4096;
// Fewer ids are not worth looking at every sub-table first.
constexpr std::size_t kFewIds = 512;

using Views = std::array<SubTableView, kNumSubTables>;

void view_sub_tables(const SubTable* sub_tables, Views& views) {
  alignas(64) static constexpr std::uint64_t kEmptyLine[kLineEntries] = {};
  for (std::size_t i = 0; i < kNumSubTables; ++i) {
    const SubTable& sub_table = sub_tables[i];
    const std::uint64_t* lines = sub_table.index.lines();
    views[i] = {lines == nullptr ? kEmptyLine : lines, sub_table.chunks.data(), sub_table.index.log2_lines()};
  }
}

std::size_t gather(const GatherRequest& request) {
  switch (simd_level()) {
    case SimdLevel::kAvx512:
      return avx512::gather_rows(request);
    case SimdLevel::kAvx2:
      return avx2::gather_rows(request);
    case SimdLevel::kScalar:
      break;
  }
  return scalar::gather_rows(request);
}

}  // namespace

std::size_t RowTable::lookup(std::span<const std::int64_t> ids, float* out, std::size_t stride) const {
  if (!layout_.reads_plain() || ids.size() < kFewIds) return lookup_locked(ids, out, stride);
  const bool streaming = is_large(ids.size()) && can_stream(out, stride, layout_.dim());
  std::atomic<std::size_t> hits{0};
  parallel_for((ids.size() + kTaskIds - 1) / kTaskIds, [&](std::size_t task) {
    const std::size_t first = task * kTaskIds;
    const auto part = ids.subspan(first, std::min(kTaskIds, ids.size() - first));
    float* const part_out = out + first * stride;
    if (!gate_.try_enter()) {
      hits += lookup_locked(part, part_out, stride);
      return;
    }
    Views views;
    view_sub_tables(sub_tables_.get(), views);
    hits += gather({views.data(), part.data(), part.size(), part_out, stride, layout_.dim(),
                    chunk_layout_.first_weights, chunk_layout_.weight_stride, no_chunk_.data(), streaming});
    gate_.leave();
  });
  return hits.load();
}

std::size_t RowTable::lookup_locked(std::span<const std::int64_t> ids, float* out, std::size_t stride) const {
  const PooledPlan plan = acquire_plan();
  plan->build(ids, false);
  return lookup(*plan, out, stride);
}

}  // namespace monolith
