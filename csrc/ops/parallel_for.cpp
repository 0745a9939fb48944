#include "ops/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "ops/shared_threads.h"

#ifdef MONOLITH_OPENMP
#include <omp.h>
#endif

namespace monolith {

namespace {
std::atomic<int> chosen_threads{0};
thread_local bool caller_works_alone = false;
thread_local bool caller_shares_cores = false;
std::atomic<int> num_sharing{0};

// Tasks that several threads take one by one.
class Tasks {
 public:
  Tasks(std::size_t count, const std::function<void(std::size_t)>& task) : count_(count), task_(task) {}

  void work() {
    for (std::size_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) {
      try {
        task_(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::size_t count_;
  const std::function<void(std::size_t)>& task_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

int num_cores() {
  const int chosen = chosen_threads.load(std::memory_order_relaxed);
  if (chosen > 0) return chosen;
#ifdef MONOLITH_OPENMP
  return omp_get_max_threads();
#else
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#endif
}

}  // namespace

int num_threads() {
  if (caller_works_alone) return 1;
  if (caller_shares_cores) return std::max(1, num_cores() / num_sharing.load(std::memory_order_relaxed));
  return num_cores();
}

void set_num_threads(int count) { chosen_threads.store(std::max(0, count), std::memory_order_relaxed); }

void work_alone(bool alone) { caller_works_alone = alone; }

ShareCores::ShareCores() {
  caller_shares_cores = true;
  num_sharing.fetch_add(1, std::memory_order_relaxed);
}

ShareCores::~ShareCores() {
  num_sharing.fetch_sub(1, std::memory_order_relaxed);
  caller_shares_cores = false;
}

WorkAlone::WorkAlone() : before_(caller_works_alone) { work_alone(); }

void parallel_for(std::size_t num_tasks, const std::function<void(std::size_t)>& task) {
  const int threads = static_cast<int>(std::min<std::size_t>(num_tasks, static_cast<std::size_t>(num_threads())));
  if (threads <= 1) {
    for (std::size_t i = 0; i < num_tasks; ++i) task(i);
    return;
  }
  Tasks tasks(num_tasks, task);
  if (caller_shares_cores) {
    SharedThreads::of_process().run(threads - 1, [&] { tasks.work(); });
    return tasks.rethrow();
  }
#ifdef MONOLITH_OPENMP
#pragma omp parallel num_threads(threads)
  tasks.work();
#else
  std::vector<std::jthread> pool;
  for (int i = 1; i < threads; ++i) pool.emplace_back([&] { tasks.work(); });
  tasks.work();
  pool.clear();
#endif
  tasks.rethrow();
}

void parallel_io(std::size_t num_tasks, const std::function<void(std::size_t)>& task) {
  Tasks tasks(num_tasks, task);
  std::vector<std::jthread> pool;
  for (std::size_t i = 0; i < std::min<std::size_t>(num_tasks, 2 * static_cast<std::size_t>(num_threads())); ++i) {
    pool.emplace_back([&] {
      work_alone();
      tasks.work();
    });
  }
  pool.clear();
  tasks.rethrow();
}

}  // namespace monolith
