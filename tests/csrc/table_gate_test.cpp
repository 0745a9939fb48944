// Who may be inside a table's gate together. Plain ints are what the gate guards: the thread sanitizer sees them race.
#include "table/table_gate.h"

#include <mutex>
#include <thread>
#include <vector>

#include "check.h"

namespace {

using namespace monolith;

void test_writers_keep_readers_out() {
  TableGate gate;
  int written = 0;
  int seen = 0;
  {
    const std::jthread thread([&] {
      for (int i = 0; i < 2000; ++i) {
        const Writer writer(gate);
        ++written;
      }
    });
    for (int i = 0; i < 20000; ++i) {
      if (!gate.try_enter_reader()) continue;
      CHECK(written >= seen);
      seen = written;
      gate.leave_reader();
    }
  }
  CHECK_EQ(written, 2000);
  CHECK(gate.try_enter_reader());
  gate.leave_reader();
  const Writer writer(gate);
  CHECK(gate.has_writer());
  CHECK(!gate.try_enter_reader());
}

void test_a_writer_works_alone_only_if_it_is_the_only_one() {
  TableGate gate;
  gate.enter_writer();
  CHECK(gate.try_alone());
  gate.end_alone();
  gate.enter_writer();
  CHECK(!gate.try_alone());
  gate.leave_writer();
  CHECK(gate.try_alone());
  gate.end_alone();
  gate.leave_writer();
  CHECK(!gate.has_writer());
}

// Writers that work alone when they can and under a lock when they cannot, and guests under the lock: no change is lost
// and nobody sees one half done.
void test_alone_or_with_locks() {
  TableGate gate;
  std::mutex lock;
  int first = 0;
  int second = 0;
  constexpr int kWriters = 3;
  constexpr int kChanges = 1500;
  {
    std::vector<std::jthread> threads;
    for (int w = 0; w < kWriters; ++w) {
      threads.emplace_back([&] {
        for (int i = 0; i < kChanges; ++i) {
          const Writer writer(gate);
          if (gate.try_alone()) {
            ++first;
            ++second;
            gate.end_alone();
          } else {
            const Guest guest(gate);
            const std::lock_guard held(lock);
            ++first;
            ++second;
          }
        }
      });
    }
    threads.emplace_back([&] {
      for (int i = 0; i < kChanges; ++i) {
        const Guest guest(gate);
        const std::lock_guard held(lock);
        CHECK_EQ(first, second);
      }
    });
  }
  CHECK_EQ(first, kWriters * kChanges);
  CHECK_EQ(second, kWriters * kChanges);
}

}  // namespace

int main() {
  test_writers_keep_readers_out();
  test_a_writer_works_alone_only_if_it_is_the_only_one();
  test_alone_or_with_locks();
  return monolith::test::finish();
}
