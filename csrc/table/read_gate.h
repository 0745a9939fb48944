// Lets lookups go without locks while nobody writes.
//
// A reader announces itself, then looks for writers; a writer announces itself, then waits for readers. So at least one
// of the two sees the other. Readers never wait: one that meets a writer takes the sub-tables' locks instead. They
// announce themselves on lines of their own, one for each of a few groups of threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace monolith {

class ReadGate {
 public:
  // Whether the caller may read without locks, until leave(). Readers stay for microseconds: writers wait for them.
  bool try_enter() const {
    std::atomic<std::uint32_t>& readers = own_readers();
    readers.fetch_add(1, std::memory_order_seq_cst);
    if (writers_.load(std::memory_order_seq_cst) == 0) return true;
    readers.fetch_sub(1, std::memory_order_release);
    return false;
  }
  void leave() const { own_readers().fetch_sub(1, std::memory_order_release); }

  // Between these two no reader is inside. Any number of writers may be.
  void close() {
    writers_.fetch_add(1, std::memory_order_seq_cst);
    for (const Readers& readers : readers_) {
      for (int spins = 0; readers.count.load(std::memory_order_seq_cst) != 0; ++spins) {
        if (spins >= 64) std::this_thread::yield();
      }
    }
  }
  void open() { writers_.fetch_sub(1, std::memory_order_release); }

 private:
  static constexpr std::size_t kGroups = 16;
  struct alignas(64) Readers {
    std::atomic<std::uint32_t> count{0};
  };

  std::atomic<std::uint32_t>& own_readers() const {
    static std::atomic<std::size_t> next_group{0};
    thread_local const std::size_t group = next_group.fetch_add(1, std::memory_order_relaxed) % kGroups;
    return readers_[group].count;
  }

  mutable std::array<Readers, kGroups> readers_;
  alignas(64) std::atomic<std::uint32_t> writers_{0};
};

// Keeps the gate closed while a writer is at work.
class ClosedGate {
 public:
  explicit ClosedGate(ReadGate& gate) : gate_(gate) { gate_.close(); }
  ~ClosedGate() { gate_.open(); }
  ClosedGate(const ClosedGate&) = delete;
  ClosedGate& operator=(const ClosedGate&) = delete;

 private:
  ReadGate& gate_;
};

}  // namespace monolith
