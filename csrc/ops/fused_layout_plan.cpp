#include "ops/fused_layout_plan.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace monolith {

namespace {

[[noreturn]] void fail(const std::string& layout, const std::string& problem) {
  throw std::invalid_argument("layout '" + layout + "': " + problem);
}

std::string show(const LayoutShape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// The shape of one sample of a layout that is a single tensor.
LayoutShape joined_shape(Joining joining, const std::vector<PlacedSlice>& slices) {
  const auto width = static_cast<std::int64_t>(slices[0].width);
  if (joining == Joining::kAddN) return {width};
  if (joining == Joining::kStack) return {static_cast<std::int64_t>(slices.size()), width};
  std::int64_t total = 0;
  for (const PlacedSlice& slice : slices) total += static_cast<std::int64_t>(slice.width);
  return {total};
}

LayoutShape own_shape(const PlacedSlice& slice) {
  const auto width = static_cast<std::int64_t>(slice.width);
  if (slice.pooling != Pooling::kFirstN) return {width};
  return {static_cast<std::int64_t>(slice.length), width};
}

}  // namespace

Joining joining_from_name(std::string_view name) {
  if (name == "CONCAT") return Joining::kConcat;
  if (name == "STACK") return Joining::kStack;
  if (name == "ADDN") return Joining::kAddN;
  if (name == "NONE") return Joining::kNone;
  throw std::invalid_argument("unknown out_type '" + std::string(name) + "'; choose CONCAT, STACK, ADDN or NONE");
}

FusedLayoutPlan::FusedLayoutPlan(std::vector<LayoutFeature> features, std::size_t num_tables)
    : features_(std::move(features)), num_tables_(num_tables), slices_of_feature_(features_.size()) {
  for (const LayoutFeature& feature : features_) {
    if (feature.dim <= 0 || feature.dim > std::numeric_limits<std::int32_t>::max()) {
      throw std::invalid_argument("feature '" + feature.name + "': slice_dims must add up to a positive width, got " +
                                  std::to_string(feature.dim));
    }
    if (feature.table < 0 || static_cast<std::size_t>(feature.table) >= num_tables) {
      throw std::invalid_argument("feature '" + feature.name + "': there is no table " + std::to_string(feature.table) +
                                  ", only " + std::to_string(num_tables));
    }
  }
}

PlacedSlice FusedLayoutPlan::checked_slice(const std::string& layout, Joining joining, const SliceRange& range) const {
  if (range.feature < 0 || static_cast<std::size_t>(range.feature) >= features_.size()) {
    fail(layout, "there is no feature " + std::to_string(range.feature));
  }
  const LayoutFeature& feature = features_[range.feature];
  if (range.start < 0 || range.start >= range.end || range.end > feature.dim) {
    fail(layout, "columns [" + std::to_string(range.start) + ", " + std::to_string(range.end) + ") of feature '" +
                     feature.name + "' are not in its rows of " + std::to_string(feature.dim) + " floats");
  }
  PlacedSlice slice;
  slice.feature = static_cast<std::size_t>(range.feature);
  slice.start = static_cast<std::size_t>(range.start);
  slice.width = static_cast<std::size_t>(range.end - range.start);
  slice.pooling = range.pooling;
  if (range.pooling == Pooling::kFirstN) {
    // Beside others, a sequence would have to be wider than its slice: no shape says what that means.
    if (joining != Joining::kNone) {
      fail(layout, "feature '" + feature.name + "' is a sequence (FIRSTN) and can only be joined by NONE");
    }
    if (range.max_sequence_length <= 0 || range.max_sequence_length > std::numeric_limits<std::int32_t>::max()) {
      fail(layout, "feature '" + feature.name + "' is a sequence (FIRSTN) and needs a positive max_sequence_length, " +
                       "got " + std::to_string(range.max_sequence_length));
    }
    slice.length = static_cast<std::size_t>(range.max_sequence_length);
  }
  return slice;
}

std::size_t FusedLayoutPlan::add_output(const std::string& layout, const LayoutShape& shape,
                                        const LayoutShape& sample_shape) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] <= 0 && !(i == 0 && shape[i] == -1)) {
      fail(layout, "sizes of a shape must be positive (or -1 for the batch, first), got " + show(shape));
    }
  }
  LayoutShape expected = sample_shape;
  expected.insert(expected.begin(), shape.empty() ? -1 : shape[0]);
  if (shape != expected) fail(layout, "its slices make a shape of " + show(expected) + ", got " + show(shape));
  LayoutOutput output{shape[0], 1, layout};
  for (const std::int64_t size : sample_shape) output.width *= static_cast<std::size_t>(size);
  outputs_.push_back(std::move(output));
  slices_of_output_.emplace_back();
  return outputs_.size() - 1;
}

void FusedLayoutPlan::place(const PlacedSlice& slice) {
  slices_of_output_[slice.output].push_back(slices_.size());
  slices_of_feature_[slice.feature].push_back(slices_.size());
  slices_.push_back(slice);
}

void FusedLayoutPlan::add_layout(const std::string& name, Joining joining, const std::vector<SliceRange>& slices,
                                 const std::vector<LayoutShape>& shapes) {
  if (slices.empty()) fail(name, "it has no slices");
  const std::size_t expected = joining == Joining::kNone ? slices.size() : 1;
  if (shapes.size() != expected) {
    fail(name, "it makes " + std::to_string(expected) + " tensors of " + std::to_string(slices.size()) +
                   " slices and needs as many shapes, got " + std::to_string(shapes.size()));
  }
  std::vector<PlacedSlice> placed;
  for (const SliceRange& range : slices) placed.push_back(checked_slice(name, joining, range));
  if (joining == Joining::kNone) {
    for (std::size_t i = 0; i < placed.size(); ++i) {
      placed[i].output = add_output(name, shapes[i], own_shape(placed[i]));
      place(placed[i]);
    }
    return;
  }
  const auto other_width = [&](const PlacedSlice& slice) { return slice.width != placed[0].width; };
  if (joining != Joining::kConcat && std::any_of(placed.begin(), placed.end(), other_width)) {
    fail(name, "STACK and ADDN need slices of one width; use CONCAT or NONE");
  }
  const std::size_t output = add_output(name, shapes[0], joined_shape(joining, placed));
  std::size_t column = 0;
  for (std::size_t i = 0; i < placed.size(); ++i) {
    placed[i].output = output;
    placed[i].adds = joining == Joining::kAddN && i > 0;
    placed[i].column = joining == Joining::kAddN ? 0 : column;
    column += placed[i].width;
    place(placed[i]);
  }
}

}  // namespace monolith
