// How a thread waits for something that takes microseconds.
#pragma once

#include <chrono>
#include <thread>

namespace monolith {

// Spins a little, then gives the core away: first to a thread that is ready to run, then for real. Waiting never keeps
// a core from the thread that is waited for, also where there are more threads than cores.
class Backoff {
 public:
  void wait() {
    if (count_ < kSpins) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (count_ < kSpins + kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      return;
    }
    ++count_;
  }

 private:
  static constexpr int kSpins = 64;
  static constexpr int kYields = 256;
  int count_ = 0;
};

}  // namespace monolith
