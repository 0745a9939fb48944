#include "net/applied_batches.h"

#include "table/row_table.h"

namespace monolith::net {

namespace {
// Clients whose calls are remembered; the oldest is forgotten first.
constexpr std::size_t kMaxClients = 4096;

bool is_client(std::string_view partition) { return !partition.empty() && partition.front() == '\0'; }
}  // namespace

bool AppliedBatches::once(const BatchKey& key, const std::function<void()>& apply) {
  if (key.begin >= key.end) {
    throw WrongBatch("a batch ends after its begin, got offsets " + std::to_string(key.begin) + " to " +
                     std::to_string(key.end));
  }
  const std::shared_ptr<Partition> one = partition(key.partition);
  const std::lock_guard lock(one->mutex);
  if (key.end <= one->end) return false;
  if (key.begin < one->end) {
    throw WrongBatch("a batch with offsets " + std::to_string(key.begin) + " to " + std::to_string(key.end) +
                     " overlaps one that was applied, which ended at " + std::to_string(one->end) +
                     "; cut batches at the same offsets every time");
  }
  try {
    apply();
  } catch (const NotFiniteRow&) {
    one->end = key.end;
    throw;
  }
  one->end = key.end;
  return true;
}

std::vector<std::pair<std::string, std::uint64_t>> AppliedBatches::ends() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, std::uint64_t>> found;
  for (const auto& [name, one] : partitions_) {
    if (is_client(name)) continue;
    const std::lock_guard partition_lock(one->mutex);
    found.emplace_back(name, one->end);
  }
  return found;
}

void AppliedBatches::restore(const std::vector<std::pair<std::string, std::uint64_t>>& ends) {
  const std::lock_guard lock(mutex_);
  partitions_.clear();
  clients_.clear();
  for (const auto& [name, end] : ends) {
    auto one = std::make_shared<Partition>();
    one->end = end;
    partitions_.emplace(name, std::move(one));
  }
}

std::shared_ptr<AppliedBatches::Partition> AppliedBatches::partition(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = partitions_.find(std::string(name));
  if (found != partitions_.end()) return found->second;
  if (is_client(name)) {
    if (clients_.size() >= kMaxClients) {
      partitions_.erase(clients_.front());
      clients_.pop_front();
    }
    clients_.emplace_back(name);
  } else if (partitions_.size() - clients_.size() >= max_partitions_) {
    throw WrongBatch("this table server keeps track of " + std::to_string(max_partitions_) +
                     " partitions at most; raise max_partitions");
  }
  return partitions_.emplace(name, std::make_shared<Partition>()).first->second;
}

}  // namespace monolith::net
