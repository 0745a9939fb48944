#include "ops/fused_layout.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/fused_layout_index.h"
#include "ops/parallel_for.h"

namespace monolith {

namespace {

// Floats of one task: fewer are not worth a thread.
constexpr std::size_t kFloatsPerTask = 16384;
// How many ids ahead rows are fetched, and how many samples ahead the rows of an output.
constexpr std::size_t kPrefetchDistance = 12;
constexpr std::size_t kPrefetchSamples = 8;

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

// The row of each occurrence. Float is const or not.
template <class Float>
struct Rows {
  const std::uint64_t* fid_offset;
  Float* const* blocks;

  Float* operator[](std::size_t k) const { return blocks[fid_offset[k] >> 32] + (fid_offset[k] & 0xFFFFFFFFu); }
};

template <bool kForWriting>
void prefetch(const float* floats, std::size_t size) {
  for (std::size_t at = 0; at < size; at += 16) __builtin_prefetch(floats + at, kForWriting ? 1 : 0);
}

// Fetches the rows that come kPrefetchDistance after the ids [begin, end), as far as there are ids.
template <class Float>
void prefetch_rows(const Rows<Float>& rows, std::size_t begin, std::size_t end, std::size_t num_ids,
                   const PlacedSlice& slice) {
  for (std::size_t k = begin + kPrefetchDistance; k < end + kPrefetchDistance && k < num_ids; ++k) {
    prefetch<!std::is_const_v<Float>>(rows[k] + slice.start, slice.width);
  }
}

// `Count` times four columns from `at` on, summed in registers. Returns the first column left over.
template <int Count>
std::size_t pool_columns(const Rows<const float>& rows, std::size_t begin, std::size_t end, const PlacedSlice& slice,
                         float divisor, std::size_t at, float* to) {
  for (; at + Count * 4 <= slice.width; at += Count * 4) {
    Four sum[Count] = {};
    for (std::size_t k = begin; k < end; ++k) {
      // Not `auto`: it would forget that rows need not be aligned.
      const Four* row = reinterpret_cast<const Four*>(rows[k] + slice.start + at);
      for (int i = 0; i < Count; ++i) sum[i] += row[i];
    }
    for (int i = 0; i < Count; ++i) reinterpret_cast<Four*>(to + at)[i] = divisor == 1 ? sum[i] : sum[i] / divisor;
  }
  return at;
}

// Writes what a slice makes of the ids [begin, end): slice.size() floats.
void pool_sample(const Rows<const float>& rows, std::size_t begin, std::size_t end, const PlacedSlice& slice,
                 float* to) {
  if (slice.pooling == Pooling::kFirstN) {
    const std::size_t kept = std::min(slice.length, end - begin);
    for (std::size_t i = 0; i < kept; ++i) {
      std::memcpy(to + i * slice.width, rows[begin + i] + slice.start, slice.width * sizeof(float));
    }
    std::fill(to + kept * slice.width, to + slice.size(), 0.0f);
    return;
  }
  const bool divided = slice.pooling == Pooling::kMean && end - begin > 1;
  const float divisor = divided ? static_cast<float>(end - begin) : 1.0f;
  std::size_t at = pool_columns<4>(rows, begin, end, slice, divisor, 0, to);
  at = pool_columns<1>(rows, begin, end, slice, divisor, at, to);
  for (; at < slice.width; ++at) {
    float sum = 0;
    for (std::size_t k = begin; k < end; ++k) sum += rows[k][slice.start + at];
    to[at] = sum / divisor;
  }
}

void add(const float* from, std::size_t size, float* __restrict to) {
  for (std::size_t i = 0; i < size; ++i) to[i] += from[i];
}

// Samples [first, last) of one slice of an output.
void write_slice(const Rows<const float>& rows, const FeatureRows& feature, const PlacedSlice& slice, std::size_t first,
                 std::size_t last, std::size_t out_width, std::vector<float>& scratch, float* out) {
  scratch.resize(slice.size());
  float* to = out + first * out_width + slice.column;
  if (feature.shared) pool_sample(rows, feature.begin(0), feature.end(0), slice, scratch.data());
  for (std::size_t sample = first; sample < last; ++sample, to += out_width) {
    const std::size_t begin = feature.begin(sample);
    const std::size_t end = feature.end(sample);
    if (sample + kPrefetchSamples < last) prefetch<true>(to + kPrefetchSamples * out_width, slice.size());
    if (!feature.shared) {
      prefetch_rows(rows, begin, end, feature.last_fid(), slice);
      pool_sample(rows, begin, end, slice, slice.adds ? scratch.data() : to);
    }
    if (slice.adds) {
      add(scratch.data(), slice.size(), to);
    } else if (feature.shared) {
      std::memcpy(to, scratch.data(), slice.size() * sizeof(float));
    }
  }
}

template <class Float>
std::vector<std::size_t> sizes_of(std::span<const std::span<Float>> blocks) {
  std::vector<std::size_t> sizes;
  for (const auto& block : blocks) sizes.push_back(block.size());
  return sizes;
}

template <class Float>
std::vector<Float*> pointers_of(std::span<const std::span<Float>> blocks) {
  std::vector<Float*> pointers;
  for (const auto& block : blocks) pointers.push_back(block.data());
  return pointers;
}

template <class Float>
void check_outputs(const FusedLayoutPlan& plan, std::size_t batch_size, std::span<const std::span<Float>> outs,
                   bool may_be_empty) {
  if (outs.size() != plan.outputs().size()) {
    throw std::invalid_argument("the layouts have " + std::to_string(plan.outputs().size()) + " tensors, got " +
                                std::to_string(outs.size()));
  }
  for (std::size_t o = 0; o < outs.size(); ++o) {
    const LayoutOutput& output = plan.outputs()[o];
    if (output.batch >= 0 && static_cast<std::size_t>(output.batch) != batch_size) {
      throw std::invalid_argument("layout '" + output.layout + "' is for batches of " + std::to_string(output.batch) +
                                  ", got " + std::to_string(batch_size) + "; -1 in its shape takes any");
    }
    const std::size_t size = outs[o].size();
    if (size == 0 && may_be_empty) continue;
    if (size % output.width != 0 || size / output.width != batch_size) {
      throw std::invalid_argument("a tensor of layout '" + output.layout + "' must have " + std::to_string(batch_size) +
                                  " times " + std::to_string(output.width) + " floats, got " + std::to_string(size));
    }
  }
}

// Some samples of one output.
struct Piece {
  std::size_t output;
  std::size_t first;
  std::size_t last;
};

// Pieces are long: a feature's rows are read again and again while its slice is written, and stay in the cache.
std::vector<Piece> cut_outputs(const FusedLayoutPlan& plan, std::size_t batch_size) {
  constexpr std::size_t kPiecesPerThread = 4;
  const auto threads = static_cast<std::size_t>(num_threads());
  const std::size_t share = threads == 1 ? batch_size : batch_size / (threads * kPiecesPerThread);
  std::vector<Piece> pieces;
  for (std::size_t o = 0; o < plan.outputs().size(); ++o) {
    const std::size_t step = std::max<std::size_t>({1, share, kFloatsPerTask / plan.outputs()[o].width});
    for (std::size_t first = 0; first < batch_size; first += step) {
      pieces.push_back({o, first, std::min(batch_size, first + step)});
    }
  }
  return pieces;
}

// Calls task(i) for all i; on this thread alone if there is little to do.
template <class Task>
void run(std::size_t num_tasks, std::size_t floats, const Task& task) {
  if (floats >= 2 * kFloatsPerTask) {
    parallel_for(num_tasks, task);
  } else {
    for (std::size_t i = 0; i < num_tasks; ++i) task(i);
  }
}

// Rows of a feature that a task adds to: those of part `part` of `num_parts`.
struct Share {
  std::size_t feature;
  std::uint32_t part;
  std::uint32_t num_parts;

  bool owns(std::uint64_t fid_offset) const {
    if (num_parts == 1) return true;
    const std::uint64_t mixed = (fid_offset ^ (fid_offset >> 32)) * 0x9E3779B97F4A7C15u;
    return static_cast<std::uint32_t>(((mixed >> 32) * num_parts) >> 32) == part;
  }
};

// Adds the gradient of one sample of a slice to the ids [begin, end) that the share owns.
void spread_sample(const Rows<float>& rows, const Share& share, std::size_t begin, std::size_t end,
                   const PlacedSlice& slice, const float* grad, float* scratch) {
  const bool sequence = slice.pooling == Pooling::kFirstN;
  if (slice.pooling == Pooling::kMean && end - begin > 1) {
    const auto count = static_cast<float>(end - begin);
    for (std::size_t at = 0; at < slice.width; ++at) scratch[at] = grad[at] / count;
    grad = scratch;
  }
  const std::size_t kept = sequence ? std::min(slice.length, end - begin) : end - begin;
  for (std::size_t i = 0; i < kept; ++i) {
    if (!share.owns(rows.fid_offset[begin + i])) continue;
    add(sequence ? grad + i * slice.width : grad, slice.width, rows[begin + i] + slice.start);
  }
}

// Adds the gradient of all samples of a slice.
void spread_slice(const Rows<float>& rows, const Share& share, const FeatureRows& feature, const PlacedSlice& slice,
                  std::size_t batch_size, std::size_t out_width, std::vector<float>& scratch, const float* grad_out) {
  scratch.assign(2 * slice.size(), 0.0f);
  const float* grad = grad_out + slice.column;
  if (feature.shared) {
    float* const total = scratch.data() + slice.size();
    for (std::size_t sample = 0; sample < batch_size; ++sample) add(grad + sample * out_width, slice.size(), total);
    spread_sample(rows, share, feature.begin(0), feature.end(0), slice, total, scratch.data());
    return;
  }
  for (std::size_t sample = 0; sample < feature.rows; ++sample, grad += out_width) {
    const std::size_t begin = feature.begin(sample);
    const std::size_t end = feature.end(sample);
    if (sample + kPrefetchSamples < feature.rows) {
      prefetch<false>(grad + kPrefetchSamples * out_width, slice.size());
    }
    prefetch_rows(rows, begin, end, feature.last_fid(), slice);
    spread_sample(rows, share, begin, end, slice, grad, scratch.data());
  }
}

// Floats that the gradient of each feature moves.
std::vector<std::size_t> work_of_features(const FusedLayoutPlan& plan, const CheckedIndex& index,
                                          std::size_t batch_size) {
  std::vector<std::size_t> work(plan.features().size(), 0);
  for (const PlacedSlice& slice : plan.slices()) {
    const FeatureRows& rows = index.rows(slice.feature);
    work[slice.feature] += (rows.num_fids() + (rows.shared ? batch_size * slice.length : 0)) * slice.width;
  }
  return work;
}

// One share per feature, more for those that alone would keep a thread busy for longer than the others.
std::vector<Share> share_features(const CheckedIndex& index, const std::vector<std::size_t>& work,
                                  std::size_t threads) {
  const std::size_t total = std::accumulate(work.begin(), work.end(), std::size_t{0});
  const std::size_t fair = std::max(kFloatsPerTask, total / threads);
  std::vector<Share> shares;
  for (std::size_t f = 0; f < work.size(); ++f) {
    std::size_t parts = std::clamp<std::size_t>(work[f] / fair, 1, threads);
    if (parts > 1 && (index.rows(f).shared || !index.is_regular(f))) parts = 1;
    for (std::size_t part = 0; part < parts; ++part) {
      shares.push_back({f, static_cast<std::uint32_t>(part), static_cast<std::uint32_t>(parts)});
    }
  }
  return shares;
}

}  // namespace

void fused_layout(const FusedLayoutPlan& plan, const LayoutIndex& index,
                  std::span<const std::span<const float>> embeddings, std::span<const std::span<float>> outs) {
  check_outputs(plan, index.batch_size, outs, false);
  const CheckedIndex checked(plan, index, sizes_of(embeddings), false);
  const std::vector<const float*> blocks = pointers_of(embeddings);
  const Rows<const float> rows{index.fid_offset.data(), blocks.data()};
  std::size_t floats = index.fid_offset.size();
  for (const auto& out : outs) floats += out.size();
  const std::vector<Piece> pieces = cut_outputs(plan, index.batch_size);
  run(pieces.size(), floats, [&](std::size_t task) {
    const Piece& piece = pieces[task];
    std::vector<float> scratch;
    for (const std::size_t s : plan.slices_of_output(piece.output)) {
      const PlacedSlice& slice = plan.slices()[s];
      write_slice(rows, checked.rows(slice.feature), slice, piece.first, piece.last, plan.outputs()[piece.output].width,
                  scratch, outs[piece.output].data());
    }
  });
}

void fused_layout_grad(const FusedLayoutPlan& plan, const LayoutIndex& index,
                       std::span<const std::span<const float>> grad_outs,
                       std::span<const std::span<float>> grad_embeddings) {
  check_outputs(plan, index.batch_size, grad_outs, true);
  const CheckedIndex checked(plan, index, sizes_of(grad_embeddings), true);
  const std::vector<float*> blocks = pointers_of(grad_embeddings);
  const Rows<float> rows{index.fid_offset.data(), blocks.data()};
  const std::vector<std::size_t> work = work_of_features(plan, checked, index.batch_size);
  // Features that name the same rows take turns, so that nobody adds to a row while another does.
  const bool apart = checked.features_are_apart();
  const std::vector<Share> shares = share_features(checked, work, apart ? static_cast<std::size_t>(num_threads()) : 1);
  const std::size_t total = apart ? std::accumulate(work.begin(), work.end(), std::size_t{0}) : 0;
  run(shares.size(), total, [&](std::size_t task) {
    const Share& share = shares[task];
    std::vector<float> scratch;
    for (const std::size_t s : plan.slices_of_feature(share.feature)) {
      const PlacedSlice& slice = plan.slices()[s];
      if (grad_outs[slice.output].empty()) continue;
      spread_slice(rows, share, checked.rows(share.feature), slice, index.batch_size,
                   plan.outputs()[slice.output].width, scratch, grad_outs[slice.output].data());
    }
  });
}

}  // namespace monolith
