// One request to every table server of a job, and their replies.
//
// A call may take several attempts: servers that have answered are not asked again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/byte_stream.h"
#include "net/frame.h"
#include "net/sharded_batch.h"
#include "table/row_table.h"

namespace monolith::net {

// What became of one server's part of a call, unless it is done.
struct Failure {
  std::size_t shard = 0;
  std::string words;               // the connection failed, or the reply was no reply: worth another attempt
  std::vector<std::byte> refusal;  // or: the server's error reply, a whole frame
};

class ShardedCall {
 public:
  // How a batch changes rows, besides its values.
  struct Change {
    ChangeRequest::Kind kind = ChangeRequest::Kind::kStep;
    std::span<const float> learning_rates;
    std::int64_t global_step = 0;
    std::int64_t time = 0;
    std::string partition;  // with begin and end, the batch's key
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool counts = false;  // say how often each id occurs
  };

  // Reads the rows of all ids of a batch to `out`, laid out as the batch is. Batch and `out` must outlive the call.
  static ShardedCall pull(const ShardedBatch& batch, std::uint64_t plan_hash, bool half, float* out);

  // Changes rows; `values`, laid out as the batch is and finite, must outlive the call too.
  static ShardedCall change(const ShardedBatch& batch, std::uint64_t plan_hash, bool half, const Change& change,
                            const float* values);

  ShardedCall(ShardedCall&&) = default;
  ShardedCall& operator=(ShardedCall&&) = default;
  ShardedCall(const ShardedCall&) = delete;
  ShardedCall& operator=(const ShardedCall&) = delete;

  // Servers that have not answered yet.
  std::vector<std::size_t> pending() const;

  // Sends to the servers that have not answered yet, then takes their replies. `sockets` has one per shard; a negative
  // one leaves its server out.
  std::vector<Failure> exchange(std::span<const int> sockets, std::uint64_t request_id,
                                std::chrono::milliseconds timeout);

  // The same over connections that only the caller can use: `connect(shard)` gives one, or nullptr to leave a server
  // out.
  class Connection : public ByteSink, public ByteSource {};
  std::vector<Failure> exchange(const std::function<Connection*(std::size_t shard)>& connect, std::uint64_t request_id,
                                std::chrono::milliseconds timeout);

  // One server at a time, for a caller that waits for several at once and asks another server for what one owes.
  // `send` throws std::runtime_error. What follows it on the connection is a reply, which `receive` takes; then the
  // shard is no longer pending.
  void send(std::size_t shard, std::uint64_t request_id, std::chrono::milliseconds timeout, ByteSink& to);
  std::optional<Failure> receive(std::size_t shard, std::uint64_t request_id, ByteSource& source);

  // Of a change: what all servers that have answered did; `num_applied` of them had not applied it before.
  const ChangeResult& result() const { return result_; }
  std::size_t num_applied() const { return num_applied_; }

 private:
  // A request but for its ids and values, which are sent from where they stand.
  struct Request {
    FrameLayout layout;
    std::vector<std::byte> head;  // everything before the ids
  };

  ShardedCall(const ShardedBatch& batch, bool half) : batch_(&batch), half_(half) {}

  void add_request(const Header& fields, std::span<const ArraySpec> arrays,
                   std::span<const std::span<const std::byte>> small);
  void send_values(std::size_t shard, bool more, ByteSink& to) const;
  void take_rows(std::size_t shard, const Header& header, ByteSource& source);
  void take_result(const Header& header, std::span<const std::byte> head, ByteSource& source);

  const ShardedBatch* batch_;
  float* out_ = nullptr;           // of a pull
  const float* values_ = nullptr;  // of a change
  bool half_;
  std::vector<Request> requests_;
  std::vector<bool> done_;
  ChangeResult result_;
  std::size_t num_applied_ = 0;
};

}  // namespace monolith::net
