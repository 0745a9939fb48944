#include "ops/shard_fids.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "ops/id_numbers.h"
#include "ops/id_shard.h"
#include "ops/parallel_for.h"

namespace monolith {

namespace {

constexpr std::size_t kMostInt32 = std::numeric_limits<std::int32_t>::max();

// What one feature sends to the servers.
struct Shards {
  std::vector<std::vector<std::int64_t>> fids;  // per server
  std::vector<std::size_t> first_id;            // per server: where they begin in the block
  std::vector<std::size_t> first_float;
};

void check_columns(std::span<const FidColumn> columns, std::size_t num_tables, std::size_t num_ps,
                   std::size_t batch_size) {
  if (num_ps == 0) throw std::invalid_argument("ps_num must be at least 1, got 0");
  if (num_tables * num_ps > kMostInt32) throw std::invalid_argument("tables times ps_num exceed 2^31 blocks");
  std::size_t num_ids = 0;
  std::size_t num_rows = 0;
  for (std::size_t f = 0; f < columns.size(); ++f) {
    const FidColumn& column = columns[f];
    const std::string name = "column " + std::to_string(f);
    check_row_splits(column.row_splits, column.ids.size(), "row_splits of " + name);
    const std::size_t rows = column.row_splits.size() - 1;
    const std::size_t expected = column.shared ? 1 : batch_size;
    if (rows != expected) {
      throw std::invalid_argument(name + " has " + std::to_string(rows) + " rows, expected " +
                                  std::to_string(expected));
    }
    if (column.table >= num_tables || column.dim == 0) {
      throw std::invalid_argument(name + " needs a table below " + std::to_string(num_tables) +
                                  " and a positive width, got " + std::to_string(column.table) + " and " +
                                  std::to_string(column.dim));
    }
    num_ids += column.ids.size();
    num_rows += rows;
  }
  if (num_ids > kMostInt32 || num_rows >= kMostInt32) {
    throw std::invalid_argument("a batch of more than 2^31 ids or rows cannot be sharded; use smaller batches");
  }
}

// Writes (server << 32) | row to `places`, and the ids to `shards`.
void shard_one(const FidColumn& column, std::size_t num_ps, bool unique, Shards& shards, std::uint64_t* places) {
  shards.fids.resize(num_ps);
  if (num_ps == 1 && !unique) {
    shards.fids[0].assign(column.ids.begin(), column.ids.end());
    std::iota(places, places + column.ids.size(), std::uint64_t{0});
    return;
  }
  IdNumbers seen(unique ? std::min<std::size_t>(column.ids.size(), 4096) : 0);
  for (std::size_t k = 0; k < column.ids.size(); ++k) {
    const std::int64_t id = column.ids[k];
    const std::size_t server = num_ps == 1 ? 0 : shard_of_id(id, num_ps);
    std::vector<std::int64_t>& fids = shards.fids[server];
    const auto next = static_cast<std::int64_t>(fids.size());
    // An id always goes to the same server, so one index serves them all.
    const std::int64_t row = unique ? seen.insert(id, next) : next;
    if (row == next) fids.push_back(id);
    places[k] = (static_cast<std::uint64_t>(server) << 32) | static_cast<std::uint64_t>(row);
  }
}

// Where each feature begins in its blocks; fills the sizes and splits of `result`.
void lay_out_blocks(std::span<const FidColumn> columns, std::size_t num_tables, std::size_t num_ps,
                    std::vector<Shards>& shards, ShardedFids& result) {
  std::vector<std::vector<std::size_t>> features_of(num_tables);
  for (std::size_t f = 0; f < columns.size(); ++f) {
    features_of[columns[f].table].push_back(f);
    shards[f].first_id.resize(num_ps);
    shards[f].first_float.resize(num_ps);
  }
  for (std::size_t table = 0; table < num_tables; ++table) {
    for (std::size_t server = 0; server < num_ps; ++server) {
      std::size_t ids = 0;
      std::size_t floats = 0;
      result.row_splits.push_back(0);
      for (const std::size_t f : features_of[table]) {
        shards[f].first_id[server] = ids;
        shards[f].first_float[server] = floats;
        ids += shards[f].fids[server].size();
        floats += shards[f].fids[server].size() * columns[f].dim;
        result.row_splits.push_back(static_cast<std::int64_t>(ids));
      }
      if (floats > kMostInt32) {
        throw std::invalid_argument("the rows that one server has of table " + std::to_string(table) +
                                    " exceed 2^31 floats; use smaller batches or more servers");
      }
      result.block_sizes.push_back(static_cast<std::int64_t>(ids));
      result.emb_sizes.push_back(static_cast<std::int32_t>(floats));
    }
  }
}

void fill_row_index(std::span<const FidColumn> columns, ShardedFids& result) {
  std::size_t num_rows = 0;
  for (const FidColumn& column : columns) num_rows += column.row_splits.size() - 1;
  result.feature_offset.reserve(num_rows + 1);
  std::int32_t first = 0;
  for (const FidColumn& column : columns) {
    const auto row = static_cast<std::uint32_t>(result.feature_offset.size());
    result.nfl_offset.push_back(column.shared ? row | kSharedFeature : row);
    for (std::size_t r = 0; r + 1 < column.row_splits.size(); ++r) {
      result.feature_offset.push_back(first + static_cast<std::int32_t>(column.row_splits[r]));
    }
    first += static_cast<std::int32_t>(column.ids.size());
  }
  result.feature_offset.push_back(first);
  result.nfl_offset.push_back(static_cast<std::uint32_t>(result.feature_offset.size()));
}

}  // namespace

ShardedFids shard_fids(std::span<const FidColumn> columns, std::size_t num_tables, std::size_t num_ps,
                       std::size_t batch_size, bool unique) {
  check_columns(columns, num_tables, num_ps, batch_size);
  ShardedFids result;
  std::vector<std::size_t> first(columns.size() + 1, 0);
  for (std::size_t f = 0; f < columns.size(); ++f) first[f + 1] = first[f] + columns[f].ids.size();
  result.fid_offset.resize(first.back());
  std::vector<Shards> shards(columns.size());
  parallel_for(columns.size(), [&](std::size_t f) {
    shard_one(columns[f], num_ps, unique, shards[f], result.fid_offset.data() + first[f]);
  });

  lay_out_blocks(columns, num_tables, num_ps, shards, result);
  fill_row_index(columns, result);
  std::vector<std::size_t> block_start(num_tables * num_ps + 1, 0);
  for (std::size_t b = 0; b + 1 < block_start.size(); ++b) {
    block_start[b + 1] = block_start[b] + static_cast<std::size_t>(result.block_sizes[b]);
  }
  result.fids.resize(block_start.back());
  parallel_for(columns.size(), [&](std::size_t f) {
    const std::uint64_t first_block = columns[f].table * num_ps;
    for (std::size_t server = 0; server < num_ps; ++server) {
      const std::size_t start = block_start[first_block + server] + shards[f].first_id[server];
      std::copy(shards[f].fids[server].begin(), shards[f].fids[server].end(), result.fids.begin() + start);
    }
    for (std::size_t k = first[f]; k < first[f + 1]; ++k) {
      const std::uint64_t server = result.fid_offset[k] >> 32;
      const std::uint64_t row = result.fid_offset[k] & 0xFFFFFFFFu;
      const std::uint64_t offset = shards[f].first_float[server] + row * columns[f].dim;
      result.fid_offset[k] = ((first_block + server) << 32) | offset;
    }
  });
  return result;
}

}  // namespace monolith
