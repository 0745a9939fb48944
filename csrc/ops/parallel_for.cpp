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

// Tasks that several workers take one by one. Each begins with a stretch of its own and then helps with the stretches
// of others: where the same work comes again and again, a worker finds in its caches what it left there.
class Tasks {
 public:
  Tasks(std::size_t count, const std::function<void(std::size_t)>& task, std::size_t num_stretches)
      : count_(count), task_(task), stretches_(num_stretches) {}

  void work(std::size_t worker) {
    for (std::size_t i = 0; i < stretches_.size(); ++i) work_on((worker + i) % stretches_.size());
  }
  // For workers without numbers.
  void work() { work(num_workers_.fetch_add(1, std::memory_order_relaxed)); }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct alignas(64) Stretch {
    std::atomic<std::size_t> num_taken{0};
  };

  void work_on(std::size_t stretch) {
    const std::size_t end = count_ * (stretch + 1) / stretches_.size();
    const auto take = [&, first = count_ * stretch / stretches_.size()] {
      return first + stretches_[stretch].num_taken.fetch_add(1, std::memory_order_relaxed);
    };
    for (std::size_t i = take(); i < end; i = take()) {
      try {
        task_(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
    }
  }

  std::size_t count_;
  const std::function<void(std::size_t)>& task_;
  std::vector<Stretch> stretches_;
  std::atomic<std::size_t> num_workers_{0};
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
  Tasks tasks(num_tasks, task, static_cast<std::size_t>(threads));
  if (caller_shares_cores) {
    SharedThreads::of_process().run(threads - 1, [&] { tasks.work(); });
    return tasks.rethrow();
  }
#ifdef MONOLITH_OPENMP
#pragma omp parallel num_threads(threads)
  tasks.work(static_cast<std::size_t>(omp_get_thread_num()));
#else
  std::vector<std::jthread> pool;
  for (int i = 1; i < threads; ++i) pool.emplace_back([&, i] { tasks.work(static_cast<std::size_t>(i)); });
  tasks.work(0);
  pool.clear();
#endif
  tasks.rethrow();
}

void parallel_io(std::size_t num_tasks, const std::function<void(std::size_t)>& task) {
  Tasks tasks(num_tasks, task, 1);  // in order: a disk reads ahead
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
