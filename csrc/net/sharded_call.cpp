#include "net/sharded_call.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "net/aligned_buffer.h"
#include "net/table_service.h"
#include "optim/halves.h"

namespace monolith::net {

namespace {

// Rows are taken in parts that stay in the cache, while the server reads the next ones.
constexpr std::size_t kPartBytes = 256 << 10;
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

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

// The arrays of `small` come first, then the ids, then values and counts, if any.
void ShardedCall::add_request(const Header& fields, std::span<const ArraySpec> arrays,
                              std::span<const std::span<const std::byte>> small) {
  Request request{lay_out(fields, arrays), {}};
  request.head = request.layout.head;
  for (std::size_t i = 0; i < small.size(); ++i) {
    request.head.resize(std::max(request.head.size(), request.layout.offsets[i] + small[i].size()));
    std::ranges::copy(small[i], request.head.begin() + static_cast<std::ptrdiff_t>(request.layout.offsets[i]));
  }
  requests_.push_back(std::move(request));
}

ShardedCall ShardedCall::pull(const ShardedBatch& batch, std::uint64_t plan_hash, bool half, float* out) {
  ShardedCall call(batch, half);
  call.out_ = out;
  for (std::size_t shard = 0; shard < batch.num_shards(); ++shard) {
    const ShardedBatch::Part& part = batch.part(shard);
    const std::array<ArraySpec, 3> arrays{{
        {"half", ElementType::kInt64, 1},
        {"sizes", ElementType::kInt64, part.sizes.size()},
        {"ids", ElementType::kInt64, part.ids.size()},
    }};
    const std::int64_t wants_half = half;
    const std::array small{bytes_of(wants_half), std::as_bytes(std::span(part.sizes))};
    call.add_request(request_fields(RequestType::kPull, plan_hash), arrays, small);
    // Nobody need be asked for nothing.
    call.done_.push_back(part.ids.empty());
  }
  return call;
}

ShardedCall ShardedCall::change(const ShardedBatch& batch, std::uint64_t plan_hash, bool half, const Change& change,
                                const float* values) {
  ShardedCall call(batch, half);
  call.values_ = values;
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
    const std::array range{change.begin, change.end};
    const std::array<std::span<const std::byte>, 6> small{bytes_of(change.time),
                                                          bytes_of(change.global_step),
                                                          std::as_bytes(change.learning_rates),
                                                          std::as_bytes(std::span(change.partition)),
                                                          std::as_bytes(std::span(range)),
                                                          std::as_bytes(std::span(part.sizes))};
    call.add_request(request_fields(type_of(change.kind), plan_hash), sent, small);
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

void ShardedCall::send(std::size_t shard, std::uint64_t request_id, std::chrono::milliseconds timeout, ByteSink& to) {
  static constexpr std::array<std::byte, kAlignment> kZeros{};
  Request& request = requests_[shard];
  const ShardedBatch::Part& part = batch_->part(shard);
  const auto deadline_ms = std::clamp<std::int64_t>(timeout.count(), 1, 0xFFFFFFFFLL);
  stamp(request.head, request_id, static_cast<std::uint32_t>(deadline_ms));
  JoinedWrites joined(to);
  const std::size_t total_bytes = request.layout.total_bytes;
  std::size_t sent = request.head.size();
  joined.write(request.head, sent < total_bytes);
  // The ids are the last array but for the values and the counts of a change.
  const std::size_t ids_at = values_ == nullptr ? 2 : 6;
  const auto begin_array = [&](std::size_t array, std::size_t bytes) {
    const std::size_t offset = request.layout.offsets[array];
    if (offset > sent) joined.write(std::span(kZeros).first(offset - sent), true);
    sent = offset + bytes;
    return sent < total_bytes;
  };
  if (const auto ids = std::as_bytes(std::span(part.ids)); !ids.empty()) {
    joined.write(ids, begin_array(ids_at, ids.size()));
  }
  if (values_ != nullptr && part.num_floats != 0) {
    const std::size_t float_bytes = half_ ? sizeof(std::uint16_t) : sizeof(float);
    send_values(shard, begin_array(ids_at + 1, part.num_floats * float_bytes), joined);
  }
  if (const std::size_t counts_at = ids_at + 2; counts_at < request.layout.offsets.size() && !part.counts.empty()) {
    const auto counts = std::as_bytes(std::span(part.counts));
    joined.write(counts, begin_array(counts_at, counts.size()));
  }
}

// A part of the values at a time, while the server takes the one before.
void ShardedCall::send_values(std::size_t shard, bool more, ByteSink& to) const {
  const ShardedBatch::Part& part = batch_->part(shard);
  thread_local std::vector<float> floats;
  thread_local std::vector<std::uint16_t> halves;
  std::size_t floats_left = part.num_floats;
  for (std::size_t t = 0; t < batch_->num_tables(); ++t) {
    const std::size_t dim = batch_->dim(t);
    const auto size = static_cast<std::size_t>(part.sizes[t]);
    const float* const in_place = batch_->in_place(t, values_);
    const bool sends_at_once = in_place != nullptr && !half_;
    const std::size_t rows_per_part =
        sends_at_once ? size : std::max<std::size_t>(1, kPartBytes / (dim * sizeof(float)));
    for (std::size_t first = 0; first < size; first += rows_per_part) {
      const std::size_t count = std::min(rows_per_part, size - first);
      std::span<const float> these(in_place + (in_place == nullptr ? 0 : first * dim), count * dim);
      if (in_place == nullptr) {
        floats.resize(std::max(floats.size(), count * dim));
        batch_->gather_sums(shard, t, first, count, values_, floats.data());
        these = {floats.data(), count * dim};
      }
      std::span<const std::byte> bytes = std::as_bytes(these);
      if (half_) {
        halves.resize(std::max(halves.size(), count * dim));
        floats_to_finite_halves(these, halves.data());  // no table takes infinities
        bytes = std::as_bytes(std::span<const std::uint16_t>(halves.data(), count * dim));
      }
      floats_left -= these.size();
      to.write(bytes, more || floats_left != 0);
    }
  }
}

std::vector<Failure> ShardedCall::exchange(std::span<const int> sockets, std::uint64_t request_id,
                                           std::chrono::milliseconds timeout) {
  class Socket : public Connection {
   public:
    Socket(int socket, const Deadline& deadline) : sink_(socket, deadline), source_(socket, deadline) {}
    void write(std::span<const std::byte> bytes, bool more) override { sink_.write(bytes, more); }
    void read(std::span<std::byte> to) override { source_.read(to); }

   private:
    SocketSink sink_;
    SocketSource source_;
  };
  if (sockets.size() != done_.size()) throw std::invalid_argument("there must be one socket per shard");
  const Deadline deadline = deadline_after(timeout);
  std::vector<Socket> connections;
  for (const int socket : sockets) connections.emplace_back(socket, deadline);
  return exchange([&](std::size_t shard) { return sockets[shard] < 0 ? nullptr : &connections[shard]; }, request_id,
                  timeout);
}

std::vector<Failure> ShardedCall::exchange(const std::function<Connection*(std::size_t)>& connect,
                                           std::uint64_t request_id, std::chrono::milliseconds timeout) {
  std::vector<Failure> failures;
  std::vector<std::pair<std::size_t, Connection*>> sent;
  for (std::size_t shard = 0; shard < done_.size(); ++shard) {
    Connection* const connection = done_[shard] ? nullptr : connect(shard);
    if (connection == nullptr) continue;
    try {
      send(shard, request_id, timeout, *connection);
      sent.emplace_back(shard, connection);
    } catch (const std::runtime_error& error) {
      failures.push_back({shard, error.what(), {}});
    }
  }
  for (const auto& [shard, connection] : sent) {
    if (auto failure = receive(shard, request_id, *connection)) failures.push_back(std::move(*failure));
  }
  return failures;
}

std::optional<Failure> ShardedCall::receive(std::size_t shard, std::uint64_t request_id, ByteSource& source) {
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
  } catch (const std::runtime_error& error) {
    return Failure{shard, error.what(), {}};
  } catch (const CorruptFrame& error) {
    return Failure{shard, error.what(), {}};
  }
}

// A reply to a pull has one array, so it can have one layout only. Rows are written to their places as they come.
void ShardedCall::take_rows(std::size_t shard, const Header& header, ByteSource& source) {
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
        halves_to_floats(std::span(halves).first(count * dim), these.data());
      } else {
        source.read(std::as_writable_bytes(these));
      }
      batch_->scatter(shard, t, first, count, these.data(), out_);
    }
  }
}

void ShardedCall::take_result(const Header& header, std::span<const std::byte> head, ByteSource& source) {
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
