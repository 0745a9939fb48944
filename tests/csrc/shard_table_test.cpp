// Tables of one of many shards: rows spread over all sub-tables, with the memory, the files and the limits of any other
// table.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "io/table_file.h"
#include "table/row_table.h"

namespace {

using namespace monolith;
namespace fs = std::filesystem;

constexpr HashShard kShards[] = {{0, 1},      {0, 2},      {1, 2},       {2, 3},           {255, 256},      {0, 1000},
                                 {123, 1000}, {999, 1000}, {1000, 1024}, {40'000, 65'535}, {65'535, 65'536}};

TableOptions options(HashShard shard) {
  TableOptions options;
  options.name += "rows";
  options.shard = shard;
  SegmentConfig segment;
  segment.dim = 4;
  segment.optimizer.kind = "adagrad";
  options.segments = {segment};
  return options;
}

std::vector<std::int64_t> ids_of(HashShard shard, std::size_t count) {
  std::mt19937_64 random(shard.index);
  std::uniform_int_distribution<std::uint64_t> hashes(shard.first_hash(), shard.last_hash());
  std::vector<std::int64_t> ids{id_of_hash(shard.first_hash()), id_of_hash(shard.last_hash())};
  while (ids.size() < count) ids.push_back(id_of_hash(hashes(random)));
  return ids;
}

ChangeResult step(RowTable& table, const std::vector<std::int64_t>& ids, std::uint32_t time) {
  BatchPlan plan(ids, true, table.hash());
  const std::vector<float> gradients(ids.size() * table.dim(), -1.5F);
  const std::vector<float> rates{0.25F};
  ChangeRequest request;
  request.values = gradients.data();
  request.learning_rates = rates;
  request.time = time;
  return table.change(plan, request);
}

std::size_t count_of(const RowTable& table, const std::vector<std::int64_t>& ids) {
  const std::unique_ptr<bool[]> there(new bool[ids.size()]);
  table.contains(ids, there.get());
  return static_cast<std::size_t>(std::count(there.get(), there.get() + ids.size(), true));
}

void test_hashes_keep_ids_apart_and_in_order() {
  for (const HashShard shard : kShards) {
    const TableHash hash(shard);
    std::vector<std::int64_t> ids = ids_of(shard, 5000);
    std::ranges::sort(ids, {}, hash_id);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      wrong += !hash.has(ids[i]) || hash.id_of(hash.of(ids[i])) != ids[i];
      wrong += i > 0 && hash_id(ids[i - 1]) < hash_id(ids[i]) && hash.of(ids[i - 1]) >= hash.of(ids[i]);
      const std::uint32_t sub_table = sub_table_of_hash(hash.of(ids[i]));
      wrong += hash_id(ids[i]) < hash.first_of_sub_table(sub_table);
      wrong += hash_id(ids[i]) > hash.last_of_sub_table(sub_table);
    }
    CHECK_EQ(wrong, 0U);
    CHECK_EQ(hash.first_of_sub_table(0), shard.first_hash());
    CHECK_EQ(hash.last_of_sub_table(kNumSubTables - 1), shard.last_hash());
    const TableHash::SubTables own = hash.sub_tables_of(shard);
    CHECK(own.first == 0 && own.last == kNumSubTables);
  }
}

// Every other way to cut the ids: the sub-tables that are named have all ids of the range.
void test_sub_tables_of_a_range_have_its_ids() {
  for (const HashShard shard : kShards) {
    const TableHash hash(shard);
    const std::vector<std::int64_t> ids = ids_of(shard, 300);
    for (const HashShard range : kShards) {
      const TableHash::SubTables touched = hash.sub_tables_of(range);
      for (const std::int64_t id : ids) {
        if (shard_of_hash(hash_id(id), range.count) != range.index) continue;
        const std::uint32_t sub_table = sub_table_of_hash(hash.of(id));
        CHECK(touched.first <= sub_table && sub_table < touched.last);
      }
    }
  }
}

void test_rows_are_spread_as_in_a_whole_table() {
  constexpr std::size_t kRows = 60'000;
  RowTable whole(options({0, 1}));
  step(whole, ids_of({0, 1}, kRows), 1);
  const TableMemory wanted = whole.memory();
  for (const HashShard shard : kShards) {
    RowTable table(options(shard));
    const std::vector<std::int64_t> ids = ids_of(shard, kRows);
    step(table, ids, 1);
    CHECK_EQ(count_of(table, ids), kRows);
    std::size_t fullest = 0;
    for (std::uint32_t i = 0; i < kNumSubTables; ++i) fullest = std::max(fullest, table.read_rows(i).ids.size());
    CHECK(fullest < kRows / kNumSubTables * 3 / 2);
    const TableMemory memory = table.memory();
    CHECK(memory.index_bytes < wanted.index_bytes * 3 / 2 && memory.row_bytes < wanted.row_bytes * 11 / 10);
  }
}

void test_a_memory_limit_holds_as_many_rows_as_in_a_whole_table() {
  const auto rows_under_limit = [](HashShard shard) {
    TableOptions limited = options(shard);
    limited.max_memory_bytes = std::size_t{8} << 20;
    RowTable table(limited);
    step(table, ids_of(shard, 200'000), 1);
    return table.size();
  };
  const std::size_t wanted = rows_under_limit({0, 1});
  for (const HashShard shard : kShards) {
    const std::size_t rows = rows_under_limit(shard);
    CHECK(rows > wanted * 9 / 10 && rows < wanted * 11 / 10);
  }
}

void test_ids_of_other_shards_are_refused_and_have_no_rows() {
  RowTable table(options({123, 1000}));
  std::vector<std::int64_t> ids = ids_of({123, 1000}, 50);
  step(table, ids, 1);
  const char* const kRefusal = "belongs to shard 124 of 1000, and this table holds shard 123 of 1000";
  const std::vector<std::int64_t> strangers = ids_of({124, 1000}, 50);
  CHECK_EQ(count_of(table, strangers), 0U);
  CHECK_EQ(table.erase(strangers), 0U);
  for (const EntryDump& entry : table.lookup_entries(strangers)) CHECK(!entry.found);
  ids.push_back(strangers[7]);
  std::vector<float> rows(ids.size() * table.dim());
  CHECK_THROWS(table.lookup(ids, rows.data(), table.dim()), kRefusal);
  CHECK_THROWS(step(table, ids, 2), kRefusal);
  CHECK_THROWS(BatchPlan(ids, false, table.hash()), kRefusal);
  std::vector<std::int32_t> status(ids.size());
  CHECK_THROWS(table.reinitialize(ids, 2, status.data()), kRefusal);
  BatchPlan of_a_whole_table(ids, true);
  CHECK_THROWS(table.lookup(of_a_whole_table, rows.data(), table.dim()), "a plan of another shard");
  CHECK_EQ(table.size(), 50U);
  CHECK_EQ(table.max_time(), 1U);
  CHECK_THROWS(RowTable(options(HashShard{3, 3})), "there is no shard 3 of 3");
  CHECK_THROWS(RowTable(options(HashShard{0, 0})), "1 to 65536 shards, got 0");
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// One process wrote the shards of a whole table, or each shard's own process wrote its own.
void test_files_have_the_bytes_of_a_whole_table() {
  const fs::path folder = fs::temp_directory_path() / ("shard_table_test." + std::to_string(getpid()));
  fs::create_directories(folder);
  TableFileInfo info;
  info.schema = "{}";
  for (const HashShard shard : kShards) {
    if (shard.count > 1100) continue;  // as many files
    // More than a block per bucket, also of wide shards.
    const std::vector<std::int64_t> ids = ids_of(shard, shard.count < 256 ? 40'000 : 20'000);
    const std::vector<std::int64_t> some(ids.begin(), ids.begin() + 3000);
    auto table = std::make_shared<RowTable>(options(shard));
    RowTable whole(options({0, 1}));
    for (RowTable* one : {table.get(), &whole}) {
      step(*one, ids, 100);
      step(*one, some, 200);
    }
    const std::string own = (folder / "own").string();
    const std::string all = (folder / "all").string();
    FrozenTable frozen(table);
    CHECK_EQ(frozen.save_shard(own, info, shard).num_rows, ids.size());
    CHECK_EQ(save_table(whole, all, shard.count, info, false), ids.size());
    const std::string path = shard_file_name(own, shard.index, shard.count);
    CHECK(read_all(path) == read_all(shard_file_name(all, shard.index, shard.count)));

    std::vector<std::string> paths;
    for (std::uint32_t i = 0; i < shard.count; ++i) paths.push_back(shard_file_name(all, i, shard.count));
    RowTable again(options(shard));
    CHECK_EQ(check_table_files(again, paths, true, NotFinite::kRefuse, shard).num_rows, ids.size());
    CHECK_EQ(load_table(again, paths, shard).num_rows, ids.size());
    CHECK_EQ(count_of(again, ids), ids.size());
    CHECK_EQ(again.memory().payload_bytes, table->memory().payload_bytes);
    if (!shard.is_all()) {
      CHECK_THROWS(load_table(again, paths, {0, 1}), "cannot take rows of shard 0 of 1");
      CHECK_THROWS(check_table_files(again, paths, true, NotFinite::kRefuse, {0, 5}),
                   "cannot take rows of shard 0 of 5");
    }
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  fs::remove_all(folder);
}

void test_a_shard_without_room_is_known_before_it_is_read() {
  const fs::path folder = fs::temp_directory_path() / ("shard_table_test_full." + std::to_string(getpid()));
  fs::create_directories(folder);
  const HashShard shard{123, 1000};
  auto table = std::make_shared<RowTable>(options(shard));
  step(*table, ids_of(shard, 100'000), 1);
  TableFileInfo info;
  info.schema = "{}";
  FrozenTable(table).save_shard((folder / "rows").string(), info, shard);
  const std::vector<std::string> paths{shard_file_name((folder / "rows").string(), shard.index, shard.count)};
  TableOptions limited = options(shard);
  limited.max_memory_bytes = std::size_t{4} << 20;
  RowTable small(limited);
  CHECK_THROWS(check_table_fits(small, paths, true), "has no room for the rows of");
  CHECK_THROWS(check_table_files(small, paths, true, NotFinite::kRefuse, shard), "has no room for the rows of");
  limited.max_memory_bytes = std::size_t{16} << 20;
  RowTable large(limited);
  CHECK_EQ(check_table_files(large, paths, true, NotFinite::kRefuse, shard).num_rows, 100'000U);
  fs::remove_all(folder);
}

// Changes, tombstones and expiry go by ids, whatever the table's hashes are.
void test_changes_and_expiry_name_ids() {
  TableOptions expiring = options({7, 1000});
  expiring.default_expire_days = 1;
  RowTable table(expiring);
  const std::size_t consumer = table.add_consumer();
  std::vector<std::int64_t> ids = ids_of({7, 1000}, 3000);
  step(table, ids, 86'400);
  Changes changes = table.take_changes(consumer);
  std::ranges::sort(ids);
  std::ranges::sort(changes.touched);
  CHECK(changes.touched == ids && changes.erased.empty());
  const std::vector<std::int64_t> young(ids.begin(), ids.begin() + 1000);
  std::vector<std::int64_t> old(ids.begin() + 1000, ids.end());
  step(table, young, 3 * 86'400);
  CHECK_EQ(table.evict(3 * 86'400), old.size());
  changes = table.take_changes(consumer);
  std::ranges::sort(changes.erased);
  CHECK(changes.erased == old);
  table.give_back_changes(consumer, changes);
  changes = table.take_changes(consumer);
  std::ranges::sort(changes.touched);
  CHECK(changes.touched == young);
}

}  // namespace

int main() {
  test_hashes_keep_ids_apart_and_in_order();
  test_sub_tables_of_a_range_have_its_ids();
  test_rows_are_spread_as_in_a_whole_table();
  test_a_memory_limit_holds_as_many_rows_as_in_a_whole_table();
  test_ids_of_other_shards_are_refused_and_have_no_rows();
  test_files_have_the_bytes_of_a_whole_table();
  test_a_shard_without_room_is_known_before_it_is_read();
  test_changes_and_expiry_name_ids();
  return monolith::test::finish();
}
