#include "net/sharded_call.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>
#include <utility>

#include "net/table_service.h"
#include "optim/half.h"

namespace monolith::net {

namespace {

// Rows are taken in parts that stay in the cache, while the server reads the next ones.
constexpr std::size_t kPartBytes = 256 << 10;
constexpr float kMaxHalf = 65504.0F;
constexpr std::size_t kMaxErrorBytes = 64 << 10;

const FrameLimits kReplyLimits{.max_frame_bytes = std::uint64_t{1} << 40};

Header request_fields(RequestType type, std::uint64_t plan_hash) {
  Header fields;
  fields.type = static_cast<std::uint16_t>(type);
  fields.plan_hash = plan_hash;
  return fields;
}

RequestType type_of(ChangeRequest::Kind kind) {
  switch (kind) {
    case ChangeRequest::Kind::kAssign:
      return RequestType::kAssign;
    case ChangeRequest::Kind::kAdd:
      return RequestType::kAdd;
    case ChangeRequest::Kind::kStep:
      break;
  }
  return RequestType::kStep;
}

// The frame of a layout, with nothing in its arrays yet.
AlignedBuffer make_frame(const FrameLayout& layout) {
  AlignedBuffer frame(layout.total_bytes);
  std::memcpy(frame.data(), layout.head.data(), layout.head.size());
  // The gaps between arrays are zeros.
  for (const std::size_t offset : layout.offsets) {
    if (offset < kAlignment || offset > layout.total_bytes) continue;
    const std::size_t gap = std::min(kAlignment, offset - std::min(offset, layout.head.size()));
    std::memset(frame.data() + offset - gap, 0, gap);
  }
  return frame;
}

template <typename T>
void put_all(AlignedBuffer& frame, std::size_t offset, std::span<const T> values) {
  if (!values.empty()) std::memcpy(frame.data() + offset, values.data(), values.size_bytes());
}

template <typename T>
void put(AlignedBuffer& frame, std::size_t offset, T value) {
  std::memcpy(frame.data() + offset, &value, sizeof value);
}

void to_halves(std::span<const float> from, std::byte* to) {
  auto* halves = reinterpret_cast<std::uint16_t*>(to);
  // Beyond the largest half there is only infinity, which no table takes.
  for (const float value : from) *halves++ = float_to_half(std::clamp(value, -kMaxHalf, kMaxHalf));
}

}  // namespace

class ShardedCall::Source {
 public:
  virtual ~Source() = default;
  virtual void read(std::span<std::byte> to) = 0;
};

class ShardedCall::SocketSource : public Source {
 public:
  SocketSource(int socket, Deadline deadline) : socket_(socket), deadline_(deadline) {}
  void read(std::span<std::byte> to) override { read_all(socket_, to, deadline_); }

 private:
  int socket_;
  Deadline deadline_;
};

class ShardedCall::MemorySource : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  void read(std::span<std::byte> to) override {
    if (to.size() > bytes_.size()) throw CorruptFrame("a reply is shorter than its header says");
    std::memcpy(to.data(), bytes_.data(), to.size());
    bytes_ = bytes_.subspan(to.size());
  }

 private:
  std::span<const std::byte> bytes_;
};

ShardedCall ShardedCall::pull(const ShardedBatch& batch, std::uint64_t plan_hash, bool half, float* out) {
  ShardedCall call(batch, out, half);
  for (std::size_t shard = 0; shard < batch.num_shards(); ++shard) {
    const ShardedBatch::Part& part = batch.part(shard);
    const std::array<ArraySpec, 3> arrays{{
        {"half", ElementType::kInt64, 1},
        {"sizes", ElementType::kInt64, part.sizes.size()},
        {"ids", ElementType::kInt64, part.ids.size()},
    }};
    const FrameLayout layout = lay_out(request_fields(RequestType::kPull, plan_hash), arrays);
    AlignedBuffer frame = make_frame(layout);
    put(frame, layout.offsets[0], std::int64_t{half});
    put_all(frame, layout.offsets[1], std::span<const std::int64_t>(part.sizes));
    put_all(frame, layout.offsets[2], std::span<const std::int64_t>(part.ids));
    call.requests_.push_back(std::move(frame));
    // Nobody need be asked for nothing.
    call.done_.push_back(part.ids.empty());
  }
  return call;
}

ShardedCall ShardedCall::change(const ShardedBatch& batch, std::uint64_t plan_hash, bool half, const Change& change,
                                const float* values) {
  ShardedCall call(batch, nullptr, half);
  std::vector<float> sums;
  for (std::size_t shard = 0; shard < batch.num_shards(); ++shard) {
    const ShardedBatch::Part& part = batch.part(shard);
    const bool has_counts = change.counts && std::ranges::any_of(part.counts, [](std::uint32_t n) { return n > 1; });
    const std::array<ArraySpec, 9> arrays{{
        {"time", ElementType::kInt64, 1},
        {"step", ElementType::kInt64, 1},
        {"rates", ElementType::kFloat32, change.learning_rates.size()},
        {"partition", ElementType::kUint8, change.partition.size()},
        {"range", ElementType::kUint64, 2},
        {"sizes", ElementType::kInt64, part.sizes.size()},
        {"ids", ElementType::kInt64, part.ids.size()},
        {"values", half ? ElementType::kFloat16 : ElementType::kFloat32, part.num_floats},
        {"counts", ElementType::kUint32, part.counts.size()},
    }};
    const auto sent = std::span(arrays).first(has_counts ? arrays.size() : arrays.size() - 1);
    const FrameLayout layout = lay_out(request_fields(type_of(change.kind), plan_hash), sent);
    AlignedBuffer frame = make_frame(layout);
    const auto at = [&](std::size_t array) { return layout.offsets[array]; };
    put(frame, at(0), change.time);
    put(frame, at(1), change.global_step);
    put_all(frame, at(2), change.learning_rates);
    put_all(frame, at(3), std::span<const char>(change.partition));
    put(frame, at(4), change.begin);
    put(frame, at(4) + sizeof change.begin, change.end);
    put_all(frame, at(5), std::span<const std::int64_t>(part.sizes));
    put_all(frame, at(6), std::span<const std::int64_t>(part.ids));
    if (half) {
      sums.resize(part.num_floats);
      batch.gather_sums(shard, values, sums.data());
      to_halves(sums, frame.data() + at(7));
    } else {
      batch.gather_sums(shard, values, reinterpret_cast<float*>(frame.data() + at(7)));
    }
    if (has_counts) put_all(frame, at(8), std::span<const std::uint32_t>(part.counts));
    call.requests_.push_back(std::move(frame));
    // Also without ids: the server's tables learn the time and the step.
    call.done_.push_back(false);
  }
  return call;
}

std::vector<std::size_t> ShardedCall::pending() const {
  std::vector<std::size_t> shards;
  for (std::size_t shard = 0; shard < done_.size(); ++shard) {
    if (!done_[shard]) shards.push_back(shard);
  }
  return shards;
}

std::span<const std::byte> ShardedCall::request(std::size_t shard, std::uint64_t request_id,
                                                std::chrono::milliseconds timeout) {
  AlignedBuffer& frame = requests_.at(shard);
  const auto deadline_ms = std::clamp<std::int64_t>(timeout.count(), 1, 0xFFFFFFFFLL);
  stamp({frame.data(), frame.size()}, request_id, static_cast<std::uint32_t>(deadline_ms));
  return frame.bytes();
}

std::vector<Failure> ShardedCall::exchange(std::span<const int> sockets, std::uint64_t request_id,
                                           std::chrono::milliseconds timeout) {
  if (sockets.size() != done_.size()) throw std::invalid_argument("there must be one socket per shard");
  const Deadline deadline = deadline_after(timeout);
  std::vector<Failure> failures;
  std::vector<std::size_t> sent;
  for (std::size_t shard = 0; shard < sockets.size(); ++shard) {
    if (done_[shard] || sockets[shard] < 0) continue;
    try {
      write_all(sockets[shard], request(shard, request_id, timeout), deadline);
      sent.push_back(shard);
    } catch (const std::system_error& error) {
      failures.push_back({shard, error.what(), {}});
    }
  }
  for (const std::size_t shard : sent) {
    SocketSource source(sockets[shard], deadline);
    if (auto failure = receive(shard, request_id, source)) failures.push_back(std::move(*failure));
  }
  return failures;
}

std::optional<Failure> ShardedCall::take_reply(std::size_t shard, std::uint64_t request_id,
                                               std::span<const std::byte> frame) {
  MemorySource source(frame);
  return receive(shard, request_id, source);
}

std::optional<Failure> ShardedCall::receive(std::size_t shard, std::uint64_t request_id, Source& source) {
  try {
    std::array<std::byte, kHeaderBytes> head;
    source.read(head);
    const Header header = decode_header(head, kReplyLimits);
    if (header.request_id != request_id) throw CorruptFrame("the reply is to another request");
    if (header.kind == Kind::kError && header.total_bytes <= kMaxErrorBytes) {
      std::vector<std::byte> refusal(header.total_bytes);
      std::ranges::copy(head, refusal.begin());
      source.read(std::span(refusal).subspan(kHeaderBytes));
      return Failure{shard, {}, std::move(refusal)};
    }
    if (header.kind != Kind::kReply) throw CorruptFrame("expected a reply, got a frame of another kind");
    if (out_ != nullptr) {
      take_rows(shard, header, source);
    } else {
      take_result(header, head, source);
    }
    done_[shard] = true;
    return std::nullopt;
  } catch (const std::system_error& error) {
    return Failure{shard, error.what(), {}};
  } catch (const CorruptFrame& error) {
    return Failure{shard, error.what(), {}};
  }
}

// A reply to a pull has one array, so it can have one layout only. Rows are written to their places as they come.
void ShardedCall::take_rows(std::size_t shard, const Header& header, Source& source) {
  const ShardedBatch::Part& part = batch_->part(shard);
  const ArraySpec rows{"rows", half_ ? ElementType::kFloat16 : ElementType::kFloat32, part.num_floats};
  const FrameLayout expected = lay_out(header, {&rows, 1});
  std::vector<std::byte> rest(expected.head.size() - kHeaderBytes);
  if (header.total_bytes == expected.total_bytes) source.read(rest);
  if (header.total_bytes != expected.total_bytes ||
      !std::equal(rest.begin(), rest.end(), expected.head.begin() + kHeaderBytes)) {
    throw CorruptFrame("the reply does not have the " + std::to_string(part.num_floats) + " floats asked for");
  }
  thread_local std::vector<float> floats;
  thread_local std::vector<std::uint16_t> halves;
  for (std::size_t t = 0; t < batch_->num_tables(); ++t) {
    const std::size_t dim = batch_->dim(t);
    const std::size_t rows_per_part = std::max<std::size_t>(1, kPartBytes / (dim * sizeof(float)));
    const auto size = static_cast<std::size_t>(part.sizes[t]);
    if (float* const rows_of_table = half_ ? nullptr : batch_->in_place(t, out_)) {
      source.read(std::as_writable_bytes(std::span(rows_of_table, size * dim)));
      continue;
    }
    for (std::size_t first = 0; first < size; first += rows_per_part) {
      const std::size_t count = std::min(rows_per_part, size - first);
      floats.resize(std::max(floats.size(), count * dim));
      const std::span<float> these(floats.data(), count * dim);
      if (half_) {
        halves.resize(std::max(halves.size(), count * dim));
        source.read(std::as_writable_bytes(std::span(halves).first(count * dim)));
        std::transform(halves.begin(), halves.begin() + static_cast<std::ptrdiff_t>(count * dim), these.begin(),
                       half_to_float);
      } else {
        source.read(std::as_writable_bytes(these));
      }
      batch_->scatter(shard, t, first, count, these.data(), out_);
    }
  }
}

void ShardedCall::take_result(const Header& header, std::span<const std::byte> head, Source& source) {
  if (header.total_bytes > kMaxErrorBytes) throw CorruptFrame("a reply to a change is short, got a long one");
  AlignedBuffer frame(header.total_bytes);
  std::ranges::copy(head, frame.data());
  source.read({frame.data() + kHeaderBytes, frame.size() - kHeaderBytes});
  const FrameView view(header, frame.bytes());
  const auto numbers = view.int64s("result");
  if (numbers.size() != 4) throw CorruptFrame("a reply to a change has four numbers");
  num_applied_ += numbers[0] != 0;
  result_.inserted += static_cast<std::size_t>(numbers[1]);
  result_.filtered += static_cast<std::size_t>(numbers[2]);
  result_.refused += static_cast<std::size_t>(numbers[3]);
}

}  // namespace monolith::net
