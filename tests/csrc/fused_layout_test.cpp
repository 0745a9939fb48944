// Sharded ids, all layouts of a batch and their gradient: figures worked out by hand, any number of threads, and
// indices that name what is not there, on buffers without a float to spare.
#include "ops/fused_layout.h"

#include <cstdint>
#include <random>
#include <vector>

#include "check.h"
#include "ops/parallel_for.h"
#include "ops/shard_fids.h"

namespace {

using monolith::FidColumn;
using monolith::FusedLayoutPlan;
using monolith::Joining;
using monolith::kSharedFeature;
using monolith::LayoutIndex;
using monolith::Pooling;
using monolith::ShardedFids;
using Floats = std::vector<float>;
using Int64s = std::vector<std::int64_t>;

struct Column {
  Int64s ids;
  Int64s row_splits;
  bool shared = false;
};

ShardedFids shard(const FusedLayoutPlan& plan, const std::vector<Column>& columns, std::size_t num_ps,
                  std::size_t batch_size, bool unique = true) {
  std::vector<FidColumn> views;
  for (std::size_t f = 0; f < columns.size(); ++f) {
    views.push_back({columns[f].ids, columns[f].row_splits, columns[f].shared,
                     static_cast<std::uint32_t>(plan.features()[f].table),
                     static_cast<std::uint32_t>(plan.features()[f].dim)});
  }
  return monolith::shard_fids(views, plan.num_tables(), num_ps, batch_size, unique);
}

LayoutIndex index_of(const ShardedFids& sharded, std::size_t batch_size) {
  return {sharded.fid_offset, sharded.feature_offset, sharded.nfl_offset, batch_size};
}

template <class Float>
std::vector<std::span<Float>> spans(std::vector<Floats>& arrays) {
  return {arrays.begin(), arrays.end()};
}

std::vector<Floats> forward(const FusedLayoutPlan& plan, const LayoutIndex& index, std::vector<Floats> blocks) {
  std::vector<Floats> outs;
  for (const auto& output : plan.outputs()) outs.emplace_back(index.batch_size * output.width, -7.0f);
  monolith::fused_layout(plan, index, spans<const float>(blocks), spans<float>(outs));
  return outs;
}

std::vector<Floats> backward(const FusedLayoutPlan& plan, const LayoutIndex& index, std::vector<Floats> grads,
                             const std::vector<Floats>& blocks) {
  std::vector<Floats> out;
  for (const Floats& block : blocks) out.emplace_back(block.size(), 0.0f);
  monolith::fused_layout_grad(plan, index, spans<const float>(grads), spans<float>(out));
  return out;
}

// Features a (3 floats) and b (2 floats) of one table, two servers, two samples: a = [[10, 11], [10]], b = [[7], []].
FusedLayoutPlan example_plan() { return {{{"a", 0, 3}, {"b", 0, 2}}, 1}; }
std::vector<Column> example_columns() { return {{{10, 11, 10}, {0, 2, 3}}, {{7}, {0, 1, 1}}}; }

void test_sharding_of_the_example() {
  const ShardedFids sharded = shard(example_plan(), example_columns(), 2, 2);
  CHECK(sharded.fids == Int64s{10, 11, 7});
  CHECK(sharded.block_sizes == Int64s{1, 2});
  CHECK(sharded.row_splits == Int64s{0, 1, 1, 0, 1, 2});
  CHECK(sharded.emb_sizes == std::vector<std::int32_t>{3, 5});
  const std::uint64_t second = std::uint64_t{1} << 32;
  CHECK(sharded.fid_offset == std::vector<std::uint64_t>{0, second, 0, second | 3});
  CHECK(sharded.feature_offset == std::vector<std::int32_t>{0, 2, 3, 4, 4});
  CHECK(sharded.nfl_offset == std::vector<std::uint32_t>{0, 2, 5});
  const ShardedFids all = shard(example_plan(), example_columns(), 2, 2, false);
  CHECK(all.fids == Int64s{10, 10, 11, 7});
  CHECK_EQ(all.fid_offset[2], 3);
}

void test_layouts_of_the_example() {
  FusedLayoutPlan plan = example_plan();
  plan.add_layout("added", Joining::kAddN, {{0, 1, 3, Pooling::kMean}, {1, 0, 2}}, {{-1, 2}});
  plan.add_layout("joined", Joining::kConcat, {{1, 0, 2}, {0, 0, 3}}, {{-1, 5}});
  plan.add_layout("sequence", Joining::kNone, {{0, 0, 1, Pooling::kFirstN, 3}}, {{2, 3, 1}});
  const ShardedFids sharded = shard(plan, example_columns(), 2, 2);
  const std::vector<Floats> blocks{{1, 2, 3}, {4, 5, 6, 7, 8}};  // 10 | 11, 7
  const LayoutIndex index = index_of(sharded, 2);
  const std::vector<Floats> outs = forward(plan, index, blocks);
  CHECK(outs[0] == Floats{3.5f + 7, 4.5f + 8, 2, 3});
  CHECK(outs[1] == Floats{7, 8, 5, 7, 9, 0, 0, 1, 2, 3});
  CHECK(outs[2] == Floats{1, 4, 0, 1, 0, 0});
  const std::vector<Floats> grads = backward(plan, index, {{1, 2, 3, 4}, {}, {10, 20, 30, 40, 50, 60}}, blocks);
  CHECK(grads[0] == Floats{10 + 40, 0.5f + 3, 1 + 4});
  CHECK(grads[1] == Floats{20, 0.5f, 1, 1, 2});
}

void test_shared_features() {
  FusedLayoutPlan plan({{"a", 0, 2}, {"b", 1, 2}}, 2);
  plan.add_layout("stacked", Joining::kStack, {{0, 0, 2}, {1, 0, 2}}, {{-1, 2, 2}});
  const ShardedFids sharded = shard(plan, {{{1, 2}, {0, 2}, true}, {{3, 4}, {0, 1, 1, 2}}}, 1, 3);
  CHECK(sharded.nfl_offset == std::vector<std::uint32_t>{kSharedFeature, 1, 5});
  const std::vector<Floats> blocks{{1, 2, 3, 4}, {5, 6, 7, 8}};
  const std::vector<Floats> outs = forward(plan, index_of(sharded, 3), blocks);
  CHECK(outs[0] == Floats{4, 6, 5, 6, 4, 6, 0, 0, 4, 6, 7, 8});
  const std::vector<Floats> grads =
      backward(plan, index_of(sharded, 3), {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, blocks);
  CHECK(grads[0] == Floats{15, 18, 15, 18});
  CHECK(grads[1] == Floats{3, 4, 11, 12});
}

void test_threads_do_not_matter() {
  std::mt19937_64 random(7);
  FusedLayoutPlan plan({{"a", 0, 5}, {"b", 0, 17}, {"c", 1, 9}}, 2);
  plan.add_layout("x", Joining::kConcat, {{0, 0, 5}, {1, 0, 17}, {2, 1, 9, Pooling::kMean}}, {{-1, 30}});
  plan.add_layout("y", Joining::kAddN, {{1, 1, 5}, {0, 1, 5}}, {{-1, 4}});
  const std::size_t batch_size = 3000;
  std::vector<Column> columns(3);
  for (Column& column : columns) {
    column.row_splits = {0};
    for (std::size_t sample = 0; sample < batch_size; ++sample) {
      for (auto n = random() % 5; n > 0; --n) column.ids.push_back(static_cast<std::int64_t>(random() % 200) - 100);
      column.row_splits.push_back(static_cast<std::int64_t>(column.ids.size()));
    }
  }
  std::vector<Floats> outs;
  std::vector<Floats> grads;
  for (const int threads : {1, 2, 5}) {
    monolith::set_num_threads(threads);
    const ShardedFids sharded = shard(plan, columns, 3, batch_size);
    std::vector<Floats> blocks;
    std::mt19937 values(3);
    for (const auto size : sharded.emb_sizes) {
      blocks.emplace_back(size);
      for (float& value : blocks.back()) value = static_cast<float>(values()) * 1e-9f;
    }
    const auto out = forward(plan, index_of(sharded, batch_size), blocks);
    const auto grad = backward(plan, index_of(sharded, batch_size), out, blocks);
    if (threads == 1) outs = out;
    if (threads == 1) grads = grad;
    CHECK(out == outs);
    CHECK(grad == grads);
  }
  monolith::set_num_threads(0);
}

// Features that name the same rows, and rows that overlap, as no sharding makes them.
void test_rows_in_common() {
  FusedLayoutPlan plan({{"a", 0, 2}, {"b", 0, 2}}, 1);
  plan.add_layout("x", Joining::kConcat, {{0, 0, 2}, {1, 0, 2}}, {{-1, 4}});
  const std::vector<std::uint64_t> fid_offset{0, 1, 1, 0};
  const std::vector<std::int32_t> feature_offset{0, 1, 2, 3, 4};
  const std::vector<std::uint32_t> nfl_offset{0, 2, 5};
  const LayoutIndex index{fid_offset, feature_offset, nfl_offset, 2};
  const auto grads = backward(plan, index, {{1, 2, 3, 4, 5, 6, 7, 8}}, {{0, 0, 0}});
  CHECK(grads[0] == Floats{1 + 7, 2 + 5 + 3 + 8, 6 + 4});
}

void test_what_is_not_there() {
  FusedLayoutPlan plan({{"a", 0, 2}, {"b", 1, 2}}, 2);
  plan.add_layout("x", Joining::kConcat, {{0, 0, 2}, {1, 0, 2}}, {{-1, 4}});
  const ShardedFids sharded = shard(plan, {{{1, 2}, {0, 1, 2}}, {{3, 4}, {0, 1, 2}}}, 1, 2);
  const LayoutIndex index = index_of(sharded, 2);
  CHECK_THROWS(forward(plan, index, {{1, 2, 3, 4}, {1, 2, 3}}), "block 1 have 3 floats");
  CHECK_THROWS(forward(plan, index, {{1, 2, 3, 4}}), "one tensor per table and server");
  CHECK_THROWS(forward(plan, index_of(sharded, 3), {{1, 2, 3, 4}, {1, 2, 3, 4}}), "expected 3");
  std::vector<std::uint64_t> offsets = sharded.fid_offset;
  offsets[0] = std::uint64_t{1} << 32;
  LayoutIndex broken = index;
  broken.fid_offset = offsets;
  CHECK_THROWS(forward(plan, broken, {{1, 2, 3, 4}, {1, 2, 3, 4}}), "not of its table");
  const std::vector<std::int32_t> decreasing{0, 3, 2, 3, 4};
  broken = index;
  broken.feature_offset = decreasing;
  CHECK_THROWS(forward(plan, broken, {{1, 2, 3, 4}, {1, 2, 3, 4}}), "feature_offset");
  for (const std::vector<std::uint32_t>& wrong :
       {std::vector<std::uint32_t>{0, 2}, {0, 2, 4}, {0, 9, 5}, {0x7FFFFFFF, 2, 5}, {1, 2, 5}}) {
    broken = index;
    broken.nfl_offset = wrong;
    CHECK_THROWS(forward(plan, broken, {{1, 2, 3, 4}, {1, 2, 3, 4}}), "nfl_offset");
  }
  CHECK_THROWS(backward(plan, index, {{1, 2, 3}}, {{1, 2, 3, 4}, {1, 2, 3, 4}}), "2 times 4 floats");
}

void test_plans_that_cannot_be() {
  FusedLayoutPlan plan({{"a", 0, 3}, {"b", 0, 2}}, 1);
  const monolith::SliceRange sequence{0, 0, 3, Pooling::kFirstN, 4};
  CHECK_THROWS(plan.add_layout("x", Joining::kAddN, {sequence}, {{-1, 3}}), "only be joined by NONE");
  CHECK_THROWS(plan.add_layout("x", Joining::kNone, {{0, 0, 3}, {1, 0, 2}}, {{-1, 3}}), "2 tensors of 2 slices");
  CHECK_THROWS(plan.add_layout("x", Joining::kNone, {{0, 0, 3}}, {{-1, 0}}), "must be positive");
  CHECK_THROWS(plan.add_layout("x", Joining::kNone, {{0, 0, 3}}, {{-1, 4}}), "[-1, 3], got [-1, 4]");
  CHECK_THROWS(plan.add_layout("x", Joining::kNone, {{0, 0, 3}}, {{}}), "got []");
  CHECK_THROWS(plan.add_layout("x", Joining::kNone, {{1, 1, 3}}, {{-1, 2}}), "rows of 2 floats");
  CHECK_THROWS(plan.add_layout("x", Joining::kNone, {{2, 0, 1}}, {{-1, 1}}), "no feature 2");
  CHECK_THROWS(plan.add_layout("x", Joining::kStack, {{0, 0, 3}, {1, 0, 2}}, {{-1, 2, 3}}), "one width");
  CHECK_THROWS(FusedLayoutPlan({{"a", 1, 3}}, 1), "no table 1");
  CHECK_THROWS(FusedLayoutPlan({{"a", 0, 0}}, 1), "positive width");
}

}  // namespace

int main() {
  test_sharding_of_the_example();
  test_layouts_of_the_example();
  test_shared_features();
  test_threads_do_not_matter();
  test_rows_in_common();
  test_what_is_not_there();
  test_plans_that_cannot_be();
  return monolith::test::finish();
}
