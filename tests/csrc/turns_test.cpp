// A caller that takes the changes of a table gets a turn among batches that never leave a gap between them.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "check.h"
#include "ops/parallel_for.h"
#include "table/row_table.h"

namespace {

using namespace monolith;

constexpr std::size_t kDim = 16;
constexpr std::size_t kNumIds = 20'000;
constexpr int kWriters = 4;
constexpr int kTurns = 20;
constexpr std::chrono::seconds kGiveUp{120};

void test_changes_are_taken_between_overlapping_batches() {
  TableOptions options;
  SegmentConfig segment;
  segment.dim = kDim;
  segment.optimizer.kind = "sgd";
  options.segments = {segment};
  RowTable table(options);
  set_num_threads(1);
  std::vector<std::int64_t> ids(kNumIds);
  std::iota(ids.begin(), ids.end(), 0);
  const std::vector<float> gradients(kNumIds * kDim, 1.0F);
  const std::vector<float> rates{0.1F};
  const std::size_t consumer = table.add_consumer();
  std::atomic<bool> stop{false};
  std::atomic<int> num_steps{0};
  const auto give_up = std::chrono::steady_clock::now() + kGiveUp;
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&] {
      while (!stop && std::chrono::steady_clock::now() < give_up) {
        BatchPlan plan(ids, true);
        ChangeRequest request;
        request.values = gradients.data();
        request.learning_rates = rates;
        table.change(plan, request);
        ++num_steps;
      }
    });
  }
  while (num_steps < kWriters) std::this_thread::yield();
  int num_waited_for = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    const int before = num_steps;
    table.take_changes(consumer);
    num_waited_for += num_steps - before;
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  // Each turn waits for the batches under way, and not for those that come after them.
  CHECK(num_waited_for <= 3 * kWriters * kTurns);
}

}  // namespace

int main() {
  test_changes_are_taken_between_overlapping_batches();
  return monolith::test::finish();
}
