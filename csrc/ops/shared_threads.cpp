#include "ops/shared_threads.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "ops/parallel_for.h"

namespace monolith {

namespace {

// A request has several pieces of work with little time between them: waking up takes longer than that.
constexpr std::chrono::microseconds kAwake{50};

template <typename Condition>
bool comes_soon(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kAwake;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

SharedThreads& SharedThreads::of_process() {
  static auto* pool = new SharedThreads;
  return *pool;
}

void SharedThreads::run(int num_helpers, const std::function<void()>& work) {
  Job job{work, num_helpers};
  {
    const std::lock_guard lock(mutex_);
    start(num_helpers);
    jobs_.push_back(&job);
    num_wanted_.fetch_add(num_helpers, std::memory_order_relaxed);
    for (int i = 0; i < std::min(num_helpers, num_asleep_); ++i) has_job_.notify_one();
  }
  work();
  {
    const std::lock_guard lock(mutex_);
    num_wanted_.fetch_sub(job.num_wanted, std::memory_order_relaxed);
    job.num_wanted = 0;
    std::erase(jobs_, &job);
  }
  const auto is_done = [&] { return job.num_working.load(std::memory_order_relaxed) == 0; };
  comes_soon(is_done);
  // Also if it is done: then its last helper has let go of it.
  std::unique_lock lock(mutex_);
  job_done_.wait(lock, is_done);
}

void SharedThreads::start(int num_helpers) {
  for (; num_helpers_ < num_helpers; ++num_helpers_) std::thread([this] { help(); }).detach();
}

SharedThreads::Job* SharedThreads::take_job() {
  const auto found = std::ranges::find_if(jobs_, [](const Job* job) { return job->num_wanted > 0; });
  if (found == jobs_.end()) return nullptr;
  --(*found)->num_wanted;
  ++(*found)->num_working;
  num_wanted_.fetch_sub(1, std::memory_order_relaxed);
  return *found;
}

void SharedThreads::help() {
  work_alone();
  std::unique_lock lock(mutex_);
  while (true) {
    Job* const job = take_job();
    lock.unlock();
    if (job != nullptr) {
      job->work();
      lock.lock();
      if (--job->num_working == 0) job_done_.notify_all();
      continue;
    }
    const bool stays_awake = comes_soon([&] { return num_wanted_.load(std::memory_order_relaxed) > 0; });
    lock.lock();
    if (stays_awake) continue;
    ++num_asleep_;
    has_job_.wait(lock, [&] { return num_wanted_.load(std::memory_order_relaxed) > 0; });
    --num_asleep_;
  }
}

}  // namespace monolith
