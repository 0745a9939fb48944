// Table files to another number of shards.
#include <memory>

#include "io/shard_reader.h"
#include "io/shard_writer.h"
#include "io/table_file.h"

namespace monolith {

namespace {

using table_file::ShardReader;

// The file that holds a bucket; ranges of buckets are ascending by shard.
const ShardReader& holder(const std::vector<std::unique_ptr<ShardReader>>& files, std::uint32_t bucket) {
  for (const auto& file : files) {
    if (bucket >= file->header().first_bucket && bucket < file->header().last_bucket) return *file;
  }
  files.front()->corrupt(52, "no file of the table holds bucket " + std::to_string(bucket));
}

}  // namespace

SavedTable reshard_table(const std::vector<std::string>& paths, const std::string& basename, std::uint32_t num_shards) {
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
  return table_file::write_shards(
      basename, info, true, [&](table_file::ShardWriter& file, const TableFileInfo& own) -> std::uint64_t {
        table_file::write_header(file, own);
        std::vector<table_file::BucketEntry> index;
        std::uint64_t num_rows = 0;
        const std::uint32_t last = table_file::first_sub_table(own.shard + 1, num_shards);
        for (std::uint32_t bucket =
                 table_file::first_sub_table(own.shard, num_shards) * table_file::kBucketsPerSubTable;
             bucket < last * table_file::kBucketsPerSubTable; ++bucket) {
          const ShardReader& from = holder(files, bucket);
          index.push_back({file.offset(), from.num_rows(bucket)});
          num_rows += from.num_rows(bucket);
          from.visit_blocks(bucket, bucket + 1, [&](const table_file::RowBlock& block) { file.write(block.bytes); });
        }
        table_file::write_end(file, index, num_rows);
        return num_rows;
      });
}

}  // namespace monolith
