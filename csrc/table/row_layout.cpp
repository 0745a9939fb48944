#include "table/row_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "ops/finite.h"
#include "table/id_hash.h"

namespace monolith {

namespace {

float* floats(std::byte* bytes) { return reinterpret_cast<float*>(bytes); }
const float* floats(const std::byte* bytes) { return reinterpret_cast<const float*>(bytes); }
std::uint8_t* octets(std::byte* bytes) { return reinterpret_cast<std::uint8_t*>(bytes); }
const std::uint8_t* octets(const std::byte* bytes) { return reinterpret_cast<const std::uint8_t*>(bytes); }

bool all_finite(const float* values, std::size_t count) {
  return monolith::all_finite(reinterpret_cast<const std::byte*>(values), count);
}

}  // namespace

RowLayout::RowLayout(std::span<const SegmentConfig> segments, bool serving) : serving_(serving) {
  if (segments.empty()) throw std::invalid_argument("a table needs at least one segment, got none");
  std::size_t state_floats = 0;
  std::size_t encoded_bytes = 0;
  segments_.reserve(segments.size());
  for (const SegmentConfig& config : segments) {
    if (config.dim == 0) throw std::invalid_argument("a segment's dim must be positive, got 0");
    Segment segment{config.dim,
                    dim_,
                    state_floats,
                    encoded_bytes,
                    RowOptimizer(config.optimizer, config.dim),
                    Initializer(config.initializer),
                    Compressor(config.compressor, config.dim),
                    config.optimizer.stochastic_rounding_float16};
    dim_ += config.dim;
    state_floats += segment.optimizer.state_floats();
    encoded_bytes += segment.compressor.encoded_bytes();
    reads_plain_ = reads_plain_ && (serving ? config.compressor.kind == "fp32" : segment.compressor.is_identity());
    all_numbers_ = all_numbers_ && (serving ? config.compressor.kind == "fp32"
                                            : segment.optimizer.state_numbers() == segment.optimizer.state_floats());
    segments_.push_back(std::move(segment));
  }
  weight_bytes_ = serving ? encoded_bytes : dim_ * sizeof(float);
  state_bytes_ = serving ? 0 : state_floats * sizeof(float);
}

void RowLayout::read(const std::byte* weights, float* out) const {
  if (reads_plain_) {
    std::memcpy(out, weights, dim_ * sizeof(float));
    return;
  }
  for (const Segment& segment : segments_) {
    float* to = out + segment.first_weight;
    if (serving_) {
      segment.compressor.decode(octets(weights) + segment.first_encoded, to);
    } else {
      segment.compressor.retrieve(floats(weights) + segment.first_weight, to);
    }
  }
}

void RowLayout::read_stored(const std::byte* weights, float* out) const {
  if (serving_) {
    read(weights, out);
  } else {
    std::memcpy(out, weights, dim_ * sizeof(float));
  }
}

bool RowLayout::reads_as_zeros(const std::byte* weights) const {
  std::vector<float> values(dim_);
  read(weights, values.data());
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

void RowLayout::advance_compressors(std::int64_t global_step) const {
  for (const Segment& segment : segments_) segment.compressor.advance(global_step);
}

void RowLayout::restart_compressors() const {
  for (const Segment& segment : segments_) segment.compressor.set_step(0);
}

void RowLayout::write(std::byte* weights, const float* values) const {
  if (!serving_) {
    std::memcpy(weights, values, dim_ * sizeof(float));
    return;
  }
  for (const Segment& segment : segments_) {
    const float* from = values + segment.first_weight;
    const float largest = segment.compressor.largest();
    thread_local std::vector<float> held;
    if (largest < std::numeric_limits<float>::max()) {
      held.resize(segment.dim);
      for (std::size_t i = 0; i < segment.dim; ++i) held[i] = std::clamp(from[i], -largest, largest);
      from = held.data();
    }
    segment.compressor.encode(from, octets(weights) + segment.first_encoded);
  }
}

bool RowLayout::add(std::byte* weights, const float* values) const {
  if (!serving_) {
    float* stored = floats(weights);
    for (std::size_t i = 0; i < dim_; ++i) stored[i] += values[i];
    return all_finite(stored, dim_);
  }
  std::vector<float> sum(dim_);
  read(weights, sum.data());
  for (std::size_t i = 0; i < dim_; ++i) sum[i] += values[i];
  write(weights, sum.data());
  return all_finite(sum.data(), dim_);
}

void RowLayout::initialize(std::int64_t id, std::byte* weights, std::byte* state) const {
  std::vector<float> serving_values(serving_ ? dim_ : 0);
  float* values = serving_ ? serving_values.data() : floats(weights);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    segment.initializer.fill(static_cast<std::uint64_t>(id), i, values + segment.first_weight, segment.dim);
    if (!serving_) segment.optimizer.init_state(floats(state) + segment.first_state);
  }
  if (serving_) write(weights, values);
}

void RowLayout::initialize_state(std::byte* weights, std::byte* state) const {
  std::memset(weights, 0, weight_bytes_);
  if (serving_) return;
  for (const Segment& segment : segments_) segment.optimizer.init_state(floats(state) + segment.first_state);
}

bool RowLayout::step(const TableHash& ids, std::uint64_t hash, std::byte* weights, std::byte* state,
                     const float* gradient, std::span<const float> learning_rates, std::int64_t global_step,
                     const OldRow& old) const {
  StepContext context;
  context.global_step = global_step;
  bool is_finite = true;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    float* segment_weights = floats(weights) + segment.first_weight;
    float* segment_state = floats(state) + segment.first_state;
    const float* segment_gradient = gradient + segment.first_weight;
    const OldRow old_segment{old.weights + segment.first_weight, old.state + segment.first_state};
    context.learning_rate = learning_rates[i];
    if (segment.stochastic_rounding) {
      // Depends on id, step and segment alone, so rounding does not depend on threads or order.
      const auto step_hash = static_cast<std::int64_t>(hash_id(global_step * 1024 + static_cast<std::int64_t>(i)));
      context.random_key = hash_id(ids.id_of(hash) ^ step_hash);
    }
    if (segment.compressor.is_identity()) {
      is_finite &= segment.optimizer.step(segment_weights, segment_state, segment_gradient, context, old_segment);
    } else {
      std::vector<float> through(segment_gradient, segment_gradient + segment.dim);
      segment.compressor.backward(segment_weights, through.data(), global_step);
      is_finite &= segment.optimizer.step(segment_weights, segment_state, through.data(), context, old_segment);
    }
  }
  return is_finite;
}

bool RowLayout::steps_rows() const {
  return segments_.size() == 1 && segments_[0].compressor.is_identity() && segments_[0].optimizer.steps_rows();
}

std::size_t RowLayout::first_not_finite(std::span<const std::byte> rows) const {
  const std::size_t num_rows = rows.size() / row_bytes();
  if (all_numbers_ && monolith::all_finite(rows.data(), rows.size() / sizeof(float))) return num_rows;
  for (std::size_t row = 0; row < num_rows; ++row) {
    if (!is_finite(rows.data() + row * row_bytes())) return row;
  }
  return num_rows;
}

bool RowLayout::is_finite(const std::byte* weights, const std::byte* state) const {
  if (serving_) {
    thread_local std::vector<float> values;
    values.resize(dim_);
    read(weights, values.data());
    return all_finite(values.data(), dim_);
  }
  return monolith::all_finite(weights, dim_) && std::ranges::all_of(segments_, [&](const Segment& segment) {
           return monolith::all_finite(state + segment.first_state * sizeof(float), segment.optimizer.state_numbers());
         });
}

std::string RowLayout::not_finite_part(const std::byte* row) const {
  std::vector<float> weights(dim_);
  std::vector<float> state(state_bytes_ / sizeof(float));
  read_stored(row, weights.data());
  if (!state.empty()) std::memcpy(state.data(), row + weight_bytes_, state_bytes_);
  const auto find = [](std::span<const float> values, const char* what) -> std::string {
    const auto found = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
    if (found == values.end()) return "";
    return what + std::to_string(found - values.begin()) + " is " + std::to_string(*found);
  };
  if (std::string part = find(weights, "weight "); !part.empty()) return part;
  for (const Segment& segment : segments_) {
    if (serving_) break;
    const auto numbers = std::span(state).subspan(segment.first_state, segment.optimizer.state_numbers());
    if (std::string part = find(numbers, "its optimizer's number "); !part.empty()) return part;
  }
  return "";
}

}  // namespace monolith
