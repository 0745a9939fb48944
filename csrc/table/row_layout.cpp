#include "table/row_layout.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "table/id_hash.h"

namespace monolith {

namespace {

float* floats(std::byte* bytes) { return reinterpret_cast<float*>(bytes); }
const float* floats(const std::byte* bytes) { return reinterpret_cast<const float*>(bytes); }
std::uint8_t* octets(std::byte* bytes) { return reinterpret_cast<std::uint8_t*>(bytes); }
const std::uint8_t* octets(const std::byte* bytes) { return reinterpret_cast<const std::uint8_t*>(bytes); }

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
    segment.compressor.encode(values + segment.first_weight, octets(weights) + segment.first_encoded);
  }
}

void RowLayout::add(std::byte* weights, const float* values) const {
  if (!serving_) {
    float* stored = floats(weights);
    for (std::size_t i = 0; i < dim_; ++i) stored[i] += values[i];
    return;
  }
  std::vector<float> sum(dim_);
  read(weights, sum.data());
  for (std::size_t i = 0; i < dim_; ++i) sum[i] += values[i];
  write(weights, sum.data());
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

void RowLayout::step(std::int64_t id, std::byte* weights, std::byte* state, const float* gradient,
                     std::span<const float> learning_rates, std::int64_t global_step) const {
  StepContext context;
  context.global_step = global_step;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    float* segment_weights = floats(weights) + segment.first_weight;
    float* segment_state = floats(state) + segment.first_state;
    const float* segment_gradient = gradient + segment.first_weight;
    context.learning_rate = learning_rates[i];
    if (segment.stochastic_rounding) {
      // Depends on id, step and segment alone, so rounding does not depend on threads or order.
      const auto step_hash = static_cast<std::int64_t>(hash_id(global_step * 1024 + static_cast<std::int64_t>(i)));
      context.random_key = hash_id(id ^ step_hash);
    }
    if (segment.compressor.is_identity()) {
      segment.optimizer.step(segment_weights, segment_state, segment_gradient, context);
    } else {
      std::vector<float> through(segment_gradient, segment_gradient + segment.dim);
      segment.compressor.backward(segment_weights, through.data(), global_step);
      segment.optimizer.step(segment_weights, segment_state, through.data(), context);
    }
  }
}

}  // namespace monolith
