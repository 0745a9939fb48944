// Table files to another number of shards.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>

#include "io/shard_reader.h"
#include "io/shard_writer.h"
#include "io/table_file.h"

namespace monolith {

namespace {

using table_file::BlocksCrc;
using table_file::RowBlock;
using table_file::ShardReader;
using table_file::ShardWriter;

// A file to read, closed unless it is being read.
struct Source {
  std::string path;
  std::unique_ptr<ShardReader> file;
  std::vector<BlocksCrc> read;  // of its buckets
};

void sort_by_hash(RowBatch& batch, std::size_t row_bytes) {
  if (std::ranges::is_sorted(batch.ids, {}, by_hash)) return;
  std::vector<std::uint32_t> order(batch.ids.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t row) { return hash_id(batch.ids[row]); });
  RowBatch sorted;
  sorted.rows.resize(batch.rows.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    sorted.ids.push_back(batch.ids[order[i]]);
    sorted.last_seen.push_back(batch.last_seen[order[i]]);
    std::memcpy(sorted.rows.data() + i * row_bytes, batch.rows.data() + order[i] * row_bytes, row_bytes);
  }
  batch = std::move(sorted);
}

// Takes buckets from all files to shards, which one thread writes in order.
class BucketCopier {
 public:
  BucketCopier(std::vector<Source>& sources, std::size_t row_bytes) : sources_(sources), row_bytes_(row_bytes) {}

  // Writes the rows of a bucket that belong to a shard, and returns their number.
  std::uint64_t copy(std::uint32_t bucket, HashShard own, ShardWriter& to) {
    const std::uint64_t first = first_hash_of_bucket(bucket);
    const std::uint64_t last = last_hash_of_bucket(bucket);
    const std::size_t holder = holder_of(first);
    const ShardReader& held = *sources_[holder].file;
    if (own.first_hash() <= first && last <= own.last_hash() && last <= held.last_hash() && !held.is_old()) {
      // Blocks stay what they are.
      note(holder, bucket,
           reader(holder).visit_blocks(bucket, bucket + 1, [&](const RowBlock& block) { to.write(block.bytes); }));
      return held.num_rows(bucket);
    }
    if (loaded_ != bucket) load(bucket, holder);
    const std::uint64_t own_first = std::max(first, own.first_hash());
    const std::uint64_t own_last = std::min(last, own.last_hash());
    for (const Piece& piece : pieces_) {
      // Several shards read a piece: the one that has its first hash tells the checksum.
      if (piece.first_hash >= own_first && piece.first_hash <= own_last) note(piece.source, bucket, piece.crc);
    }
    const auto begin = std::ranges::lower_bound(rows_.ids, own_first, {}, by_hash) - rows_.ids.begin();
    const auto end = std::ranges::upper_bound(rows_.ids, own_last, {}, by_hash) - rows_.ids.begin();
    table_file::write_bucket(to, bucket, rows_, static_cast<std::size_t>(begin), static_cast<std::size_t>(end),
                             row_bytes_, buffer_);
    return static_cast<std::uint64_t>(end - begin);
  }

 private:
  // What one file has of the loaded bucket.
  struct Piece {
    std::size_t source;
    std::uint64_t first_hash;
    BlocksCrc crc;
  };

  std::size_t holder_of(std::uint64_t hash) const {
    const auto at =
        std::ranges::lower_bound(sources_, hash, {}, [](const Source& one) { return one.file->last_hash(); });
    return static_cast<std::size_t>(at - sources_.begin());
  }

  void note(std::size_t source, std::uint32_t bucket, const BlocksCrc& crc) {
    sources_[source].read[bucket - sources_[source].file->header().first_bucket] = crc;
  }

  const ShardReader& reader(std::size_t source) {
    if (opened_ != source) {
      opened_.reset();  // opened anew: the system reads ahead for one reader of an open file
      reader_.emplace(sources_[source].path);
      opened_ = source;
    }
    return *reader_;
  }

  void load(std::uint32_t bucket, std::size_t holder) {
    loaded_.reset();
    pieces_.clear();
    rows_ = {};
    for (std::size_t i = holder; i < sources_.size(); ++i) {
      const std::uint64_t first = std::max(first_hash_of_bucket(bucket), sources_[i].file->first_hash());
      if (first > last_hash_of_bucket(bucket)) break;
      const BlocksCrc crc = reader(i).visit_blocks(bucket, bucket + 1, [&](const RowBlock& block) {
        rows_.ids.insert(rows_.ids.end(), block.ids.begin(), block.ids.end());
        rows_.last_seen.insert(rows_.last_seen.end(), block.last_seen.begin(), block.last_seen.end());
        rows_.rows.insert(rows_.rows.end(), block.rows.begin(), block.rows.end());
      });
      pieces_.push_back({i, first, crc});
    }
    sort_by_hash(rows_, row_bytes_);
    loaded_ = bucket;
  }

  std::vector<Source>& sources_;
  std::size_t row_bytes_;
  std::optional<std::size_t> opened_;
  std::optional<ShardReader> reader_;
  std::optional<std::uint32_t> loaded_;
  std::vector<Piece> pieces_;
  RowBatch rows_;  // of the loaded bucket, by hash
  std::vector<std::byte> buffer_;
};

std::vector<Source> open_sources(const std::vector<std::string>& paths) {
  std::vector<Source> sources;
  for (const std::string& path : paths) {
    auto file = std::make_unique<ShardReader>(path);
    const table_file::Header& header = file->header();
    if (header.shard != sources.size() || header.num_shards != paths.size()) {
      file->corrupt(
          44,
          "it is not " +
              HashShard{static_cast<std::uint32_t>(sources.size()), static_cast<std::uint32_t>(paths.size())}.name());
    }
    const table_file::Header& first = sources.empty() ? header : sources[0].file->header();
    file->check_same_version(first);
    if (header.weight_bytes != first.weight_bytes || header.state_bytes != first.state_bytes) {
      file->corrupt(60, "its rows are not of the size of the other files'");
    }
    file->let_go();
    std::vector<BlocksCrc> read(header.last_bucket - header.first_bucket);
    sources.push_back({path, std::move(file), std::move(read)});
  }
  return sources;
}

}  // namespace

ReshardedTable reshard_table(const std::vector<std::string>& paths, const std::string& basename,
                             std::uint32_t num_shards) {
  if (paths.empty()) throw std::invalid_argument("there are no table files to reshard");
  check_num_shards(num_shards);
  std::vector<Source> sources = open_sources(paths);
  TableFileInfo info = read_table_file_info(paths.front());
  info.num_shards = num_shards;
  const auto start = [&]() -> table_file::WriteShard {
    const auto buckets = std::make_shared<BucketCopier>(sources, sources[0].file->row_bytes());
    return [buckets](ShardWriter& file, const TableFileInfo& info_of_shard) {
      const HashShard own{info_of_shard.shard, info_of_shard.num_shards};
      table_file::write_header(file, info_of_shard);
      std::vector<table_file::BucketEntry> index;
      std::uint64_t num_rows = 0;
      for (std::uint32_t bucket = own.first_bucket(); bucket < own.end_bucket(); ++bucket) {
        const std::uint64_t offset = file.offset();
        index.push_back({offset, buckets->copy(bucket, own, file)});
        num_rows += index.back().num_rows;
      }
      table_file::write_end(file, index, num_rows);
      return num_rows;
    };
  };
  const SavedTable written = table_file::write_shards(basename, info, {0, num_shards}, true, start);
  SavedTable read{written.num_rows, {}};
  for (const Source& source : sources) {
    BlocksCrc blocks;
    for (const BlocksCrc& bucket : source.read) blocks.append(bucket);
    read.checksums.push_back(source.file->checksum(blocks));
  }
  return {read, written};
}

}  // namespace monolith
