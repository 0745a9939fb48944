// A step of a batch gives the same rows with any number of threads, whichever way they share it.
#include <algorithm>
#include <cstdint>
#include <random>
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
  CHECK(one_by_one != rows_after(Ids::kMerged, 1, repeated));
  return monolith::test::finish();
}
