// Which batches a table server has applied, so that one that is sent again is not applied again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace monolith::net {

// A batch is the events [begin, end) of a partition. Batches of a partition are cut at the same offsets every time and
// come in order.
struct BatchKey {
  std::string_view partition;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// A batch that was cut at other offsets than an applied one, or one partition too many.
class WrongBatch : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

class AppliedBatches {
 public:
  explicit AppliedBatches(std::size_t max_partitions) : max_partitions_(max_partitions) {}

  // Calls `apply` unless the batch was applied before; returns whether it did. If `apply` throws, the batch counts as
  // applied only if the exception is a NotFiniteRow, which is thrown after the change. Batches of one partition wait
  // for each other: the same batch on two connections is applied by one of them.
  bool once(const BatchKey& key, const std::function<void()>& apply);

  // The end of the last applied batch by partition, without partitions of clients that have no stream (those whose name
  // starts with a zero byte: a client that counts its own calls).
  std::vector<std::pair<std::string, std::uint64_t>> ends() const;
  void restore(const std::vector<std::pair<std::string, std::uint64_t>>& ends);

 private:
  struct Partition {
    std::mutex mutex;
    std::uint64_t end = 0;
  };

  std::shared_ptr<Partition> partition(std::string_view name);

  const std::size_t max_partitions_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Partition>> partitions_;
  std::deque<std::string> clients_;  // partitions that clients made for themselves, oldest first
};

}  // namespace monolith::net
