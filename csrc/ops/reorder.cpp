#include "ops/reorder.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "ops/id_numbers.h"
#include "ops/id_shard.h"
#include "ops/parallel_for.h"

namespace monolith {

namespace {

// Ids for one task; fewer are not worth a thread.
constexpr std::size_t kIdsPerTask = 10000;

// One input of fused_reorder_by_indices on its way.
struct Slot {
  std::vector<std::int64_t> unique;    // first seen first
  std::vector<std::int32_t> inverse;   // per id: its place in `unique`
  std::vector<std::int32_t> shard_of;  // per unique id
};

Slot make_slot(Int64Span ids, std::size_t num_shards, bool rank0_empty) {
  Slot slot;
  slot.inverse.reserve(ids.size());
  IdNumbers index(std::min<std::size_t>(ids.size(), 1024));
  const std::size_t first_shard = rank0_empty ? 1 : 0;
  for (const std::int64_t id : ids) {
    const std::int64_t place = index.insert(id, static_cast<std::int64_t>(slot.unique.size()));
    slot.inverse.push_back(static_cast<std::int32_t>(place));
    if (static_cast<std::size_t>(place) < slot.unique.size()) continue;
    slot.unique.push_back(id);
    slot.shard_of.push_back(static_cast<std::int32_t>(first_shard + shard_of_id(id, num_shards - first_shard)));
  }
  return slot;
}

void check_fused_arguments(std::span<const Int64Span> inputs, std::size_t num_shards, Int64Span dims,
                           bool rank0_empty) {
  const std::size_t least = rank0_empty ? 2 : 1;
  if (num_shards < least) {
    throw std::invalid_argument("num_of_shards must be at least " + std::to_string(least) + ", got " +
                                std::to_string(num_shards));
  }
  if (dims.size() != inputs.size()) {
    throw std::invalid_argument("dim_sizes has " + std::to_string(dims.size()) + " entries for " +
                                std::to_string(inputs.size()) + " inputs; give one per input");
  }
  std::size_t floats = 0;
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  for (std::size_t m = 0; m < dims.size(); ++m) {
    if (dims[m] <= 0) throw std::invalid_argument("dim_sizes must be positive, got " + std::to_string(dims[m]));
    if (static_cast<std::size_t>(dims[m]) > kMost || inputs[m].size() > kMost) floats = kMost + 1;
    if (floats <= kMost) floats += inputs[m].size() * static_cast<std::size_t>(dims[m]);
  }
  if (floats > kMost) throw std::invalid_argument("the rows of these ids exceed 2^31 floats; use smaller batches");
}

}  // namespace

Reordered reorder_by_indices(Int64Span ids, std::span<const std::int32_t> shard_ids, std::size_t num_shards) {
  if (ids.size() != shard_ids.size()) {
    throw std::invalid_argument("shard_ids has " + std::to_string(shard_ids.size()) + " entries for " +
                                std::to_string(ids.size()) + " inputs; give one per input");
  }
  IdNumbers index(std::min<std::size_t>(ids.size(), 1024));
  std::vector<std::int64_t> first_seen;
  Reordered result{{}, std::vector<std::int32_t>(num_shards, 0)};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (shard_ids[i] < 0 || static_cast<std::size_t>(shard_ids[i]) >= num_shards) {
      throw std::invalid_argument("shard_ids[" + std::to_string(i) + "] is " + std::to_string(shard_ids[i]) +
                                  ", outside [0, " + std::to_string(num_shards) + ")");
    }
    const auto position = static_cast<std::int64_t>(i);
    if (index.insert(ids[i], position) != position) continue;
    first_seen.push_back(position);
    ++result.shard_sizes[shard_ids[i]];
  }
  std::vector<std::size_t> next(num_shards, 0);
  for (std::size_t s = 1; s < num_shards; ++s) next[s] = next[s - 1] + result.shard_sizes[s - 1];
  result.positions.resize(first_seen.size());
  for (std::size_t i = first_seen.size(); i-- > 0;) {
    result.positions[next[shard_ids[first_seen[i]]]++] = first_seen[i];
  }
  return result;
}

FusedReordered fused_reorder_by_indices(std::span<const Int64Span> inputs, std::size_t num_shards, Int64Span dims,
                                        bool rank0_empty) {
  check_fused_arguments(inputs, num_shards, dims, rank0_empty);
  const std::size_t num_slots = inputs.size();
  std::vector<Slot> slots(num_slots);
  FusedReordered result{{}, std::vector<std::int32_t>(num_shards, 0), {}, {}};
  result.sharded_slot_sizes.assign(num_shards * num_slots, 0);
  parallel_for(num_slots, [&](std::size_t m) {
    slots[m] = make_slot(inputs[m], num_shards, rank0_empty);
    for (const std::int32_t shard : slots[m].shard_of) ++result.sharded_slot_sizes[shard * num_slots + m];
  });

  // Where the ids, and the rows, of each shard and slot begin.
  std::vector<std::int32_t> id_start(num_shards * num_slots);
  std::vector<std::int32_t> float_start(num_shards * num_slots);
  std::int32_t num_ids = 0;
  std::int32_t num_floats = 0;
  for (std::size_t cell = 0; cell < id_start.size(); ++cell) {
    const std::int32_t size = result.sharded_slot_sizes[cell];
    id_start[cell] = num_ids;
    float_start[cell] = num_floats;
    num_ids += size;
    num_floats += size * static_cast<std::int32_t>(dims[cell % num_slots]);
    result.shard_sizes[cell / num_slots] += size;
  }

  std::vector<std::size_t> input_start(num_slots + 1, 0);
  for (std::size_t m = 0; m < num_slots; ++m) input_start[m + 1] = input_start[m] + inputs[m].size();
  result.output.resize(static_cast<std::size_t>(num_ids));
  result.offsets.resize(input_start.back());
  parallel_for(num_slots, [&](std::size_t m) {
    const Slot& slot = slots[m];
    std::vector<std::int32_t> offset_of(slot.unique.size());
    for (std::size_t u = 0; u < slot.unique.size(); ++u) {
      const std::size_t cell = slot.shard_of[u] * num_slots + m;
      result.output[id_start[cell]++] = slot.unique[u];
      offset_of[u] = float_start[cell];
      float_start[cell] += static_cast<std::int32_t>(dims[m]);
    }
    std::int32_t* offsets = result.offsets.data() + input_start[m];
    for (std::size_t i = 0; i < slot.inverse.size(); ++i) offsets[i] = offset_of[slot.inverse[i]];
  });
  return result;
}

void find_positions(Int64Span ids, Int64Span input, bool use_threads, std::span<std::int64_t> out) {
  if (out.size() != input.size()) throw std::invalid_argument("out must have one entry per input");
  IdNumbers index(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) index.insert(ids[i], static_cast<std::int64_t>(i));
  const std::size_t num_tasks = use_threads ? std::max<std::size_t>(1, input.size() / kIdsPerTask) : 1;
  parallel_for(num_tasks, [&](std::size_t task) {
    const std::size_t last = input.size() * (task + 1) / num_tasks;
    for (std::size_t i = input.size() * task / num_tasks; i < last; ++i) {
      out[i] = index.find(input[i]);
      if (out[i] == IdNumbers::kMissing) throw std::invalid_argument("Unable to map id " + std::to_string(input[i]));
    }
  });
}

}  // namespace monolith
