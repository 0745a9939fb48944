#include "table/row_table.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "ops/parallel_for.h"
#include "table/hash_shard.h"

namespace {

using namespace monolith;

constexpr std::uint32_t kDay = 86400;

TableOptions options(std::uint32_t dim, const char* optimizer = "sgd") {
  TableOptions options;
  options.name += "rows";
  SegmentConfig segment;
  segment.dim = dim;
  segment.optimizer.kind = optimizer;
  options.segments = {segment};
  return options;
}

std::vector<std::int64_t> first_ids(std::size_t count, std::int64_t first = 1) {
  std::vector<std::int64_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

ChangeResult change(RowTable& table, BatchPlan& plan, ChangeRequest::Kind kind, const std::vector<float>& values,
                    std::uint32_t time) {
  const std::vector<float> rates(table.layout().num_segments(), 1.0F);
  ChangeRequest request;
  request.kind = kind;
  request.values = values.data();
  request.learning_rates = rates;
  request.time = time;
  return table.change(plan, request);
}

ChangeResult assign(RowTable& table, const std::vector<std::int64_t>& ids, float value, std::uint32_t time) {
  BatchPlan plan(ids, true);
  return change(table, plan, ChangeRequest::Kind::kAssign, std::vector<float>(ids.size() * table.dim(), value), time);
}

// SGD at rate 1 with a gradient of -1 adds one to every weight.
ChangeResult add_one(RowTable& table, BatchPlan& plan, std::uint32_t time) {
  return change(table, plan, ChangeRequest::Kind::kStep, std::vector<float>(plan.num_ids() * table.dim(), -1), time);
}

std::vector<float> lookup(const RowTable& table, const std::vector<std::int64_t>& ids) {
  BatchPlan plan(ids, true);
  std::vector<float> out(ids.size() * table.dim(), -99);
  table.lookup(plan, out.data(), table.dim());
  return out;
}

bool has(const RowTable& table, std::int64_t id) {
  bool out = false;
  table.contains(std::span(&id, 1), &out);
  return out;
}

std::size_t visited_rows(const RowTable& table) {
  std::size_t rows = 0;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) rows += table.read_rows(i).ids.size();
  return rows;
}

// A block of ids is searched for at once, before any of it is inserted.
void test_new_ids_that_repeat_get_one_row() {
  RowTable table(options(1));
  const std::vector<std::int64_t> ids{7, 7, 8, 7};
  BatchPlan plan(ids, false);
  CHECK_EQ(change(table, plan, ChangeRequest::Kind::kAssign, {1, 2, 3, 4}, 0).inserted, 2U);
  CHECK_EQ(table.size(), 2U);
  CHECK(lookup(table, {7, 8}) == (std::vector<float>{4, 3}));
}

void test_lookup_and_change() {
  RowTable table(options(3));
  const std::vector<std::int64_t> ids{7, -8, 7, 9, 7};
  BatchPlan plan(ids, true);
  std::vector<float> out(15, -99);
  CHECK_EQ(table.lookup(plan, out.data(), 3), 0U);
  CHECK(out == std::vector<float>(15, 0));  // unknown ids read as zeros and get no row
  CHECK_EQ(table.size(), 0U);

  const ChangeResult result = add_one(table, plan, 100);  // one step with the sum of an id's gradients
  CHECK_EQ(result.inserted, 3U);
  CHECK_EQ(table.size(), 3U);
  CHECK_EQ(table.max_time(), 100U);
  CHECK(lookup(table, {7, -8, 9, 10}) == (std::vector<float>{3, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0}));

  std::vector<float> values(15);
  std::iota(values.begin(), values.end(), 0.0F);
  change(table, plan, ChangeRequest::Kind::kAssign, values, 101);  // the last occurrence wins
  CHECK(lookup(table, {7, -8, 9}) == (std::vector<float>{12, 13, 14, 3, 4, 5, 9, 10, 11}));
  change(table, plan, ChangeRequest::Kind::kAdd, std::vector<float>(15, 1), 102);  // each occurrence adds
  CHECK(lookup(table, {7, -8}) == (std::vector<float>{15, 16, 17, 4, 5, 6}));

  // A wider stride leaves what lies between the rows alone.
  std::vector<float> wide(25, -99);
  CHECK_EQ(table.lookup(plan, wide.data(), 5), 5U);
  for (std::size_t i = 0; i < 5; ++i) CHECK(wide[i * 5 + 3] == -99 && wide[i * 5 + 4] == -99);
  CHECK_EQ(wide[5], 4.0F);
}

void test_entries_and_reinitialize() {
  RowTable table(options(2, "adagrad"));
  assign(table, {5}, 3, 50);
  const std::vector<std::int64_t> ids{5, 6};
  auto entries = table.lookup_entries(ids);
  CHECK(entries[0].found && !entries[1].found);
  CHECK_EQ(entries[0].last_seen, 50U);
  CHECK(entries[0].weights == (std::vector<float>{3, 3}));
  CHECK_EQ(entries[0].state.size(), 2U);
  std::vector<std::int32_t> status(2);
  table.reinitialize(ids, 60, status.data());
  CHECK(status == (std::vector<std::int32_t>{1, 0}));
  entries = table.lookup_entries(ids);
  CHECK(entries[0].found && entries[1].found);
  CHECK(entries[0].weights == (std::vector<float>{0, 0}));
  CHECK_EQ(entries[0].last_seen, 60U);
}

void test_erase_and_evict() {
  TableOptions with_expiry = options(1);
  with_expiry.default_expire_days = 10;
  with_expiry.slot_expire_days = {{3, 2}};
  RowTable table(with_expiry);
  const std::int64_t in_slot_3 = (std::int64_t{3} << 48) | 1;
  assign(table, first_ids(5000), 1, 0);
  assign(table, first_ids(5000, 10001), 1, kDay);
  assign(table, {in_slot_3}, 1, kDay);
  CHECK_EQ(table.erase(std::vector<std::int64_t>{1, 1, 99999999}), 1U);
  CHECK_EQ(table.evict(3 * kDay - 1), 0U);
  CHECK_EQ(table.evict(3 * kDay), 1U);
  CHECK(!has(table, in_slot_3));
  CHECK_EQ(table.evict(10 * kDay), 4999U);
  CHECK_EQ(table.size(), 5000U);
  CHECK_EQ(visited_rows(table), 5000U);
  CHECK(!has(table, 2) && has(table, 10001));
  table.clear();
  CHECK_EQ(table.size(), 0U);
  CHECK_EQ(table.max_time(), 0U);
  assign(table, first_ids(100), 2, 5);
  CHECK(lookup(table, {1, 100}) == (std::vector<float>{2, 2}));
}

// A plan remembers rows between lookup and step; a row that was erased in between is made anew, not forgotten.
void test_rows_erased_between_lookup_and_step_come_back() {
  RowTable table(options(2));
  assign(table, {1, 2, 3}, 5, 10);
  const std::vector<std::int64_t> ids{1, 2, 3};
  BatchPlan plan(ids, true);
  std::vector<float> out(6);
  CHECK_EQ(table.lookup(plan, out.data(), 2), 3U);
  table.erase(std::vector<std::int64_t>{2});
  assign(table, {4, 5, 6, 7, 8}, 9, 10);  // may take the freed row
  const ChangeResult result = add_one(table, plan, 11);
  CHECK_EQ(result.inserted, 1U);
  CHECK(lookup(table, {1, 2, 3, 4}) == (std::vector<float>{6, 6, 1, 1, 6, 6, 9, 9}));
}

void test_memory_limit() {
  for (const MemoryPolicy policy : {MemoryPolicy::kRefuseNewIds, MemoryPolicy::kEvictOldest}) {
    TableOptions limited = options(4);
    limited.max_memory_bytes = std::size_t{2} << 20;
    limited.memory_policy = policy;
    RowTable table(limited);
    const auto old_ids = first_ids(100000);
    const ChangeResult first = assign(table, old_ids, 1, 10);
    const TableMemory memory = table.memory();
    CHECK(memory.index_bytes + memory.row_bytes <= limited.max_memory_bytes + kNumSubTables * (sizeof(SubTable) + 64));
    CHECK_EQ(visited_rows(table), table.size());
    const std::size_t full = table.size();
    const auto new_ids = first_ids(full / 2, 1000001);
    const ChangeResult second = assign(table, new_ids, 2, 20);
    std::unique_ptr<bool[]> there(new bool[new_ids.size()]);
    table.contains(new_ids, there.get());
    const auto num_there = static_cast<std::size_t>(std::count(there.get(), there.get() + new_ids.size(), true));
    if (policy == MemoryPolicy::kRefuseNewIds) {
      CHECK_EQ(first.inserted + first.refused, old_ids.size());
      CHECK_EQ(first.inserted, full);
      CHECK_EQ(second.inserted, num_there);
      CHECK_EQ(second.inserted + second.refused, new_ids.size());
    } else {
      // Old rows make room; rows of this batch, just made or found, are not among the oldest.
      CHECK_EQ(num_there, new_ids.size());
      CHECK(lookup(table, new_ids) == std::vector<float>(new_ids.size() * 4, 2));
    }
  }
}

// Rows of a batch that its own new ids push out, being the oldest, come back with their change.
void test_a_batch_keeps_its_own_rows() {
  TableOptions limited = options(4);
  limited.max_memory_bytes = std::size_t{2} << 20;
  limited.memory_policy = MemoryPolicy::kEvictOldest;
  RowTable table(limited);
  const auto oldest = first_ids(500);
  assign(table, oldest, 1, 1);
  assign(table, first_ids(38000, 100000), 1, 2);  // fills nearly every sub-table
  std::vector<std::int64_t> ids;
  std::ranges::copy_if(oldest, std::back_inserter(ids), [&](std::int64_t id) { return has(table, id); });
  CHECK(ids.size() > 300);
  const std::size_t num_old = ids.size();
  const auto fresh = first_ids(20000, 500000);
  ids.insert(ids.end(), fresh.begin(), fresh.end());
  BatchPlan plan(ids, true);
  const ChangeResult result = add_one(table, plan, 3);
  CHECK(result.inserted > fresh.size());  // some were pushed out and came back
  CHECK(table.size() < num_old + 38000 + fresh.size());
  std::unique_ptr<bool[]> there(new bool[ids.size()]);
  table.contains(ids, there.get());
  CHECK_EQ(std::count(there.get(), there.get() + ids.size(), true), static_cast<std::ptrdiff_t>(ids.size()));
}

void test_zero_rows_are_skipped_in_serving() {
  TableOptions serving = options(2);
  serving.serving = true;
  serving.skip_zero_embedding = true;
  RowTable table(serving);
  assign(table, {1, 2}, 4, 1);
  assign(table, {1}, 0, 2);
  CHECK(!has(table, 1) && has(table, 2));
  // Without merging, the occurrences of an id are assigned one after the other: the last one counts.
  const std::vector<std::int64_t> twice{2, 2};
  BatchPlan plan(twice, false);
  change(table, plan, ChangeRequest::Kind::kAssign, {0, 0, 7, 7}, 3);
  CHECK(lookup(table, {2}) == (std::vector<float>{7, 7}));
  BatchPlan again(twice, false);
  change(table, again, ChangeRequest::Kind::kAssign, {7, 7, 0, 0}, 3);
  CHECK(!has(table, 2));
}

void test_snapshot_is_one_moment() {
  RowTable table(options(2));
  const auto ids = first_ids(3000);
  assign(table, ids, 1, 10);
  table.begin_snapshot();
  CHECK_THROWS(table.begin_snapshot(), "being taken already");
  CHECK_THROWS(table.clear(), "during a snapshot");
  std::set<std::int64_t> found;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    if (i == kNumSubTables / 2) {  // half the sub-tables are read; now everything changes
      assign(table, first_ids(1500), 2, 20);
      table.erase(first_ids(500, 1501));
      assign(table, first_ids(2000, 5001), 3, 20);  // takes freed rows
      assign(table, first_ids(100, 1501), 4, 20);   // erased ids that come back
    }
    const RowBatch batch = table.read_snapshot(i);
    for (std::size_t row = 0; row < batch.ids.size(); ++row) {
      CHECK(found.insert(batch.ids[row]).second);
      float weights[2];
      std::memcpy(weights, batch.rows.data() + row * 8, 8);
      CHECK(weights[0] == 1 && weights[1] == 1);
      CHECK_EQ(batch.last_seen[row], 10U);
      CHECK_EQ(sub_table_of_hash(hash_id(batch.ids[row])), i);
    }
    CHECK(std::ranges::is_sorted(batch.ids, {}, by_hash));
  }
  CHECK_THROWS(table.read_snapshot(0), "read already");
  table.end_snapshot();
  CHECK(found == std::set<std::int64_t>(ids.begin(), ids.end()));
  CHECK_EQ(table.size(), 3000U - 500 + 2000 + 100);
}

void test_changes_reach_every_consumer() {
  RowTable table(options(1));
  const std::size_t a = table.add_consumer();
  assign(table, {1, 2, 3}, 1, 1);
  const std::size_t b = table.add_consumer();
  table.erase(std::vector<std::int64_t>{2});
  assign(table, {3, 4}, 1, 1);
  const auto sorted = [](std::vector<std::int64_t> ids) {
    std::ranges::sort(ids);
    return ids;
  };
  Changes of_a = table.take_changes(a);
  CHECK(sorted(of_a.touched) == (std::vector<std::int64_t>{1, 3, 4}));
  CHECK(of_a.erased == (std::vector<std::int64_t>{2}));
  const Changes of_b = table.take_changes(b);
  CHECK(sorted(of_b.touched) == (std::vector<std::int64_t>{3, 4}));
  CHECK(of_b.erased == (std::vector<std::int64_t>{2}));
  CHECK(table.take_changes(a).touched.empty());
  table.erase(std::vector<std::int64_t>{1});
  assign(table, {2}, 1, 1);
  table.give_back_changes(a, of_a);  // what was not delivered, as it stands now
  of_a = table.take_changes(a);
  CHECK(sorted(of_a.touched) == (std::vector<std::int64_t>{2, 3, 4}));
  CHECK(of_a.erased == (std::vector<std::int64_t>{1}));
  table.clear();
  CHECK(table.take_changes(a).overflowed);
  assign(table, {8}, 1, 1);
  CHECK(table.take_changes(a).touched == (std::vector<std::int64_t>{8}));
  table.remove_consumer(a);
  CHECK_THROWS(table.take_changes(a), "has no consumer");
}

// Ids made to collide are refused, and the whole batch with them.
void test_made_up_collisions_leave_the_table_as_it_was() {
  RowTable table(options(2));
  assign(table, first_ids(50), 1, 1);
  std::vector<std::int64_t> ids = first_ids(100);
  for (std::uint64_t i = 0; i < 500; ++i) ids.push_back(id_of_hash((0xABCDEFULL << 40) | i));
  BatchPlan plan(ids, true);
  CHECK_THROWS(add_one(table, plan, 2), "refuse their source");
  CHECK_EQ(table.size(), 50U);
  CHECK_EQ(visited_rows(table), 50U);
  CHECK(lookup(table, first_ids(50)) == std::vector<float>(100, 1));
  CHECK(!has(table, 51));
  assign(table, first_ids(100), 3, 3);
  CHECK(lookup(table, first_ids(100)) == std::vector<float>(200, 3));
}

// In a process of its own, with little memory left: the batch fails as a whole and the table goes on.
int run_out_of_memory() {
  set_num_threads(1);
  RowTable table(options(512));
  const auto before = first_ids(2000);
  assign(table, before, 1, 1);
  const std::vector<float> gradients(std::size_t{100000} * 512, -1);
  const auto more = first_ids(100000);
  BatchPlan plan(more, true);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const std::size_t limit = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + (std::size_t{48} << 20);
  const rlimit bound{limit, limit};
  if (setrlimit(RLIMIT_AS, &bound) != 0) return 2;
  bool out_of_memory = false;
  try {
    change(table, plan, ChangeRequest::Kind::kStep, gradients, 2);
  } catch (const std::bad_alloc&) {
    out_of_memory = true;
  }
  CHECK(out_of_memory);
  CHECK_EQ(table.size(), 2000U);
  CHECK_EQ(visited_rows(table), 2000U);
  CHECK(lookup(table, {1, 2000, 2001}).back() == 0);
  BatchPlan small(before, true);
  add_one(table, small, 3);
  const auto rows = lookup(table, before);
  CHECK(std::ranges::all_of(rows, [](float weight) { return weight == 2; }));
  return monolith::test::finish();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

void test_running_out_of_memory() {
  if (kSanitized) {
    std::cout << "skipped: running out of memory (a sanitizer reserves more address space than any limit allows)\n";
    return;
  }
  const pid_t child = fork();
  if (child == 0) _exit(run_out_of_memory());
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main() {
  test_running_out_of_memory();  // first: a process that runs OpenMP threads cannot be forked well
  test_lookup_and_change();
  test_new_ids_that_repeat_get_one_row();
  test_entries_and_reinitialize();
  test_erase_and_evict();
  test_rows_erased_between_lookup_and_step_come_back();
  test_memory_limit();
  test_a_batch_keeps_its_own_rows();
  test_zero_rows_are_skipped_in_serving();
  test_snapshot_is_one_moment();
  test_changes_reach_every_consumer();
  test_made_up_collisions_leave_the_table_as_it_was();
  return monolith::test::finish();
}
