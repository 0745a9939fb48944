#include "filter/touched_key_set.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "check.h"

namespace {

using monolith::TouchedKeySet;
using Ids = std::vector<std::int64_t>;

Ids range(std::int64_t begin, std::int64_t end) {
  Ids ids(static_cast<std::size_t>(end - begin));
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

Ids sorted(Ids ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

void test_insert_and_steal() {
  TouchedKeySet set(1000, 1);
  CHECK_EQ(set.insert(range(0, 1000)), 0);
  CHECK_EQ(set.size(), 1000);
  CHECK(sorted(set.steal()) == range(0, 1000));
  CHECK_EQ(set.size(), 0);
  CHECK(set.steal().empty());
}

void test_overflow_clears_everything() {
  TouchedKeySet set(1000, 1);
  CHECK_EQ(set.insert(range(0, 1005)), 1001);
  CHECK(sorted(set.steal()) == range(1001, 1005));
}

void test_duplicates() {
  TouchedKeySet set(3, 4);
  const Ids ids = {7, 7, 8, 7, 8, 9, 9, 9};
  CHECK_EQ(set.insert(ids), 0);
  CHECK_EQ(set.size(), 3);
  CHECK_EQ(set.insert(10), 0);  // size 4 is over the capacity, but the check comes before the insert
  CHECK_EQ(set.insert(10), 4);  // even a duplicate finds the set too large
  CHECK(set.steal() == Ids{10});
}

void test_every_value_is_an_id() {
  TouchedKeySet set(100, 2);
  const std::int64_t low = std::numeric_limits<std::int64_t>::min();
  const Ids ids = {low, low + 1, low + 2, -1, 0, 1, std::numeric_limits<std::int64_t>::max()};
  CHECK_EQ(set.insert(ids) + set.insert(ids), 0);
  CHECK_EQ(set.size(), 7);
  CHECK(sorted(set.steal()) == ids);
  CHECK(set.steal().empty());
}

void test_arguments() {
  CHECK_EQ(TouchedKeySet(10, 1000).num_locks(), 1024);
  CHECK_EQ(TouchedKeySet(10, 1).num_locks(), 1);
  CHECK_THROWS(TouchedKeySet(0, 1), "capacity");
  CHECK_THROWS(TouchedKeySet(1, 0), "concurrency_level");
  CHECK_THROWS(TouchedKeySet(1, std::size_t{1} << 40), "concurrency_level");
}

// 20 x capacity + 10000 different ids from ten threads: exactly 20 clears.
void test_twenty_clears() {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr std::int64_t kCapacity = 1 << 16;  // the same count, in bearable time
#else
  constexpr std::int64_t kCapacity = 2097152;
#endif
  constexpr std::int64_t kTotal = 20 * kCapacity + 10000;
  constexpr std::int64_t kThreads = 10;
  TouchedKeySet set(kCapacity, 1024);
  std::atomic<std::int64_t> clears{0}, dropped{0};
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t id = kTotal * t / kThreads; id < kTotal * (t + 1) / kThreads; ++id) {
        const auto now = static_cast<std::int64_t>(set.insert(id));
        if (now != 0) clears.fetch_add(1);
        dropped.fetch_add(now);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_EQ(clears.load(), 20);
  const Ids rest = sorted(set.steal());
  CHECK_EQ(dropped.load() + static_cast<std::int64_t>(rest.size()), kTotal);
  CHECK(std::adjacent_find(rest.begin(), rest.end()) == rest.end());
}

// Ids inserted while another thread steals are in exactly one of the stolen lists.
void test_steal_while_inserting() {
  constexpr std::int64_t kPerThread = 20000;
  TouchedKeySet set(1 << 20, 16);
  std::atomic<bool> done{false};
  Ids stolen;
  std::thread thief([&] {
    while (!done.load()) {
      const Ids some = set.steal();
      stolen.insert(stolen.end(), some.begin(), some.end());
    }
  });
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] { set.insert(range(t * kPerThread, (t + 1) * kPerThread)); });
  }
  for (auto& thread : threads) thread.join();
  done.store(true);
  thief.join();
  const Ids rest = set.steal();
  stolen.insert(stolen.end(), rest.begin(), rest.end());
  CHECK(sorted(stolen) == range(0, 3 * kPerThread));
}

void report_speed() {
  Ids ids = range(0, 1000000);
  for (auto& id : ids) id *= 0x9E3779B9;
  TouchedKeySet set(2097152, 1024);
  for (const char* what : {"new", "known"}) {
    const std::clock_t begin = std::clock();  // processor time: the machine may be shared
    set.insert(ids);
    std::cout << "1 M " << what << " ids: " << 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC
              << " ms\n";
  }
}

}  // namespace

int main() {
  test_insert_and_steal();
  test_overflow_clears_everything();
  test_duplicates();
  test_every_value_is_an_id();
  test_arguments();
  test_twenty_clears();
  test_steal_while_inserting();
  report_speed();
  return monolith::test::finish();
}
