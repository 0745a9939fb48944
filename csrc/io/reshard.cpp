// Table files to another number of shards.
#include <memory>
#include <optional>

#include "io/shard_reader.h"
#include "io/shard_writer.h"
#include "io/table_file.h"

namespace monolith {

namespace {

using table_file::ShardReader;

// Which file holds a bucket; ranges of buckets are ascending by shard.
std::size_t holder(const std::vector<std::unique_ptr<ShardReader>>& files, std::uint32_t bucket) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (bucket >= files[i]->header().first_bucket && bucket < files[i]->header().last_bucket) return i;
  }
  files.front()->corrupt(52, "no file of the table holds bucket " + std::to_string(bucket));
}

// Of each file, from those of its buckets.
std::vector<std::uint32_t> checksums(const std::vector<std::unique_ptr<ShardReader>>& files,
                                     const std::vector<table_file::BlocksCrc>& buckets) {
  std::vector<std::uint32_t> sums;
  for (const auto& file : files) {
    table_file::BlocksCrc blocks;
    for (std::uint32_t bucket = file->header().first_bucket; bucket < file->header().last_bucket; ++bucket) {
      blocks.append(buckets[bucket]);
    }
    sums.push_back(file->checksum(blocks));
  }
  return sums;
}

}  // namespace

ReshardedTable reshard_table(const std::vector<std::string>& paths, const std::string& basename,
                             std::uint32_t num_shards) {
  if (paths.empty()) throw std::invalid_argument("there are no table files to reshard");
  std::vector<std::unique_ptr<ShardReader>> files;
  for (const std::string& path : paths) files.push_back(std::make_unique<ShardReader>(path));
  TableFileInfo info = read_table_file_info(paths.front());
  for (const auto& file : files) {
    if (file->header().weight_bytes != info.weight_bytes || file->header().state_bytes != info.state_bytes) {
      file->corrupt(60, "its rows are not of the size of the other files'");
    }
  }
  info.num_shards = num_shards;
  std::vector<table_file::BlocksCrc> read(kNumBuckets);
  const SavedTable written = table_file::write_shards(
      basename, info, true, [&](table_file::ShardWriter& file, const TableFileInfo& own) -> std::uint64_t {
        table_file::write_header(file, own);
        std::vector<table_file::BucketEntry> index;
        std::uint64_t num_rows = 0;
        std::size_t opened = files.size();
        std::optional<ShardReader> from;  // opened anew: the system reads ahead for one reader of an open file
        const std::uint32_t last = table_file::first_bucket_of_shard(own.shard + 1, num_shards);
        for (std::uint32_t bucket = table_file::first_bucket_of_shard(own.shard, num_shards); bucket < last; ++bucket) {
          const std::size_t held = holder(files, bucket);
          if (held != opened) from.emplace(paths[opened = held]);
          index.push_back({file.offset(), from->num_rows(bucket)});
          num_rows += from->num_rows(bucket);
          read[bucket] = from->visit_blocks(bucket, bucket + 1,
                                            [&](const table_file::RowBlock& block) { file.write(block.bytes); });
        }
        table_file::write_end(file, index, num_rows);
        return num_rows;
      });
  return {{written.num_rows, checksums(files, read)}, written};
}

}  // namespace monolith
