// Table files: the rows of one shard of a table. docs/formats.md specifies them byte by byte.
//
// Files are written under temporary names, synced, and renamed once all shards are written, so a file under its own
// name is complete. Rows are sorted by (hash, id), which is by hash, since no two ids share one: the same rows are the
// same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "table/hash_shard.h"
#include "table/row_table.h"

namespace monolith {

// A file that is not what it claims to be. Says which file, where and what.
class CorruptFile : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Rows that a table's memory limit has no room for.
class TableFull : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What a file says of itself.
struct TableFileInfo {
  std::string schema;  // JSON: the table's name and segments
  std::uint64_t plan_hash = 0;
  std::uint64_t generation = 0;
  std::uint64_t epoch = 0;
  std::uint32_t max_time = 0;
  std::int64_t max_step = 0;
  std::uint32_t shard = 0;
  std::uint32_t num_shards = 1;
  std::uint32_t weight_bytes = 0;  // of one row
  std::uint32_t state_bytes = 0;
  bool serving = false;
  std::uint64_t num_rows = 0;
};

// `<basename>-00003-of-00008`
std::string shard_file_name(const std::string& basename, std::uint32_t shard, std::uint32_t num_shards);

// What becomes of rows in files that are not finite: a weight or a number of the optimizer's state is NaN or infinite.
enum class NotFinite {
  kRefuse,  // NotFiniteRow is thrown
  kDrop,    // they are left out, and so are older rows of these ids
  kKeep,    // they are taken as they are, for tools that show them
};

// What was written, or read.
struct SavedTable {
  std::uint64_t num_rows = 0;
  std::vector<std::uint32_t> checksums;  // CRC-32C of each file, by shard
  std::uint64_t num_dropped = 0;         // rows that were not finite
};

// A table as it was when this was made, while it goes on being written to: rows are set aside before they change. One
// at a time per table. It ends with its save, with close, or with this object.
class FrozenTable {
 public:
  // With a consumer, takes its changes at the same moment.
  explicit FrozenTable(std::shared_ptr<RowTable> table, std::optional<std::size_t> consumer = std::nullopt);
  ~FrozenTable() { close(); }
  FrozenTable(const FrozenTable&) = delete;
  FrozenTable& operator=(const FrozenTable&) = delete;

  // There were more changes than are listed: only the whole table will do.
  bool overflowed() const;

  // Writes all shards, several at a time if `in_parallel`. `info` gives number of shards, schema, plan hash, generation
  // and epoch. Rows that had expired are left out if `drop_expired`. Throws std::system_error.
  SavedTable save(const std::string& basename, TableFileInfo info, bool drop_expired, bool in_parallel);

  // Writes the file of one shard, for a table that holds rows of this shard only; throws std::invalid_argument if it
  // has others. Rows that had expired are written too.
  SavedTable save_shard(const std::string& basename, TableFileInfo info, HashShard own);

  // The same as save_shard of changed rows alone; `erased` gets the ids among the changes that had no row.
  SavedTable save_changes(const std::string& basename, TableFileInfo info, HashShard own,
                          std::vector<std::int64_t>& erased);

  void close();

 private:
  // Reads every sub-table once.
  SavedTable write(const std::string& basename, TableFileInfo info, std::optional<std::uint32_t> only_shard,
                   bool in_parallel, const std::function<RowBatch(std::uint32_t)>& read);

  std::shared_ptr<RowTable> table_;
  std::vector<ConsumerChanges> changes_;  // by sub-table; empty without a consumer
  TableProgress progress_;
  bool open_ = false;
};

// Freezes a table and saves it at once. Returns the number of rows written.
std::uint64_t save_table(RowTable& table, const std::string& basename, std::uint32_t num_shards, TableFileInfo info,
                         bool drop_expired);

struct ReshardedTable {
  SavedTable read, written;
};

// Writes the rows of complete shards, in order, to another number of shards, bucket by bucket: no table is made. The
// same rows in the same number of shards are the same bytes. Throws CorruptFile, std::invalid_argument or
// std::system_error.
ReshardedTable reshard_table(const std::vector<std::string>& paths, const std::string& basename,
                             std::uint32_t num_shards);

// Reads what a file says of itself, and checks header, index and footer. Throws CorruptFile or std::system_error.
TableFileInfo read_table_file_info(const std::string& path);

// Checks that the rows of files are such as the table's, and that a table that refuses new ids at its memory limit has
// room for them, beside its own rows unless those will be `cleared`. Throws CorruptFile, std::invalid_argument,
// TableFull or std::system_error.
void check_table_fits(const RowTable& table, const std::vector<std::string>& paths, bool cleared = true);

// The same for the rows of a shard, whatever the number of files; checks every byte of the buckets that the shard
// touches, and with NotFinite::kRefuse every row of it. Checksums are right only if the shard is all.
SavedTable check_table_files(const RowTable& table, const std::vector<std::string>& paths, bool cleared = true,
                             NotFinite not_finite = NotFinite::kRefuse, HashShard shard = {});

// Adds the rows of a shard from files that fit to the table. Checks each block before it is used: if the files were not
// checked, some rows are there when CorruptFile or NotFiniteRow is thrown. Checksums are right only if the shard is
// all.
SavedTable load_table(RowTable& table, const std::vector<std::string>& paths, HashShard shard = {},
                      NotFinite not_finite = NotFinite::kRefuse);

}  // namespace monolith
