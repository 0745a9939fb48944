#include <nanobind/stl/vector.h>

#include "bind/ops.h"
#include "ops/chunks.h"
#include "ops/reorder.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using Offsets = std::vector<Flat<const std::int32_t>>;

auto reorder(Ids ids, Flat<const std::int32_t> shard_ids, std::size_t num_shards) {
  Reordered result;
  {
    const nb::gil_scoped_release release;
    result = reorder_by_indices(span_of(ids), span_of(shard_ids), num_shards);
  }
  return nb::make_tuple(to_tensor(std::move(result.positions)), to_tensor(std::move(result.shard_sizes)));
}

auto fused_reorder(const std::vector<Ids>& inputs, std::size_t num_shards, const std::vector<std::int64_t>& dims,
                   bool rank0_empty) {
  FusedReordered result;
  {
    const nb::gil_scoped_release release;
    result = fused_reorder_by_indices(spans_of(inputs), num_shards, dims, rank0_empty);
  }
  return nb::make_tuple(to_tensor(std::move(result.output)), to_tensor(std::move(result.shard_sizes)),
                        to_tensor(std::move(result.sharded_slot_sizes)), to_tensor(std::move(result.offsets)));
}

auto unique_keys(Ids keys, Ids key_splits, const std::vector<std::int64_t>& dims) {
  UniqueKeys result;
  {
    const nb::gil_scoped_release release;
    result = unique_keys_with_offsets(span_of(keys), span_of(key_splits), dims);
  }
  return nb::make_tuple(to_tensor(std::move(result.keys)), to_tensor(std::move(result.key_splits)),
                        to_tensor(std::move(result.offsets)), to_tensor(std::move(result.offset_splits)),
                        result.buffer_size);
}

template <class T>
void bind_chunks_of(nb::module_& m) {
  m.def(
      "fused_gather",
      [](Flat<const T> fused, const Offsets& offsets, const std::vector<std::int64_t>& dims,
         const std::vector<Matrix<T>>& outs) {
        fused_gather<T>(span_of(fused), spans_of(offsets), dims, spans_of(outs));
      },
      "fused"_a.noconvert(), "offsets"_a.noconvert(), "dims"_a, "outs"_a.noconvert(), Release());
  m.def(
      "fused_gather_grad",
      [](const std::vector<Matrix<const T>>& grads, const Offsets& offsets, const std::vector<std::int64_t>& dims,
         double scale, Flat<T> out) {
        fused_gather_grad<T>(spans_of(grads), spans_of(offsets), dims, static_cast<T>(scale), span_of(out));
      },
      "grads"_a.noconvert(), "offsets"_a.noconvert(), "dims"_a, "scale"_a, "out"_a.noconvert(), Release(),
      "Adds to `out`.");
  m.def(
      "fill_with_offset_map",
      [](Ids pos, Ids pos_splits, Ids offsets, Ids offset_splits, const std::vector<std::int64_t>& dims,
         Flat<const T> value, Flat<T> buffer) {
        const OffsetMap map{span_of(pos), span_of(pos_splits), span_of(offsets), span_of(offset_splits), dims};
        fill_with_offset_map(map, span_of(value), span_of(buffer));
      },
      "pos"_a.noconvert(), "pos_splits"_a.noconvert(), "offsets"_a.noconvert(), "offset_splits"_a.noconvert(), "dims"_a,
      "value"_a.noconvert(), "buffer"_a.noconvert(), Release());
  m.def(
      "fill_with_offset_map_grad",
      [](Ids pos, Ids pos_splits, Ids offsets, Ids offset_splits, const std::vector<std::int64_t>& dims,
         Flat<const T> grad, Flat<T> out) {
        const OffsetMap map{span_of(pos), span_of(pos_splits), span_of(offsets), span_of(offset_splits), dims};
        fill_with_offset_map_grad(map, span_of(grad), span_of(out));
      },
      "pos"_a.noconvert(), "pos_splits"_a.noconvert(), "offsets"_a.noconvert(), "offset_splits"_a.noconvert(), "dims"_a,
      "grad"_a.noconvert(), "out"_a.noconvert(), Release());
}

}  // namespace

void bind_routing(nb::module_& m) {
  m.def("reorder_by_indices", &reorder, "ids"_a.noconvert(), "shard_ids"_a.noconvert(), "num_shards"_a);
  m.def("fused_reorder_by_indices", &fused_reorder, "inputs"_a.noconvert(), "num_shards"_a, "dims"_a, "rank0_empty"_a);
  m.def(
      "find_positions",
      [](Ids ids, Ids input, bool use_threads, Flat<std::int64_t> out) {
        find_positions(span_of(ids), span_of(input), use_threads, span_of(out));
      },
      "ids"_a.noconvert(), "input"_a.noconvert(), "use_threads"_a, "out"_a.noconvert(), Release());
  m.def("unique_keys_with_offsets", &unique_keys, "keys"_a.noconvert(), "key_splits"_a.noconvert(), "dims"_a);
  bind_chunks_of<float>(m);
  bind_chunks_of<double>(m);
}

}  // namespace monolith::bind
