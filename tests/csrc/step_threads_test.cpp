// A step of a batch gives the same rows with any number of threads, whichever way they share it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

#include "check.h"
#include "ops/parallel_for.h"
#include "table/row_table.h"

namespace {

using namespace monolith;

constexpr std::size_t kDim = 4;
constexpr std::size_t kNumIds = 20'000;  // more than one thread's share, and more than are stepped at a time
constexpr int kSteps = 3;

enum class Ids { kMerged, kRepeated, kAllDifferent };

std::vector<float> rows_after(Ids kind, int threads, std::vector<std::int64_t> ids) {
  TableOptions options;
  SegmentConfig segment;
  segment.dim = kDim;
  segment.optimizer.kind = "adagrad";
  options.segments = {segment};
  RowTable table(options);
  set_num_threads(threads);
  const std::vector<float> rates{0.1F};
  for (int step = 1; step <= kSteps; ++step) {
    std::mt19937_64 random(static_cast<std::uint64_t>(step));
    std::ranges::shuffle(ids, random);
    std::vector<float> gradients(ids.size() * kDim);
    for (float& one : gradients) one = std::uniform_real_distribution<float>(-1, 1)(random);
    BatchPlan plan(ids, kind == Ids::kMerged);
    ChangeRequest request;
    request.values = gradients.data();
    request.learning_rates = rates;
    request.global_step = step;
    request.all_different = kind == Ids::kAllDifferent;
    table.change(plan, request);
  }
  std::ranges::sort(ids);
  std::vector<float> rows(ids.size() * kDim);
  table.lookup(ids, rows.data(), kDim);
  return rows;
}

// A client that repeats an id although it promised not to: two threads step one row at once. Each step may make it
// infinite for a moment, and the next one may take that for what the row was.
[[maybe_unused]] void test_a_broken_promise_leaves_no_infinite_row() {
  constexpr std::size_t kWidth = 64;
  constexpr std::size_t kRepeats = 100'000;
  TableOptions options;
  SegmentConfig segment;
  segment.dim = kWidth;
  segment.optimizer.kind = "sgd";
  options.segments = {segment};
  RowTable table(options);
  set_num_threads(7);
  const std::vector<std::int64_t> ids(kRepeats, 5);
  std::vector<float> gradients(kRepeats * kWidth);
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = i / kWidth % 2 == 0 ? 3e38F : -3e38F;
  const std::vector<float> rates{1.0F};
  for (int round = 0; round < 20; ++round) {
    BatchPlan plan(ids, false);
    ChangeRequest request;
    request.values = gradients.data();
    request.learning_rates = rates;
    request.all_different = true;
    try {
      table.change(plan, request);
    } catch (const NotFiniteRow&) {
      // as it may be
    }
    std::vector<float> row(kWidth);
    table.lookup(std::span(ids).first(1), row.data(), kWidth);
    CHECK(std::ranges::all_of(row, [](float value) { return std::isfinite(value); }));
  }
}

}  // namespace

int main() {
  std::vector<std::int64_t> different(kNumIds), repeated(kNumIds);
  for (std::size_t i = 0; i < kNumIds; ++i) {
    different[i] = static_cast<std::int64_t>(i);
    repeated[i] = static_cast<std::int64_t>(i % 100);
  }
  const std::vector<float> rows = rows_after(Ids::kMerged, 1, different);
  const std::vector<float> one_by_one = rows_after(Ids::kRepeated, 1, repeated);
  CHECK(std::ranges::count(rows, 0.0F) == 0);
  for (const int threads : {1, 2, 7}) {
    CHECK(rows_after(Ids::kMerged, threads, different) == rows);
    CHECK(rows_after(Ids::kRepeated, threads, different) == rows);
    CHECK(rows_after(Ids::kAllDifferent, threads, different) == rows);
    CHECK(rows_after(Ids::kRepeated, threads, repeated) == one_by_one);
  }
#ifdef __SANITIZE_THREAD__
  std::puts("left out: two threads in one row, which is what a broken promise means, and a race to the sanitizer");
#else
  test_a_broken_promise_leaves_no_infinite_row();
#endif
  CHECK(one_by_one != rows_after(Ids::kMerged, 1, repeated));
  return monolith::test::finish();
}
