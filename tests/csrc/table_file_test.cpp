#include "io/table_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <system_error>
#include <vector>

#include "check.h"
#include "io/crc32c.h"

namespace {

using namespace monolith;
namespace fs = std::filesystem;

class TempFolder {
 public:
  TempFolder() : path_(fs::temp_directory_path() / ("table_file_test." + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~TempFolder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::size_t num_files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

TableOptions options(std::uint32_t dim) {
  TableOptions options;
  options.name += "rows";
  SegmentConfig segment;
  segment.dim = dim;
  segment.optimizer.kind = "adagrad";
  options.segments = {segment};
  options.default_expire_days = 1;
  return options;
}

std::vector<std::int64_t> first_ids(std::size_t count, std::int64_t first = 1) {
  std::vector<std::int64_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

void step(RowTable& table, const std::vector<std::int64_t>& ids, std::uint32_t time) {
  BatchPlan plan(ids, true);
  const std::vector<float> gradients(ids.size() * table.dim(), -1.5F);
  const std::vector<float> rates{0.25F};
  ChangeRequest request;
  request.values = gradients.data();
  request.learning_rates = rates;
  request.time = time;
  table.change(plan, request);
}

bool same_rows(const RowTable& a, const RowTable& b) {
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    const RowBatch x = a.read_rows(i);
    const RowBatch y = b.read_rows(i);
    if (x.ids != y.ids || x.last_seen != y.last_seen || x.rows != y.rows) return false;
  }
  return true;
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_all(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::vector<std::string> paths_of(const std::string& basename, std::uint32_t num_shards) {
  std::vector<std::string> paths;
  for (std::uint32_t i = 0; i < num_shards; ++i) paths.push_back(shard_file_name(basename, i, num_shards));
  return paths;
}

TableFileInfo some_info() {
  TableFileInfo info;
  info.schema = R"({"name":"rows"})";
  info.plan_hash = 11;
  info.generation = 12;
  info.epoch = 13;
  return info;
}

void test_joined_checksums() {
  std::string bytes(70'000, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  const auto data = std::as_bytes(std::span(bytes));
  for (const std::size_t first : {std::size_t{0}, std::size_t{1}, std::size_t{9}, std::size_t{4097}, bytes.size()}) {
    const std::uint32_t joined =
        join_crc32c(crc32c(data.first(first)), crc32c(data.subspan(first)), bytes.size() - first);
    CHECK_EQ(joined, crc32c(data));
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{300}, bytes.size()}) {
    const std::uint32_t crc = crc32c(data.first(size));
    CHECK_EQ(crc32c(std::as_bytes(std::span(&crc, 1)), crc), kCrcOfSealed);
  }
}

void test_round_trip(const TempFolder& folder) {
  RowTable table(options(3));
  step(table, first_ids(9000), 100);
  step(table, first_ids(3000), 200);
  for (const std::uint32_t num_shards : {1U, 3U, 16U, 300U}) {
    const std::string basename = folder / ("round" + std::to_string(num_shards));
    CHECK_EQ(save_table(table, basename, num_shards, some_info(), false), 9000U);
    const auto paths = paths_of(basename, num_shards);
    RowTable loaded(options(3));
    const SavedTable checked = check_table_files(loaded, paths);
    const SavedTable read = load_table(loaded, paths);
    CHECK(checked.num_rows == 9000 && read.num_rows == 9000);
    for (std::uint32_t i = 0; i < num_shards; ++i) {
      const std::string bytes = read_all(paths[i]);
      CHECK_EQ(checked.checksums[i], crc32c(std::as_bytes(std::span(bytes))));
      CHECK_EQ(read.checksums[i], checked.checksums[i]);
    }
    CHECK(same_rows(table, loaded));
    CHECK_EQ(loaded.max_time(), 200U);
    std::uint64_t num_rows = 0;
    for (std::uint32_t i = 0; i < num_shards; ++i) {
      const TableFileInfo info = read_table_file_info(paths[i]);
      CHECK_EQ(info.schema, some_info().schema);
      CHECK(info.plan_hash == 11 && info.generation == 12 && info.epoch == 13);
      CHECK(info.shard == i && info.num_shards == num_shards && info.max_time == 200);
      CHECK(info.weight_bytes == 12 && info.state_bytes == 12 && !info.serving);
      num_rows += info.num_rows;
    }
    CHECK_EQ(num_rows, 9000U);
    // The same rows are the same bytes, whatever the order in which they came into being.
    const std::string again = folder / "again";
    save_table(loaded, again, num_shards, some_info(), false);
    CHECK(read_all(paths.back()) == read_all(paths_of(again, num_shards).back()));
  }
  CHECK_THROWS(save_table(table, folder / "none", 0, some_info(), false), "1 to 65536 shards, got 0");
  CHECK_THROWS(save_table(table, folder / "many", 65537, some_info(), false), "1 to 65536 shards, got 65537");
}

// A shard of any number of shards is read from files of any other number.
void test_a_shard_of_other_shards(const TempFolder& folder) {
  RowTable table(options(2));
  step(table, first_ids(5000, -2500), 1);
  for (const std::uint32_t num_files : {1U, 4U, 300U}) {
    save_table(table, folder / "shards", num_files, some_info(), false);
    for (const HashShard shard : {HashShard{1, 3}, HashShard{0, 1000}, HashShard{999, 1000}, HashShard{9999, 65536}}) {
      RowTable part(options(2));
      const std::uint64_t checked =
          check_table_files(part, paths_of(folder / "shards", num_files), true, NotFinite::kRefuse, shard).num_rows;
      const std::uint64_t loaded = load_table(part, paths_of(folder / "shards", num_files), shard).num_rows;
      std::size_t expected = 0;
      for (const std::int64_t id : first_ids(5000, -2500)) {
        expected += hash_id(id) >= shard.first_hash() && hash_id(id) <= shard.last_hash();
      }
      CHECK(checked == expected && loaded == expected && part.size() == expected);
    }
    RowTable none(options(2));
    CHECK_THROWS(load_table(none, paths_of(folder / "shards", num_files), {3, 3}), "there is no shard 3 of 3");
  }
}

// From one number of shards to another, the same rows are the same bytes as if the table had been saved so.
void test_resharding(const TempFolder& folder) {
  RowTable table(options(2));
  step(table, first_ids(20'000, -2500), 1);
  std::uint32_t before = 3;
  save_table(table, folder / "from3", before, some_info(), false);
  for (const std::uint32_t num_shards : {7U, 1100U, 4U, 1U}) {
    const auto from = paths_of(folder / ("from" + std::to_string(before)), before);
    const std::string name = "from" + std::to_string(num_shards);
    const ReshardedTable done = reshard_table(from, folder / name, num_shards);
    CHECK(done.read.num_rows == 20'000 && done.written.num_rows == 20'000);
    save_table(table, folder / "direct", num_shards, some_info(), false);
    std::size_t num_different = 0;
    for (std::uint32_t i = 0; i < num_shards; ++i) {
      const std::string bytes = read_all(shard_file_name(folder / name, i, num_shards));
      num_different += bytes != read_all(shard_file_name(folder / "direct", i, num_shards));
      num_different += done.written.checksums[i] != crc32c(std::as_bytes(std::span(bytes)));
    }
    for (std::uint32_t i = 0; i < before; ++i) {
      const std::string bytes = read_all(from[i]);
      num_different += done.read.checksums[i] != crc32c(std::as_bytes(std::span(bytes)));
    }
    CHECK_EQ(num_different, 0U);
    before = num_shards;
  }
  CHECK_THROWS(reshard_table(paths_of(folder / "from7", 7), folder / "none", 65537), "got 65537");
  CHECK_THROWS(reshard_table({shard_file_name(folder / "from7", 0, 7)}, folder / "none", 2), "it is not shard 0 of 1");
}

void test_every_hash_belongs_to_one_shard() {
  constexpr std::uint64_t kLargest = ~std::uint64_t{0};
  for (const std::uint32_t count : {1U, 2U, 3U, 7U, 200U, 256U, 1000U, 65535U, 65536U}) {
    std::uint64_t next = 0;
    std::uint64_t smallest = kLargest;
    std::uint64_t largest = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const HashShard shard{i, count};
      CHECK(shard.first_hash() == next && shard.last_hash() >= next);
      CHECK(shard_of_hash(shard.first_hash(), count) == i && shard_of_hash(shard.last_hash(), count) == i);
      smallest = std::min(smallest, shard.last_hash() - shard.first_hash());
      largest = std::max(largest, shard.last_hash() - shard.first_hash());
      next = shard.last_hash() + 1;
    }
    CHECK_EQ(next, 0U);
    CHECK(largest - smallest <= 1);
  }
}

// A shard's own table writes one file, which is that of the whole table; rows of others are refused.
void test_one_shard_alone(const TempFolder& folder) {
  RowTable table(options(2));
  step(table, first_ids(3000), 5);
  save_table(table, folder / "whole", 200, some_info(), false);
  const auto own = std::make_shared<RowTable>(options(2));
  const HashShard shard{77, 200};
  load_table(*own, paths_of(folder / "whole", 200), shard);
  const SavedTable saved = FrozenTable(own).save_shard(folder / "alone", some_info(), shard);
  CHECK_EQ(saved.num_rows, own->size());
  CHECK(read_all(shard_file_name(folder / "alone", 77, 200)) == read_all(shard_file_name(folder / "whole", 77, 200)));
  CHECK_EQ(saved.checksums.size(), 1U);
  step(*own, {1}, 6);
  CHECK_THROWS(FrozenTable(own).save_shard(folder / "mixed", some_info(), shard),
               "shard 77 of 200 holds rows of shard");
  CHECK(!fs::exists(shard_file_name(folder / "mixed", 77, 200)));
}

void test_expired_rows_are_left_out(const TempFolder& folder) {
  RowTable table(options(2));
  step(table, first_ids(100), 1000);
  step(table, first_ids(50, 1001), 1000 + 86400);
  CHECK_EQ(save_table(table, folder / "expired", 2, some_info(), true), 50U);
  RowTable loaded(options(2));
  CHECK_EQ(load_table(loaded, paths_of(folder / "expired", 2)).num_rows, 50U);
  bool there = false;
  const std::int64_t young = 1001;
  loaded.contains(std::span(&young, 1), &there);
  CHECK(there);
  CHECK_EQ(table.size(), 150U);  // saving does not evict
}

// Every flipped bit and every cut is found, and nothing crashes.
void test_damage_is_found(const TempFolder& folder) {
  RowTable table(options(2));
  step(table, first_ids(40), 1);
  save_table(table, folder / "good", 1, some_info(), false);
  const std::string good = read_all(shard_file_name(folder / "good", 0, 1));
  const std::string path = folder / "bad";
  RowTable target(options(2));
  const auto is_found = [&](const std::string& bytes) {
    write_all(path, bytes);
    try {
      check_table_files(target, {path});
      return false;
    } catch (const CorruptFile&) {
      return true;
    } catch (const std::invalid_argument&) {
      return true;
    }
  };
  CHECK(!is_found(good));
  const std::size_t index_begin = good.size() - 32 - 1024 * 16;
  std::size_t missed = 0;
  for (std::size_t i = 0; i < good.size(); i += i < index_begin || i + 64 > good.size() ? 1 : 37) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    missed += !is_found(bad);
  }
  CHECK_EQ(missed, 0U);
  for (std::size_t size = 0; size < good.size(); size += size < 200 ? 1 : 101)
    missed += !is_found(good.substr(0, size));
  CHECK_EQ(missed, 0U);
  CHECK(is_found(good + "x"));
  CHECK_EQ(target.size(), 0U);
  CHECK_THROWS(read_table_file_info(folder / "no such file"), "cannot open");
  CHECK_THROWS(save_table(table, folder / "no such folder/x", 2, some_info(), false), "cannot create");
  step(table, {41}, 2);  // the failed save has ended its snapshot
  save_table(table, folder / "good", 1, some_info(), false);
}

template <typename T>
void put(std::string& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// A file made on purpose, with right checksums and senseless offsets, must not lead outside the file.
void test_hostile_offsets(const TempFolder& folder) {
  RowTable table(options(2));
  step(table, first_ids(40), 1);
  save_table(table, folder / "hostile", 1, some_info(), false);
  const std::string path = shard_file_name(folder / "hostile", 0, 1);
  const std::string good = read_all(path);
  const std::size_t footer = good.size() - 32;
  const std::size_t index = footer - 1024 * 16;
  const std::size_t bucket = bucket_of_id(1);
  constexpr std::uint64_t kLargest = ~std::uint64_t{0};
  for (const std::uint64_t offset :
       std::vector<std::uint64_t>{kLargest, kLargest - 3, kLargest - 7, kLargest - 8, index, index - 4, good.size(),
                                  kLargest / 2, kLargest / 4}) {
    std::string bad = good;
    put(bad, index + bucket * 16, offset);
    put(bad, footer + 16, crc32c(std::as_bytes(std::span(bad)).subspan(index, 1024 * 16)));
    put(bad, footer + 20, crc32c(std::as_bytes(std::span(bad)).subspan(footer, 20)));
    write_all(path, bad);
    read_table_file_info(path);  // header, index and footer are in order
    RowTable target(options(2));
    CHECK_THROWS(check_table_files(target, {path}), "damaged at byte");
    CHECK_THROWS(load_table(target, {path}), "damaged at byte");
  }
}

void test_rows_of_another_size(const TempFolder& folder) {
  RowTable table(options(2));
  step(table, first_ids(40), 1);
  save_table(table, folder / "narrow", 1, some_info(), false);
  RowTable wider(options(64));
  CHECK_THROWS(check_table_files(wider, paths_of(folder / "narrow", 1)), "restore it with the configuration");
  CHECK_THROWS(load_table(wider, paths_of(folder / "narrow", 1)), "restore it with the configuration");
  CHECK_EQ(wider.size(), 0U);
}

}  // namespace

int main() {
  const TempFolder folder;
  test_joined_checksums();
  test_round_trip(folder);
  test_a_shard_of_other_shards(folder);
  test_every_hash_belongs_to_one_shard();
  test_resharding(folder);
  test_one_shard_alone(folder);
  test_expired_rows_are_left_out(folder);
  test_damage_is_found(folder);
  test_hostile_offsets(folder);
  test_rows_of_another_size(folder);
  for (const auto& entry : fs::directory_iterator(fs::path(folder / "x").parent_path())) {
    CHECK(entry.path().extension() != ".tmp");  // nothing half-written is left behind
  }
  CHECK(folder.num_files() > 0);
  return monolith::test::finish();
}
