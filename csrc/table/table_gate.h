// Who may work on a table without locks.
//
// Three kinds of callers:
// - a reader reads without locks; it is let in while no writer is there, and never waits;
// - a guest takes the locks of sub-tables, to read or to write; it waits while a writer works alone;
// - a writer keeps readers out for a whole batch. If it is the only one, it works alone, a stretch at a time: without
//   locks, and with guests kept out too. Otherwise it works as a guest, so that several write side by side.
//
// Each side announces itself first and then looks for the other, so at least one of the two sees the other. Readers and
// guests announce themselves on lines of their own, one for each of a few groups of threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "table/backoff.h"

namespace monolith {

class TableGate {
 public:
  // Whether the caller may read without locks, until leave_reader(). Readers stay for microseconds: writers wait.
  bool try_enter_reader() const {
    std::atomic<std::uint64_t>& inside = own_line();
    inside.fetch_add(kReader, std::memory_order_seq_cst);
    if (writers_.load(std::memory_order_seq_cst) == 0) return true;
    inside.fetch_sub(kReader, std::memory_order_release);
    return false;
  }
  void leave_reader() const { own_line().fetch_sub(kReader, std::memory_order_release); }

  // A guest stays for at most a block of rows, takes locks only inside, and never enters twice.
  void enter_guest() const {
    std::atomic<std::uint64_t>& inside = own_line();
    for (Backoff backoff;; backoff.wait()) {
      inside.fetch_add(kGuest, std::memory_order_seq_cst);
      if (!alone_.load(std::memory_order_seq_cst)) return;
      inside.fetch_sub(kGuest, std::memory_order_release);
      while (alone_.load(std::memory_order_relaxed)) backoff.wait();
    }
  }
  void leave_guest() const { own_line().fetch_sub(kGuest, std::memory_order_release); }

  // From here to leave_writer() no reader is inside. Any number of writers may be.
  void enter_writer() {
    writers_.fetch_add(1, std::memory_order_seq_cst);
    wait_until_left(kGuest - 1);
  }
  void leave_writer() { writers_.fetch_sub(1, std::memory_order_release); }
  bool has_writer() const { return writers_.load(std::memory_order_relaxed) != 0; }

  // For a writer: whether it is the only one. If so, nobody else is inside until end_alone(). A writer that comes
  // meanwhile finds two of them and works as a guest, so no two are ever alone.
  bool try_alone() {
    if (writers_.load(std::memory_order_seq_cst) != 1) return false;
    alone_.store(true, std::memory_order_seq_cst);
    wait_until_left(~std::uint64_t{0});
    return true;
  }
  void end_alone() { alone_.store(false, std::memory_order_release); }

 private:
  // Readers are counted in the lower half of a line, guests in the upper one.
  static constexpr std::uint64_t kReader = 1;
  static constexpr std::uint64_t kGuest = std::uint64_t{1} << 32;
  static constexpr std::size_t kGroups = 16;
  struct alignas(64) Inside {
    std::atomic<std::uint64_t> count{0};
  };

  std::atomic<std::uint64_t>& own_line() const {
    static std::atomic<std::size_t> next_group{0};
    thread_local const std::size_t group = next_group.fetch_add(1, std::memory_order_relaxed) % kGroups;
    return inside_[group].count;
  }

  void wait_until_left(std::uint64_t whom) const {
    for (const Inside& inside : inside_) {
      for (Backoff backoff; (inside.count.load(std::memory_order_seq_cst) & whom) != 0;) backoff.wait();
    }
  }

  mutable std::array<Inside, kGroups> inside_;
  alignas(64) std::atomic<std::uint32_t> writers_{0};
  std::atomic<bool> alone_{false};
};

class Guest {
 public:
  explicit Guest(const TableGate& gate) : gate_(gate) { gate_.enter_guest(); }
  ~Guest() { gate_.leave_guest(); }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

 private:
  const TableGate& gate_;
};

class Writer {
 public:
  explicit Writer(TableGate& gate) : gate_(gate) { gate_.enter_writer(); }
  ~Writer() { gate_.leave_writer(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

 private:
  TableGate& gate_;
};

// For a writer: alone from here to end(), or to its own end, if it may be. One that does not ask keeps nobody out.
class Alone {
 public:
  Alone(TableGate& gate, bool asks) : gate_(gate), is_alone_(asks && gate.try_alone()) {}
  ~Alone() { end(); }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

  explicit operator bool() const { return is_alone_; }
  void end() {
    if (is_alone_) gate_.end_alone();
    is_alone_ = false;
  }

 private:
  TableGate& gate_;
  bool is_alone_;
};

}  // namespace monolith
