// The reading half of table files.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include "io/shard_reader.h"
#include "io/table_file.h"
#include "ops/parallel_for.h"

namespace monolith {

namespace {

using table_file::RowBlock;
using table_file::ShardReader;

// Calls visit(block, path) for the blocks in the files whose buckets are in range, for several at a time, but for one
// sub-table only one; it returns how many rows it dropped. Checksums are of whole files only if all buckets are in
// range.
template <typename Visit>
SavedTable visit_files(const RowTable& table, const std::vector<std::string>& paths, std::uint32_t first_bucket,
                       std::uint32_t last_bucket, const Visit& visit) {
  constexpr std::uint32_t kPartBuckets = 16 * table_file::kBucketsPerSubTable;
  struct Part {
    std::size_t file;
    std::uint32_t first_bucket, last_bucket;
    table_file::BlocksCrc crc;
  };
  std::vector<std::unique_ptr<ShardReader>> files;
  std::vector<Part> parts;
  for (const std::string& path : paths) {
    const table_file::Header& header = files.emplace_back(std::make_unique<ShardReader>(path))->header();
    const std::uint32_t last = std::min(last_bucket, header.last_bucket);
    for (std::uint32_t first = std::max(first_bucket, header.first_bucket); first < last; first += kPartBuckets) {
      parts.push_back({files.size() - 1, first, std::min(last, first + kPartBuckets), {}});
    }
  }
  std::atomic<std::uint64_t> num_rows{0};
  std::atomic<std::uint64_t> num_dropped{0};
  parallel_io(parts.size(), [&](std::size_t i) {
    // Opened anew: the system reads ahead only in a file that is open for one reader.
    const ShardReader file(paths[parts[i].file]);
    file.check_rows_fit(table);
    parts[i].crc = file.visit_blocks(parts[i].first_bucket, parts[i].last_bucket, [&](const RowBlock& block) {
      const std::size_t dropped = visit(block, paths[parts[i].file]);
      num_rows.fetch_add(block.ids.size() - dropped, std::memory_order_relaxed);
      num_dropped.fetch_add(dropped, std::memory_order_relaxed);
    });
  });
  std::vector<table_file::BlocksCrc> blocks(paths.size());
  for (const Part& part : parts) blocks[part.file].append(part.crc);
  SavedTable saved{num_rows, {}, num_dropped};
  for (std::size_t i = 0; i < files.size(); ++i) saved.checksums.push_back(files[i]->checksum(blocks[i]));
  return saved;
}

void check_finite(const RowTable& table, const RowBlock& block, const std::string& path) {
  const RowLayout& layout = table.layout();
  const std::size_t bad = layout.first_not_finite(block.rows);
  if (bad == block.ids.size()) return;
  throw NotFiniteRow("table '" + table.options().name + "': of the row of id " + std::to_string(block.ids[bad]) +
                     " in " + path + ", " + layout.not_finite_part(block.rows.data() + bad * layout.row_bytes()) +
                     "; restore with drop_not_finite (--drop_not_finite) to leave such rows out");
}

// Restores the rows that are finite. The others lose an older row too: the table is what a snapshot of the same moment
// without them would make it.
std::size_t restore_finite(RowTable& table, const RowBlock& block) {
  const RowLayout& layout = table.layout();
  if (layout.first_not_finite(block.rows) == block.ids.size()) {
    table.restore(block.ids, block.last_seen, block.rows);
    return 0;
  }
  RowBatch kept;
  std::vector<std::int64_t> dropped;
  for (std::size_t i = 0; i < block.ids.size(); ++i) {
    const auto row = block.rows.subspan(i * layout.row_bytes(), layout.row_bytes());
    if (layout.is_finite(row.data())) {
      kept.ids.push_back(block.ids[i]);
      kept.last_seen.push_back(block.last_seen[i]);
      kept.rows.insert(kept.rows.end(), row.begin(), row.end());
    } else {
      dropped.push_back(block.ids[i]);
    }
  }
  table.erase(dropped);
  table.restore(kept.ids, kept.last_seen, kept.rows);
  return dropped.size();
}

// Rows come in the order of buckets: each index would grow alone to its full size, through memory that nobody else
// uses.
void expect_rows(const ShardReader& file, RowTable& table) {
  for (std::uint32_t bucket = file.header().first_bucket; bucket < file.header().last_bucket;) {
    const std::uint32_t sub_table = bucket / table_file::kBucketsPerSubTable;
    std::uint64_t num_rows = 0;
    for (; bucket < file.header().last_bucket && bucket / table_file::kBucketsPerSubTable == sub_table; ++bucket) {
      num_rows += file.num_rows(bucket);
    }
    table.expect_rows(sub_table, num_rows);
  }
}

}  // namespace

TableFileInfo read_table_file_info(const std::string& path) {
  const ShardReader file(path);
  const table_file::Header& header = file.header();
  return {file.schema(),       header.plan_hash,   header.generation,   header.epoch,
          header.max_time,     header.max_step,    header.shard,        header.num_shards,
          header.weight_bytes, header.state_bytes, header.serving != 0, file.footer().num_rows};
}

void check_table_fits(const RowTable& table, const std::vector<std::string>& paths, bool cleared) {
  std::array<std::uint64_t, kNumSubTables> num_rows{};
  for (const std::string& path : paths) {
    const ShardReader file(path);
    file.check_rows_fit(table);
    for (std::uint32_t bucket = file.header().first_bucket; bucket < file.header().last_bucket; ++bucket) {
      num_rows[bucket / table_file::kBucketsPerSubTable] += file.num_rows(bucket);
    }
  }
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    if (table.has_room_for(i, num_rows[i], cleared)) continue;
    throw TableFull("table '" + table.options().name + "' has no room for the rows of " + paths[0] +
                    " under its max_memory_bytes of " + std::to_string(table.options().max_memory_bytes) +
                    "; nothing was changed: raise the limit, or let it evict_oldest");
  }
}

SavedTable check_table_files(const RowTable& table, const std::vector<std::string>& paths, bool cleared,
                             NotFinite not_finite) {
  check_table_fits(table, paths, cleared);
  return visit_files(table, paths, 0, kNumBuckets, [&](const RowBlock& block, const std::string& path) -> std::size_t {
    if (not_finite == NotFinite::kRefuse) check_finite(table, block, path);
    return 0;
  });
}

SavedTable load_table(RowTable& table, const std::vector<std::string>& paths, std::uint32_t first_bucket,
                      std::uint32_t last_bucket, NotFinite not_finite) {
  for (const std::string& path : paths) {
    const ShardReader file(path);
    file.check_rows_fit(table);
    table.raise_max_time(file.header().max_time);
    table.raise_max_step(file.header().max_step);
    if (first_bucket == 0 && last_bucket == kNumBuckets) expect_rows(file, table);
  }
  return visit_files(table, paths, first_bucket, last_bucket,
                     [&](const RowBlock& block, const std::string& path) -> std::size_t {
                       if (not_finite == NotFinite::kDrop) return restore_finite(table, block);
                       if (not_finite == NotFinite::kRefuse) check_finite(table, block, path);
                       table.restore(block.ids, block.last_seen, block.rows);
                       return 0;
                     });
}

}  // namespace monolith
