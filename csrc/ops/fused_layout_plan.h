// How the rows of looked-up ids become the tensors that a model takes: the part that is the same for every batch.
//
// A layout joins slices of features. A slice is a range of columns of a feature's rows, pooled over the ids of a
// sample; joining says where the pooled slices go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/pooling.h"

namespace monolith {

enum class Joining {
  kConcat,  // [b, sum of widths]
  kStack,   // [b, slices, width]
  kAddN,    // [b, width]
  kNone,    // one tensor per slice: [b, width], or [b, max_sequence_length, width] for kFirstN
};
Joining joining_from_name(std::string_view name);  // "CONCAT", "STACK", "ADDN", "NONE"

struct LayoutFeature {
  std::string name;
  std::int64_t table = 0;
  std::int64_t dim = 0;  // floats of a row
};

struct SliceRange {
  std::int64_t feature = 0;
  std::int64_t start = 0;  // columns [start, end) of the feature's row
  std::int64_t end = 0;
  Pooling pooling = Pooling::kSum;       // not kSqrtn
  std::int64_t max_sequence_length = 0;  // for kFirstN
};

// Sizes of an output; the first may be -1, which stands for the batch.
using LayoutShape = std::vector<std::int64_t>;

// A slice, and its place in an output.
struct PlacedSlice {
  std::size_t feature = 0;
  std::size_t start = 0;
  std::size_t width = 0;
  Pooling pooling = Pooling::kSum;  // not kSqrtn
  std::size_t length = 1;           // positions that it writes: more than 1 only for kFirstN
  std::size_t output = 0;
  std::size_t column = 0;  // where it begins in the output's row
  bool adds = false;       // to what earlier slices of the output wrote

  std::size_t size() const { return length * width; }
};

struct LayoutOutput {
  std::int64_t batch = -1;  // what the first size of the shape must be; -1: whatever comes
  std::size_t width = 0;    // floats per sample
  std::string layout;
};

// Every float of every output is written by a slice.
class FusedLayoutPlan {
 public:
  // Features in the order of their names; their tables are below num_tables.
  FusedLayoutPlan(std::vector<LayoutFeature> features, std::size_t num_tables);

  // Outputs are numbered in the order in which layouts are added.
  // Throws std::invalid_argument if a slice is not there, or the shapes are not what the joining gives.
  void add_layout(const std::string& name, Joining joining, const std::vector<SliceRange>& slices,
                  const std::vector<LayoutShape>& shapes);

  std::size_t num_tables() const { return num_tables_; }
  const std::vector<LayoutFeature>& features() const { return features_; }
  const std::vector<LayoutOutput>& outputs() const { return outputs_; }
  const std::vector<PlacedSlice>& slices() const { return slices_; }
  // Indices of the slices of one output, and of one feature, in the order in which they were added.
  const std::vector<std::size_t>& slices_of_output(std::size_t output) const { return slices_of_output_[output]; }
  const std::vector<std::size_t>& slices_of_feature(std::size_t feature) const { return slices_of_feature_[feature]; }

 private:
  PlacedSlice checked_slice(const std::string& layout, Joining joining, const SliceRange& range) const;
  std::size_t add_output(const std::string& layout, const LayoutShape& shape, const LayoutShape& sample_shape);
  void place(const PlacedSlice& slice);

  std::vector<LayoutFeature> features_;
  std::size_t num_tables_;
  std::vector<LayoutOutput> outputs_;
  std::vector<PlacedSlice> slices_;
  std::vector<std::vector<std::size_t>> slices_of_output_;
  std::vector<std::vector<std::size_t>> slices_of_feature_;
};

}  // namespace monolith
