// Lookups without a plan: the right rows in the order of the batch, at every width and instruction set.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "check.h"
#include "ops/simd.h"
#include "table/row_table.h"

namespace {

using namespace monolith;

TableOptions options(std::uint32_t dim) {
  TableOptions options;
  options.name += "rows";
  SegmentConfig segment;
  segment.dim = dim;
  options.segments = {segment};
  return options;
}

float value(std::int64_t id, std::size_t column) { return static_cast<float>(id * 131 + static_cast<int>(column)); }

// Rows of ids 0 to `count` - 1.
void fill(RowTable& table, std::int64_t count) {
  std::vector<std::int64_t> ids;
  std::vector<float> values;
  for (std::int64_t id = 0; id < count; ++id) {
    ids.push_back(id);
    for (std::size_t column = 0; column < table.dim(); ++column) values.push_back(value(id, column));
  }
  BatchPlan plan(ids, true);
  ChangeRequest request;
  request.kind = ChangeRequest::Kind::kAssign;
  request.values = values.data();
  table.change(plan, request);
}

struct Free {
  void operator()(float* floats) const { std::free(floats); }
};

// Looks up `num_ids` random ids, a quarter of them unknown, and checks every float of the output.
void check_lookup(const RowTable& table, std::int64_t num_rows, std::size_t num_ids, std::size_t stride) {
  std::mt19937_64 random(num_ids);
  std::vector<std::int64_t> ids;
  std::size_t known = 0;
  for (std::size_t i = 0; i < num_ids; ++i) {
    ids.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(num_rows * 4 / 3 + 1)));
    known += ids.back() < num_rows;
  }
  // Aligned, so that large outputs are streamed.
  const std::size_t bytes = (num_ids * stride * sizeof(float) + 63) / 64 * 64 + 64;
  const std::unique_ptr<float, Free> memory(static_cast<float*>(std::aligned_alloc(64, bytes)));
  float* out = memory.get();
  std::fill_n(out, num_ids * stride, -99.0F);
  CHECK_EQ(table.lookup(ids, out, stride), known);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < num_ids; ++i) {
    for (std::size_t column = 0; column < stride; ++column) {
      const float row_value = ids[i] < num_rows ? value(ids[i], column) : 0.0F;
      wrong += out[i * stride + column] != (column < table.dim() ? row_value : -99.0F);
    }
  }
  CHECK_EQ(wrong, 0U);
}

void test_every_width_and_level() {
  const SimdLevel best = best_simd_level();
  for (const SimdLevel level : {SimdLevel::kScalar, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level > best) continue;
    set_simd_level(level);
    for (const std::uint32_t dim : {1U, 5U, 8U, 16U, 24U, 32U, 64U}) {
      RowTable table(options(dim));
      check_lookup(table, 0, 1000, dim);  // no sub-table has an index yet
      constexpr std::int64_t kRows = 20000;
      fill(table, kRows);
      for (const std::size_t num_ids : {0UL, 1UL, 511UL, 512UL, 4096UL, 4097UL, 10001UL}) {
        check_lookup(table, kRows, num_ids, dim);
      }
      check_lookup(table, kRows, 1000, dim + 3);
    }
  }
  set_simd_level(best);
}

void test_large_outputs_are_streamed() {
  RowTable table(options(64));
  fill(table, 3000);
  check_lookup(table, 3000, 40000, 64);
  check_lookup(table, 3000, 40000, 72);
}

}  // namespace

int main() {
  test_every_width_and_level();
  test_large_outputs_are_streamed();
  return monolith::test::finish();
}
