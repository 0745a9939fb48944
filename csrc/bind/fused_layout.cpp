#include "ops/fused_layout.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>

#include "bind/ops.h"
#include "ops/shard_fids.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using FidOffsets = Flat<const std::uint64_t>;
using FeatureOffsets = Flat<const std::int32_t>;
using NflOffsets = Flat<const std::uint32_t>;
using FeatureTuple = std::tuple<std::string, std::int64_t, std::int64_t>;
using SliceTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string, std::int64_t>;

LayoutIndex index_of(const FidOffsets& fids, const FeatureOffsets& features, const NflOffsets& nfl, std::size_t batch) {
  return {span_of(fids), span_of(features), span_of(nfl), batch};
}

void make_plan(FusedLayoutPlan* plan, const std::vector<FeatureTuple>& features, std::size_t num_tables) {
  std::vector<LayoutFeature> converted;
  for (const auto& [name, table, dim] : features) converted.push_back({name, table, dim});
  new (plan) FusedLayoutPlan(std::move(converted), num_tables);
}

void add_layout(FusedLayoutPlan& plan, const std::string& name, const std::string& out_type,
                const std::vector<SliceTuple>& slices, const std::vector<LayoutShape>& shapes) {
  std::vector<SliceRange> ranges;
  for (const auto& [feature, start, end, pooling, length] : slices) {
    ranges.push_back(
        {feature, start, end, pooling_from_name(pooling, {Pooling::kSum, Pooling::kMean, Pooling::kFirstN}), length});
  }
  plan.add_layout(name, joining_from_name(out_type), ranges, shapes);
}

auto shard(const FusedLayoutPlan& plan, const std::vector<Ids>& ids, const std::vector<Ids>& row_splits,
           const std::vector<bool>& shared, std::size_t ps_num, std::size_t batch_size, bool unique) {
  const std::size_t num_features = plan.features().size();
  if (ids.size() != num_features || row_splits.size() != num_features || shared.size() != num_features) {
    throw std::invalid_argument("ids, row_splits and shared must have one entry per feature, " +
                                std::to_string(num_features));
  }
  std::vector<FidColumn> columns;
  for (std::size_t f = 0; f < num_features; ++f) {
    const LayoutFeature& feature = plan.features()[f];
    columns.push_back({span_of(ids[f]), span_of(row_splits[f]), shared[f], static_cast<std::uint32_t>(feature.table),
                       static_cast<std::uint32_t>(feature.dim)});
  }
  ShardedFids result;
  {
    const nb::gil_scoped_release release;
    result = shard_fids(columns, plan.num_tables(), ps_num, batch_size, unique);
  }
  return nb::make_tuple(to_tensor(std::move(result.fids)), to_tensor(std::move(result.block_sizes)),
                        to_tensor(std::move(result.row_splits)), to_tensor(std::move(result.emb_sizes)),
                        to_tensor(std::move(result.fid_offset)), to_tensor(std::move(result.feature_offset)),
                        to_tensor(std::move(result.nfl_offset)));
}

}  // namespace

void bind_fused_layout(nb::module_& m) {
  nb::class_<FusedLayoutPlan>(m, "FusedLayoutPlan", "How rows of looked-up ids become the tensors of all layouts.")
      .def("__init__", &make_plan, "features"_a, "num_tables"_a,
           "Features in the order of their names: (name, number of the table, floats of a row).")
      .def("add_layout", &add_layout, "name"_a, "out_type"_a, "slices"_a, "shapes"_a,
           "Slices are (feature, start, end, pooling, max_sequence_length).")
      .def("shard", &shard, "ids"_a.noconvert(), "row_splits"_a.noconvert(), "shared"_a, "ps_num"_a, "batch_size"_a,
           "unique"_a, "Returns fids, block_sizes, row_splits, emb_sizes, fid_offset, feature_offset and nfl_offset.")
      .def(
          "forward",
          [](const FusedLayoutPlan& plan, FidOffsets fid_offset, FeatureOffsets feature_offset, NflOffsets nfl_offset,
             std::size_t batch_size, const std::vector<Flat<const float>>& embeddings,
             const std::vector<Flat<float>>& outs) {
            fused_layout(plan, index_of(fid_offset, feature_offset, nfl_offset, batch_size), spans_of(embeddings),
                         spans_of(outs));
          },
          "fid_offset"_a.noconvert(), "feature_offset"_a.noconvert(), "nfl_offset"_a.noconvert(), "batch_size"_a,
          "embeddings"_a.noconvert(), "outs"_a.noconvert(), Release())
      .def(
          "backward",
          [](const FusedLayoutPlan& plan, FidOffsets fid_offset, FeatureOffsets feature_offset, NflOffsets nfl_offset,
             std::size_t batch_size, const std::vector<Flat<const float>>& grads,
             const std::vector<Flat<float>>& grad_embeddings) {
            fused_layout_grad(plan, index_of(fid_offset, feature_offset, nfl_offset, batch_size), spans_of(grads),
                              spans_of(grad_embeddings));
          },
          "fid_offset"_a.noconvert(), "feature_offset"_a.noconvert(), "nfl_offset"_a.noconvert(), "batch_size"_a,
          "grads"_a.noconvert(), "grad_embeddings"_a.noconvert(), Release(),
          "Adds to `grad_embeddings`; an empty gradient is one of zero.");
}

}  // namespace monolith::bind
