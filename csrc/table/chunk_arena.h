// Chunks of one size, carved out of large regions; given back all at once.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace monolith {

class ChunkArena {
 public:
  ChunkArena() = default;
  ~ChunkArena() { clear(); }
  ChunkArena(const ChunkArena&) = delete;
  ChunkArena& operator=(const ChunkArena&) = delete;

  // Returns zeroed memory aligned to a cache line. Throws std::bad_alloc. Safe for concurrent use.
  std::byte* allocate(std::size_t bytes);

  // Bytes handed out.
  std::size_t bytes() const;

  void clear();

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::byte*, std::size_t>> regions_;
  std::size_t used_of_last_ = 0;
  std::size_t handed_out_ = 0;
};

}  // namespace monolith
