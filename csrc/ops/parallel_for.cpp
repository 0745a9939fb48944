#include "ops/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#ifdef MONOLITH_OPENMP
#include <omp.h>
#endif

namespace monolith {

namespace {
std::atomic<int> chosen_threads{0};
thread_local bool caller_works_alone = false;
}  // namespace

int num_threads() {
  if (caller_works_alone) return 1;
  const int chosen = chosen_threads.load(std::memory_order_relaxed);
  if (chosen > 0) return chosen;
#ifdef MONOLITH_OPENMP
  return omp_get_max_threads();
#else
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#endif
}

void set_num_threads(int count) { chosen_threads.store(std::max(0, count), std::memory_order_relaxed); }

void work_alone() { caller_works_alone = true; }

void parallel_for(std::size_t num_tasks, const std::function<void(std::size_t)>& task) {
  const int threads = static_cast<int>(std::min<std::size_t>(num_tasks, static_cast<std::size_t>(num_threads())));
  if (threads <= 1) {
    for (std::size_t i = 0; i < num_tasks; ++i) task(i);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;
  auto work = [&] {
    for (std::size_t i = next.fetch_add(1); i < num_tasks; i = next.fetch_add(1)) {
      try {
        task(i);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
      }
    }
  };
#ifdef MONOLITH_OPENMP
#pragma omp parallel num_threads(threads)
  work();
#else
  std::vector<std::jthread> pool;
  for (int i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  pool.clear();
#endif
  if (error) std::rethrow_exception(error);
}

}  // namespace monolith
