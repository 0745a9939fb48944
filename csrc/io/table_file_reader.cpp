// The reading half of table files.
#include <array>
#include <atomic>

#include "io/shard_reader.h"
#include "io/table_file.h"
#include "ops/parallel_for.h"

namespace monolith {

namespace {

// Calls visit(file, count), which returns the file's checksum, for several files at a time; count(n) counts rows.
template <typename Visit>
SavedTable visit_files(const RowTable& table, const std::vector<std::string>& paths, const Visit& visit) {
  SavedTable saved;
  saved.checksums.resize(paths.size());
  std::atomic<std::uint64_t> num_rows{0};
  parallel_for(paths.size(), [&](std::size_t i) {
    const table_file::ShardReader file(paths[i]);
    file.check_rows_fit(table);
    saved.checksums[i] = visit(file, [&](std::size_t count) { num_rows.fetch_add(count, std::memory_order_relaxed); });
  });
  saved.num_rows = num_rows;
  return saved;
}

// Rows come in the order of buckets: each index would grow alone to its full size, through memory that nobody else
// uses.
void expect_rows(const table_file::ShardReader& file, RowTable& table) {
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
  const table_file::ShardReader file(path);
  const table_file::Header& header = file.header();
  return {file.schema(),      header.plan_hash,    header.generation,     header.epoch,
          header.max_time,    header.shard,        header.num_shards,     header.weight_bytes,
          header.state_bytes, header.serving != 0, file.footer().num_rows};
}

void check_table_fits(const RowTable& table, const std::vector<std::string>& paths, bool cleared) {
  std::array<std::uint64_t, kNumSubTables> num_rows{};
  for (const std::string& path : paths) {
    const table_file::ShardReader file(path);
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

SavedTable check_table_files(const RowTable& table, const std::vector<std::string>& paths, bool cleared) {
  check_table_fits(table, paths, cleared);
  return visit_files(table, paths, [](const table_file::ShardReader& file, const auto& count) {
    return file.visit_blocks(0, kNumBuckets, [&](const auto& ids, const auto&, const auto&) { count(ids.size()); });
  });
}

SavedTable load_table(RowTable& table, const std::vector<std::string>& paths, std::uint32_t first_bucket,
                      std::uint32_t last_bucket) {
  return visit_files(table, paths, [&](const table_file::ShardReader& file, const auto& count) {
    table.raise_max_time(file.header().max_time);
    if (first_bucket == 0 && last_bucket == kNumBuckets) expect_rows(file, table);
    return file.visit_blocks(first_bucket, last_bucket, [&](const auto& ids, const auto& last_seen, const auto& rows) {
      table.restore(ids, last_seen, rows);
      count(ids.size());
    });
  });
}

}  // namespace monolith
