// A reader/writer lock of four bytes for critical sections of about a microsecond.
#pragma once

#include <atomic>
#include <cstdint>

#include "table/backoff.h"

namespace monolith {

class RwSpinLock {
 public:
  void lock() {
    for (Backoff backoff;; backoff.wait()) {
      std::uint32_t free = 0;
      if (state_.compare_exchange_weak(free, kWriter, std::memory_order_acquire, std::memory_order_relaxed)) return;
      // A waiting writer turns new readers away, or a stream of lookups would starve it.
      state_.fetch_or(kWaiting, std::memory_order_relaxed);
      std::uint32_t waiting = kWaiting;
      if (state_.compare_exchange_weak(waiting, kWriter, std::memory_order_acquire, std::memory_order_relaxed)) return;
    }
  }
  bool try_lock() {
    std::uint32_t free = 0;
    return state_.compare_exchange_strong(free, kWriter, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() { state_.fetch_and(~kWriter, std::memory_order_release); }

  void lock_shared() {
    for (Backoff backoff;; backoff.wait()) {
      std::uint32_t seen = state_.load(std::memory_order_relaxed);
      if ((seen & (kWriter | kWaiting)) == 0 &&
          state_.compare_exchange_weak(seen, seen + kReader, std::memory_order_acquire, std::memory_order_relaxed)) {
        return;
      }
    }
  }
  void unlock_shared() { state_.fetch_sub(kReader, std::memory_order_release); }

 private:
  static constexpr std::uint32_t kWriter = 1;
  static constexpr std::uint32_t kWaiting = 2;
  static constexpr std::uint32_t kReader = 4;

  std::atomic<std::uint32_t> state_{0};
};

}  // namespace monolith
