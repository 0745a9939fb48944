#include "table/batch_plan.h"

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "ops/parallel_for.h"
#include "table/id_hash.h"

namespace {

using namespace monolith;

std::vector<std::int64_t> random_ids(std::size_t count, std::int64_t range, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> ids(count);
  for (auto& id : ids) id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(range)) - range / 2;
  return ids;
}

// The groups in the order the header promises: by first occurrence; positions ascend.
std::vector<std::pair<std::int64_t, std::vector<std::uint32_t>>> plain_groups(const std::vector<std::int64_t>& ids,
                                                                              bool merge_repeated) {
  std::map<std::uint32_t, std::pair<std::int64_t, std::vector<std::uint32_t>>> groups;
  std::map<std::int64_t, std::uint32_t> first_position;
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    const std::uint32_t first = merge_repeated ? first_position.emplace(ids[i], i).first->second : i;
    auto& group = groups[first];
    group.first = ids[i];
    group.second.push_back(i);
  }
  std::vector<std::pair<std::int64_t, std::vector<std::uint32_t>>> in_order;
  for (auto& [key, group] : groups) in_order.push_back(std::move(group));
  return in_order;
}

void check_plan(const BatchPlan& plan, const std::vector<std::int64_t>& ids, bool merge_repeated) {
  const auto expected = plain_groups(ids, merge_repeated);
  CHECK_EQ(plan.num_ids(), ids.size());
  CHECK_EQ(plan.num_groups(), expected.size());
  CHECK_EQ(plan.hashes().size(), expected.size());
  CHECK(!plan.rows_are_known());
  if (plan.num_groups() != expected.size()) return;
  std::vector<std::int64_t> unique(expected.size());
  std::vector<std::int32_t> inverse(ids.size(), -1);
  std::vector<std::int32_t> counts(expected.size());
  plan.write_ids(unique);
  plan.write_inverse(inverse);
  plan.write_counts(counts);
  std::size_t wrong = 0;
  for (std::size_t g = 0; g < expected.size(); ++g) {
    const auto& [id, positions] = expected[g];
    wrong += unique[g] != id;
    wrong += plan.hashes()[g] != hash_id(id);
    wrong += counts[g] != static_cast<std::int32_t>(positions.size());
    wrong += plan.first_position(g) != positions.front();
    wrong += plan.last_position(g) != positions.back();
    const auto found = plan.positions(g);
    wrong += found.size() != positions.size();
    wrong += !std::equal(found.begin(), found.end(), positions.begin(), positions.end());
    for (const std::uint32_t position : positions) wrong += inverse[position] != static_cast<std::int32_t>(g);
  }
  CHECK_EQ(wrong, 0U);
}

void test_groups() {
  for (const bool merge_repeated : {true, false}) {
    for (const std::size_t count : {1UL, 2UL, 63UL, 1000UL, 20000UL, 100000UL}) {
      for (const std::int64_t range : {1LL, 2LL, 300LL, 1LL << 62}) {
        const auto ids = random_ids(count, range, count + static_cast<std::uint64_t>(range));
        check_plan(BatchPlan(ids, merge_repeated), ids, merge_repeated);
      }
    }
  }
}

void test_empty() {
  for (const bool merge_repeated : {true, false}) {
    BatchPlan plan({}, merge_repeated);
    check_plan(plan, {}, merge_repeated);
    CHECK(plan.found().empty());
  }
}

void test_one_id_many_times() {
  const std::vector<std::int64_t> ids(100000, -7);
  const BatchPlan plan(ids, true);
  CHECK_EQ(plan.num_groups(), 1U);
  check_plan(plan, ids, true);
  check_plan(BatchPlan(ids, false), ids, false);
}

// Ids of one sub-table only, as made-up ids may be.
void test_one_sub_table() {
  std::vector<std::int64_t> ids;
  for (std::uint64_t i = 0; i < 3000; ++i) ids.push_back(id_of_hash((std::uint64_t{200} << 56) | ((i % 1000) << 20)));
  check_plan(BatchPlan(ids, true), ids, true);
}

void test_memory_is_used_again() {
  BatchPlan plan;
  for (const std::size_t count : {5000UL, 3UL, 0UL, 700UL, 9000UL}) {
    for (const bool merge_repeated : {true, false}) {
      const auto ids = random_ids(count, 400, count);
      plan.build(ids, merge_repeated);
      check_plan(plan, ids, merge_repeated);
      CHECK_EQ(plan.found().size(), plan.num_groups());
      plan.set_rows_known(true);  // the next build must forget this
    }
  }
}

void test_pool() {
  BatchPlan* first;
  {
    const PooledPlan plan = acquire_plan();
    first = plan.get();
    plan->build(random_ids(100, 10, 1), true);
  }
  const PooledPlan again = acquire_plan();
  CHECK(again.get() == first);
  {
    std::vector<PooledPlan> many;
    std::set<BatchPlan*> distinct{again.get()};
    for (int i = 0; i < 40; ++i) many.push_back(acquire_plan());
    for (const PooledPlan& plan : many) CHECK(distinct.insert(plan.get()).second);
  }
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (std::uint64_t round = 0; round < 50; ++round) {
        const auto ids = random_ids(200, 50, 100 * t + round);
        const PooledPlan plan = acquire_plan();
        plan->build(ids, true);
        check_plan(*plan, ids, true);
      }
    });
  }
}

}  // namespace

int main() {
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    test_groups();
  }
  test_empty();
  test_one_id_many_times();
  test_one_sub_table();
  test_memory_is_used_again();
  test_pool();
  return monolith::test::finish();
}
