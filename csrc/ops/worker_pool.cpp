#include "ops/worker_pool.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

namespace monolith {

namespace {

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until ready() for a short time: longer than from one loop of a step to the next, shorter than waking a thread
// that sleeps would pay for. False if it is not ready then.
template <typename Ready>
bool spin_until(const Ready& ready) {
  constexpr std::chrono::microseconds kLongest(30);
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return ready();
}

// One loop under way. Loops live forever and are used again, so that a thread may look at one that ended long ago.
class alignas(64) Loop {
 public:
  bool try_acquire() { return !taken_.exchange(true, std::memory_order_acquire); }
  void release() { taken_.store(false, std::memory_order_release); }

  void start(std::size_t num_tasks, std::size_t max_helpers, const std::function<void(std::size_t)>& task) {
    task_ = &task;
    num_tasks_ = num_tasks;
    error_ = nullptr;
    num_done_.store(0, std::memory_order_relaxed);
    free_places_.store(static_cast<std::int64_t>(max_helpers), std::memory_order_relaxed);
    const std::uint64_t next_loop = (left_.load(std::memory_order_relaxed) >> 32) + 1;
    left_.store(next_loop << 32 | num_tasks, std::memory_order_release);
  }

  // Takes tasks until there are none left.
  void work() {
    std::uint64_t left = left_.load(std::memory_order_acquire);
    while ((left & kCount) != 0) {
      // A task that is taken keeps the loop from ending, so what start() wrote stays until it is done. The upper half
      // tells loops apart: one that ended meanwhile is never mistaken for the next.
      if (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      run(num_tasks_ - (left & kCount));
      left = left_.load(std::memory_order_acquire);
    }
  }

  void help() {
    if (free_places_.fetch_sub(1, std::memory_order_acq_rel) > 0) work();
    free_places_.fetch_add(1, std::memory_order_acq_rel);
  }

  bool has_tasks_left() const { return (left_.load(std::memory_order_relaxed) & kCount) != 0; }

  // For the caller, once it finds no task left: waits for those that helpers have taken.
  void wait_and_rethrow() {
    const auto is_done = [this] { return num_done_.load(std::memory_order_acquire) == num_tasks_; };
    if (!spin_until(is_done)) {
      for (std::size_t done = num_done_.load(std::memory_order_acquire); done != num_tasks_;
           done = num_done_.load(std::memory_order_acquire)) {
        num_done_.wait(done, std::memory_order_acquire);
      }
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static constexpr std::uint64_t kCount = 0xFFFFFFFF;

  void run(std::size_t i) {
    try {
      (*task_)(i);
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    const std::size_t num_tasks = num_tasks_;
    if (num_done_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_tasks) num_done_.notify_one();
  }

  std::atomic<std::uint64_t> left_{0};  // [ number of the loop: 32 | tasks that nobody has taken: 32 ]
  std::atomic<std::int64_t> free_places_{0};
  std::atomic<bool> taken_{false};
  const std::function<void(std::size_t)>* task_ = nullptr;
  std::size_t num_tasks_ = 0;
  alignas(64) std::atomic<std::size_t> num_done_{0};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

class WorkerPool {
 public:
  void run(std::size_t num_tasks, std::size_t max_helpers, const std::function<void(std::size_t)>& task) {
    const std::size_t place = acquire_loop();
    if (place == kMaxLoops) {  // more loops at once than any machine has cores: no helper is free anyway
      for (std::size_t i = 0; i < num_tasks; ++i) task(i);
      return;
    }
    need_workers(max_helpers);
    Loop& loop = loops_[place];
    loop.start(num_tasks, max_helpers, task);
    const std::uint64_t bit = std::uint64_t{1} << place;
    active_.fetch_or(bit, std::memory_order_seq_cst);
    wake(max_helpers);
    loop.work();
    active_.fetch_and(~bit, std::memory_order_relaxed);
    struct Release {
      Loop& loop;
      ~Release() { loop.release(); }
    } const release{loop};
    loop.wait_and_rethrow();
  }

 private:
  static constexpr std::size_t kMaxLoops = 64;

  std::size_t acquire_loop() {
    for (std::size_t place = 0; place < kMaxLoops; ++place) {
      if (loops_[place].try_acquire()) return place;
    }
    return kMaxLoops;
  }

  void need_workers(std::size_t count) {
    if (num_workers_.load(std::memory_order_acquire) >= count) return;
    const std::lock_guard lock(workers_mutex_);
    for (std::size_t i = num_workers_.load(std::memory_order_relaxed); i < count; ++i) {
      std::thread([this] { serve(); }).detach();
      num_workers_.store(i + 1, std::memory_order_release);
    }
  }

  void wake(std::size_t count) {
    // A worker announces that it sleeps and then looks for loops; here it is the other way round.
    std::size_t sleeping = num_sleeping_.load(std::memory_order_seq_cst);
    if (sleeping == 0) return;
    wakings_.fetch_add(1, std::memory_order_release);
    if (sleeping > count) {
      for (; count > 0; --count) wakings_.notify_one();
    } else {
      wakings_.notify_all();
    }
  }

  void serve() {
    for (;;) {
      const std::uint32_t wakings = wakings_.load(std::memory_order_acquire);
      if (help_once() || spin_until([this] { return has_work(); })) continue;
      num_sleeping_.fetch_add(1, std::memory_order_seq_cst);
      if (!has_work()) wakings_.wait(wakings, std::memory_order_acquire);
      num_sleeping_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  bool has_work() const {
    for (std::uint64_t active = active_.load(std::memory_order_seq_cst); active != 0; active &= active - 1) {
      if (loops_[static_cast<std::size_t>(std::countr_zero(active))].has_tasks_left()) return true;
    }
    return false;
  }

  bool help_once() {
    bool helped = false;
    for (std::uint64_t active = active_.load(std::memory_order_seq_cst); active != 0; active &= active - 1) {
      Loop& loop = loops_[static_cast<std::size_t>(std::countr_zero(active))];
      if (!loop.has_tasks_left()) continue;
      loop.help();
      helped = true;
    }
    return helped;
  }

  std::array<Loop, kMaxLoops> loops_;
  alignas(64) std::atomic<std::uint64_t> active_{0};  // a bit per loop that may have tasks left
  std::atomic<std::uint32_t> wakings_{0};
  std::atomic<std::size_t> num_sleeping_{0};
  std::atomic<std::size_t> num_workers_{0};
  std::mutex workers_mutex_;
};

std::atomic<WorkerPool*> pool{nullptr};

// Never destroyed: workers may be looking at it while the process ends. A forked child has none of its parent's
// threads, so it starts with a pool of its own.
WorkerPool& the_pool() {
  WorkerPool* known = pool.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  static std::once_flag once;
  std::call_once(once,
                 [] { pthread_atfork(nullptr, nullptr, [] { pool.store(nullptr, std::memory_order_release); }); });
  auto* fresh = new WorkerPool;
  if (pool.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *known;
}

}  // namespace

void run_with_helpers(std::size_t num_tasks, std::size_t max_helpers, const std::function<void(std::size_t)>& task) {
  the_pool().run(num_tasks, max_helpers, task);
}

}  // namespace monolith
