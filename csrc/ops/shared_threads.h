// Threads that help the threads of a server with their requests.
//
// OpenMP's helpers belong to the thread that uses them and stay awake for milliseconds: many such threads have more
// helpers than there are cores, and on a small machine the helpers of a server keep its clients from theirs. These are
// shared by all threads of the process and soon go to sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace monolith {

class SharedThreads {
 public:
  // Never destroyed: threads may use it until the process ends.
  static SharedThreads& of_process();

  // Calls `work` in this thread and, as far as helpers are free, in `num_helpers` others. Returns when all calls have
  // returned; a helper that comes too late does not call it. `work` must not throw.
  void run(int num_helpers, const std::function<void()>& work);

 private:
  struct Job {
    const std::function<void()>& work;
    int num_wanted;
    std::atomic<int> num_working{0};
  };

  void start(int num_helpers);
  void help();
  Job* take_job();

  std::mutex mutex_;
  std::condition_variable has_job_;
  std::condition_variable job_done_;
  std::deque<Job*> jobs_;
  int num_helpers_ = 0;
  int num_asleep_ = 0;
  std::atomic<int> num_wanted_{0};  // by all jobs: what helpers that are still awake look at
};

}  // namespace monolith
