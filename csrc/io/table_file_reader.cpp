// The reading half of table files.
#include <array>
#include <atomic>

#include "io/shard_reader.h"
#include "io/table_file.h"
#include "ops/parallel_for.h"

namespace monolith {

TableFileInfo read_table_file_info(const std::string& path) {
  const table_file::ShardReader file(path);
  const table_file::Header& header = file.header();
  return {file.schema(),      header.plan_hash,    header.generation,     header.epoch,
          header.max_time,    header.shard,        header.num_shards,     header.weight_bytes,
          header.state_bytes, header.serving != 0, file.footer().num_rows};
}

void check_table_files(const RowTable& table, const std::vector<std::string>& paths, bool cleared) {
  std::array<std::atomic<std::uint64_t>, kNumSubTables> num_rows{};
  parallel_for(paths.size(), [&](std::size_t i) {
    const table_file::ShardReader file(paths[i]);
    file.check_rows_fit(table);
    file.visit_blocks(0, kNumBuckets, [&](const auto& ids, const auto&, const auto&) {
      num_rows[sub_table_of_hash(hash_id(ids[0]))] += ids.size();
    });
  });
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    if (table.has_room_for(i, num_rows[i], cleared)) continue;
    throw TableFull("table '" + table.options().name + "' has no room for the rows of " + paths[0] +
                    " under its max_memory_bytes of " + std::to_string(table.options().max_memory_bytes) +
                    "; nothing was changed: raise the limit, or let it evict_oldest");
  }
}

std::uint64_t load_table(RowTable& table, const std::vector<std::string>& paths, std::uint32_t first_bucket,
                         std::uint32_t last_bucket) {
  std::atomic<std::uint64_t> num_rows{0};
  parallel_for(paths.size(), [&](std::size_t i) {
    const table_file::ShardReader file(paths[i]);
    file.check_rows_fit(table);
    table.raise_max_time(file.header().max_time);
    file.visit_blocks(first_bucket, last_bucket, [&](const auto& ids, const auto& last_seen, const auto& rows) {
      table.restore(ids, last_seen, rows);
      num_rows += ids.size();
    });
  });
  return num_rows;
}

}  // namespace monolith
