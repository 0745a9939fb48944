// Shared by batches, exclusive for a caller that needs a moment between them: to take changes, to begin a snapshot.
//
// std::shared_mutex alone lets batches in as long as one is inside. Where pushes of several workers overlap there is
// always one inside, and the changes for serving would wait for minutes.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace monolith {

// Never taken twice by one thread, not even shared: somebody may be waiting in between.
class BatchMutex {
 public:
  void lock_shared() {
    const std::lock_guard turn(turn_);
    batches_.lock_shared();
  }
  void unlock_shared() { batches_.unlock_shared(); }

  // Batches that come from here on wait for their turn.
  void lock() {
    const std::lock_guard turn(turn_);
    batches_.lock();
  }
  void unlock() { batches_.unlock(); }

 private:
  std::mutex turn_;
  std::shared_mutex batches_;
};

}  // namespace monolith
