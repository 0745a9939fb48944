// Loops over tasks: every task runs once, loops nest and run side by side, and errors reach the caller.
#include "ops/parallel_for.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"

namespace {

using namespace monolith;

void check_every_task_runs_once(std::size_t num_tasks) {
  std::vector<std::atomic<int>> runs(num_tasks);
  parallel_for(num_tasks, [&](std::size_t i) { ++runs[i]; });
  std::size_t wrong = 0;
  for (const auto& count : runs) wrong += count != 1;
  CHECK_EQ(wrong, 0U);
}

void test_every_task_runs_once() {
  for (const std::size_t num_tasks : {0UL, 1UL, 2UL, 7UL, 1000UL}) check_every_task_runs_once(num_tasks);
  for (int round = 0; round < 3000; ++round) check_every_task_runs_once(5);
}

void test_loops_nest_and_run_side_by_side() {
  std::atomic<std::size_t> sum{0};
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&] {
        for (int round = 0; round < 50; ++round) {
          parallel_for(8, [&](std::size_t) { parallel_for(16, [&](std::size_t i) { sum += i; }); });
        }
      });
    }
  }
  CHECK_EQ(sum.load(), std::size_t{4} * 50 * 8 * 120);
}

void test_an_error_reaches_the_caller_after_all_tasks() {
  std::atomic<int> runs{0};
  bool thrown = false;
  try {
    parallel_for(100, [&](std::size_t i) {
      ++runs;
      if (i == 3) throw std::runtime_error("task 3");
    });
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  CHECK(thrown);
  CHECK_EQ(runs.load(), 100);
  check_every_task_runs_once(100);
}

// All helpers are held up in a loop of another caller. The loop must end nevertheless: the caller does its tasks.
void test_a_loop_ends_without_helpers() {
  std::mutex mutex;
  std::condition_variable changed;
  int held_up = 0;
  bool may_go = false;
  const int threads = num_threads();
  std::jthread other([&] {
    parallel_for(static_cast<std::size_t>(threads), [&](std::size_t) {
      std::unique_lock lock(mutex);
      ++held_up;
      changed.notify_all();
      changed.wait(lock, [&] { return may_go; });
    });
  });
  {
    std::unique_lock lock(mutex);
    CHECK(changed.wait_for(lock, std::chrono::seconds(60), [&] { return held_up == threads; }));
  }
  check_every_task_runs_once(1000);
  const std::lock_guard lock(mutex);
  may_go = true;
  changed.notify_all();
}

void test_a_forked_child_has_helpers_of_its_own() {
#if !defined(__SANITIZE_THREAD__)
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> runs{0};
    parallel_for(50, [&](std::size_t) { ++runs; });
    _exit(runs == 50 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
#endif
}

}  // namespace

int main() {
  set_num_threads(3);
  test_every_task_runs_once();
  test_loops_nest_and_run_side_by_side();
  test_an_error_reaches_the_caller_after_all_tasks();
  test_a_loop_ends_without_helpers();
  test_a_forked_child_has_helpers_of_its_own();
  return monolith::test::finish();
}
