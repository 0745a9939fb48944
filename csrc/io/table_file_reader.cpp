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

// The rows of a block that belong to a shard; `copy` holds them if they are not all of it.
RowBlock rows_of_shard(const RowBlock& block, HashShard shard, std::size_t row_bytes, RowBatch& copy) {
  const std::uint32_t bucket = bucket_of_id(block.ids.front());
  if (first_hash_of_bucket(bucket) >= shard.first_hash() && last_hash_of_bucket(bucket) <= shard.last_hash()) {
    return block;
  }
  copy.ids.clear();
  copy.last_seen.clear();
  copy.rows.clear();
  for (std::size_t i = 0; i < block.ids.size(); ++i) {
    if (shard_of_hash(hash_id(block.ids[i]), shard.count) != shard.index) continue;
    const auto row = block.rows.subspan(i * row_bytes, row_bytes);
    copy.ids.push_back(block.ids[i]);
    copy.last_seen.push_back(block.last_seen[i]);
    copy.rows.insert(copy.rows.end(), row.begin(), row.end());
  }
  return {{}, copy.ids, copy.last_seen, copy.rows};
}

// Calls visit(block, path) for the rows of a shard, block by block, for several blocks at a time, but for one sub-table
// only one; it returns how many rows it dropped. Only buckets that the shard touches are read: checksums are of whole
// files only if the shard is all.
template <typename Visit>
SavedTable visit_files(const RowTable& table, const std::vector<std::string>& paths, HashShard shard,
                       const Visit& visit) {
  constexpr std::uint32_t kChunkBuckets = 16 * table_file::kBucketsPerSubTable;
  struct Part {
    std::size_t file;
    std::uint32_t first_bucket, last_bucket;
    table_file::BlocksCrc crc;
  };
  shard.check();
  std::vector<std::unique_ptr<ShardReader>> files;
  std::vector<std::vector<Part>> chunks(kNumBuckets / kChunkBuckets);
  for (const std::string& path : paths) {
    ShardReader& file = *files.emplace_back(std::make_unique<ShardReader>(path));
    file.check_same_version(files[0]->header());
    file.let_go();
    if (file.last_hash() < shard.first_hash() || file.first_hash() > shard.last_hash()) continue;
    const std::uint32_t last = std::min(shard.end_bucket(), file.header().last_bucket);
    for (std::uint32_t first = std::max(shard.first_bucket(), file.header().first_bucket); first < last;) {
      const std::uint32_t next = std::min(last, (first / kChunkBuckets + 1) * kChunkBuckets);
      chunks[first / kChunkBuckets].push_back({files.size() - 1, first, next, {}});
      first = next;
    }
  }
  std::erase_if(chunks, [](const auto& parts) { return parts.empty(); });
  std::atomic<std::uint64_t> num_rows{0};
  std::atomic<std::uint64_t> num_dropped{0};
  parallel_io(chunks.size(), [&](std::size_t i) {
    RowBatch copy;
    for (Part& part : chunks[i]) {
      // Opened anew: the system reads ahead only in a file that is open for one reader.
      const ShardReader file(paths[part.file]);
      file.check_rows_fit(table);
      part.crc = file.visit_blocks(part.first_bucket, part.last_bucket, [&](const RowBlock& block) {
        const RowBlock own = rows_of_shard(block, shard, file.row_bytes(), copy);
        const std::size_t dropped = own.ids.empty() ? 0 : visit(own, paths[part.file]);
        num_rows.fetch_add(own.ids.size() - dropped, std::memory_order_relaxed);
        num_dropped.fetch_add(dropped, std::memory_order_relaxed);
      });
    }
  });
  std::vector<table_file::BlocksCrc> blocks(paths.size());
  for (const auto& parts : chunks) {
    for (const Part& part : parts) blocks[part.file].append(part.crc);
  }
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

using RowsOfSubTables = std::array<std::uint64_t, kNumSubTables>;

// What the file's index tells: a sub-table is a few buckets, or has its even share of the file of the table's shard.
void add_rows_of(const RowTable& table, const ShardReader& file, RowsOfSubTables& num_rows) {
  if (!table.hash().shard().is_all()) {
    if (file.is_old() || file.shard() != table.hash().shard()) return;
    for (std::uint64_t& rows : num_rows) rows += (file.footer().num_rows + kNumSubTables - 1) / kNumSubTables;
    return;
  }
  for (std::uint32_t bucket = file.header().first_bucket; bucket < file.header().last_bucket; ++bucket) {
    num_rows[bucket / table_file::kBucketsPerSubTable] += file.num_rows(bucket);
  }
}

// Safe for concurrent use.
void add_rows_of(const RowTable& table, const RowBlock& block, RowsOfSubTables& num_rows) {
  if (table.hash().shard().is_all()) {  // a block is of one bucket
    std::atomic_ref(num_rows[sub_table_of_hash(table.hash().of(block.ids.front()))]).fetch_add(block.ids.size());
    return;
  }
  RowsOfSubTables here{};
  for (const std::int64_t id : block.ids) ++here[sub_table_of_hash(table.hash().of(id))];
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    if (here[i] != 0) std::atomic_ref(num_rows[i]).fetch_add(here[i]);
  }
}

void check_holds(const RowTable& table, HashShard shard) {
  const HashShard own = table.hash().shard();
  if (own.is_all() || own == shard) return;
  throw std::invalid_argument("table '" + table.options().name + "' holds " + own.name() +
                              ", and cannot take rows of " + shard.name());
}

void check_room(const RowTable& table, const RowsOfSubTables& num_rows, const std::string& path, bool cleared) {
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    if (table.has_room_for(i, num_rows[i], cleared)) continue;
    throw TableFull("table '" + table.options().name + "' has no room for the rows of " + path +
                    " under its max_memory_bytes of " + std::to_string(table.options().max_memory_bytes) +
                    "; nothing was changed: raise the limit, or let it evict_oldest");
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
  RowsOfSubTables num_rows{};
  for (const std::string& path : paths) {
    const ShardReader file(path);
    file.check_rows_fit(table);
    add_rows_of(table, file, num_rows);
  }
  check_room(table, num_rows, paths[0], cleared);
}

SavedTable check_table_files(const RowTable& table, const std::vector<std::string>& paths, bool cleared,
                             NotFinite not_finite, HashShard shard) {
  check_holds(table, shard);
  if (shard.is_all()) check_table_fits(table, paths, cleared);
  RowsOfSubTables num_rows{};
  const SavedTable checked =
      visit_files(table, paths, shard, [&](const RowBlock& block, const std::string& path) -> std::size_t {
        if (not_finite == NotFinite::kRefuse) check_finite(table, block, path);
        add_rows_of(table, block, num_rows);
        return 0;
      });
  // The index does not tell how many rows of a bucket belong to a shard.
  if (!shard.is_all()) check_room(table, num_rows, paths[0], cleared);
  return checked;
}

SavedTable load_table(RowTable& table, const std::vector<std::string>& paths, HashShard shard, NotFinite not_finite) {
  check_holds(table, shard);
  RowsOfSubTables num_rows{};
  for (const std::string& path : paths) {
    const ShardReader file(path);
    file.check_rows_fit(table);
    table.raise_max_time(file.header().max_time);
    table.raise_max_step(file.header().max_step);
    add_rows_of(table, file, num_rows);
  }
  // Rows come in the order of hashes: each index would grow alone to its full size, through memory that nobody else
  // uses.
  for (std::uint32_t i = 0; i < kNumSubTables && shard == table.hash().shard(); ++i) table.expect_rows(i, num_rows[i]);
  return visit_files(table, paths, shard, [&](const RowBlock& block, const std::string& path) -> std::size_t {
    if (not_finite == NotFinite::kDrop) return restore_finite(table, block);
    if (not_finite == NotFinite::kRefuse) check_finite(table, block, path);
    table.restore(block.ids, block.last_seen, block.rows);
    return 0;
  });
}

}  // namespace monolith
