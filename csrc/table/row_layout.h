// What a row is made of: segments, each with its width, optimizer, initializer and compressor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "optim/compressor.h"
#include "optim/initializer.h"
#include "optim/optimizer.h"
#include "table/table_hash.h"

namespace monolith {

struct SegmentConfig {
  std::uint32_t dim = 0;
  OptimizerConfig optimizer;
  InitializerConfig initializer;
  CompressorConfig compressor;
};

// Where the parts of a row lie, and how they are read and changed.
//
// A training row is `dim` floats of weights and the optimizers' state; a serving row is the compressed weights alone.
// `weights` and `state` below point to the two parts of one row.
class RowLayout {
 public:
  RowLayout(std::span<const SegmentConfig> segments, bool serving);

  std::size_t dim() const { return dim_; }
  std::size_t num_segments() const { return segments_.size(); }
  std::size_t weight_bytes() const { return weight_bytes_; }
  std::size_t state_bytes() const { return state_bytes_; }
  std::size_t row_bytes() const { return weight_bytes_ + state_bytes_; }
  bool serving() const { return serving_; }

  // Reading a row is a plain copy of its weights (no quantisation, no compression).
  bool reads_plain() const { return reads_plain_; }
  void read(const std::byte* weights, float* out) const;

  // The stored weights as floats, not through the quantiser of a training lookup.
  void read_stored(const std::byte* weights, float* out) const;
  // In a serving row, a value that its compressor has no finite code for becomes the largest one that has.
  void write(std::byte* weights, const float* values) const;
  // Returns whether all weights are finite then; if not, the caller puts back what they were.
  bool add(std::byte* weights, const float* values) const;
  void initialize(std::int64_t id, std::byte* weights, std::byte* state) const;
  // For a row whose weights are about to be assigned: zeros meanwhile.
  void initialize_state(std::byte* weights, std::byte* state) const;

  // Reading the row gives zeros only.
  bool reads_as_zeros(const std::byte* weights) const;

  // Compressors whose readings depend on the step: on to `global_step`, never back; or back to the first step.
  void advance_compressors(std::int64_t global_step) const;
  void restart_compressors() const;

  // One optimizer step of the row of the id that has this hash in its table. `learning_rates` has one value a segment.
  // Returns whether all weights and all numbers of the state are finite then; if not, the caller puts back what they
  // were, which is in `old`.
  bool step(const TableHash& ids, std::uint64_t hash, std::byte* weights, std::byte* state, const float* gradient,
            std::span<const float> learning_rates, std::int64_t global_step, const OldRow& old) const;

  // Whether one optimizer steps whole rows, so that step_rows may step several with one call (StepFunction).
  bool steps_rows() const;
  std::size_t step_rows(const RowsToStep& rows, std::span<const float> learning_rates, std::int64_t global_step,
                        const StepRoom& room) const {
    return segments_[0].optimizer.step(rows, {learning_rates[0], global_step, 0}, room);
  }

  // Of rows as files have them, weights then state: the number of the first with a weight or a number of its state that
  // is not finite, or how many rows there are.
  std::size_t first_not_finite(std::span<const std::byte> rows) const;
  bool is_finite(const std::byte* row) const { return is_finite(row, row + weight_bytes_); }
  bool is_finite(const std::byte* weights, const std::byte* state) const;
  // Says what is not finite in such a row: "weight 3 is nan".
  std::string not_finite_part(const std::byte* row) const;

 private:
  struct Segment {
    std::size_t dim;
    std::size_t first_weight;   // in floats
    std::size_t first_state;    // in floats
    std::size_t first_encoded;  // in bytes, serving rows
    RowOptimizer optimizer;
    Initializer initializer;
    Compressor compressor;
    bool stochastic_rounding;
  };

  std::vector<Segment> segments_;
  std::size_t dim_ = 0;
  std::size_t weight_bytes_ = 0;
  std::size_t state_bytes_ = 0;
  bool serving_;
  bool reads_plain_ = true;
  bool all_numbers_ = true;  // a row is floats and nothing else
};

}  // namespace monolith
