// Which texts became ids: for people who want to read tables.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace monolith {

// Remembers which ids it has met, and hands out each new text once. Holds no text longer than that: 8 bytes and a hash
// node stay per id. Beyond `max_texts`, and for texts over kMaxTextBytes, nothing is remembered. For any thread.
class TextDictionary {
 public:
  static constexpr std::size_t kMaxTextBytes = 1024;

  explicit TextDictionary(std::size_t max_texts) : max_texts_(max_texts) {}

  std::size_t size() const { return size_.load(std::memory_order_relaxed); }

  // Takes a text that has this id.
  void note(std::uint64_t id, std::span<const std::uint8_t> text);

  // Takes texts that need not be handed out.
  void add_known(std::span<const std::uint8_t> bytes, std::span<const std::int64_t> row_splits);

  struct Texts {
    std::string bytes;  // end to end
    std::vector<std::int64_t> ends;
  };

  // Returns the texts noted since the last call.
  Texts take_new();

 private:
  struct Part {
    std::mutex mutex;
    std::unordered_set<std::uint64_t> ids;
    Texts fresh;
  };

  Part& part_of(std::uint64_t id) { return parts_[id >> 58]; }

  std::size_t max_texts_;
  std::atomic<std::size_t> size_ = 0;
  std::array<Part, 64> parts_;
};

}  // namespace monolith
