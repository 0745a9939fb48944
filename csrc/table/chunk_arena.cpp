#include "table/chunk_arena.h"

#include <algorithm>

#include "table/huge_memory.h"

namespace monolith {

namespace {
// A small table stays small; a large one takes regions of a few huge pages.
constexpr std::size_t kFirstRegion = std::size_t{64} << 10;
constexpr std::size_t kLargestRegion = std::size_t{32} << 20;
}  // namespace

std::byte* ChunkArena::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (regions_.empty() || used_of_last_ + bytes > regions_.back().second) {
    const std::size_t grown = regions_.empty() ? kFirstRegion : regions_.back().second * 2;
    const std::size_t size = std::max(bytes, std::min(grown, kLargestRegion));
    regions_.reserve(regions_.size() + 1);
    regions_.emplace_back(static_cast<std::byte*>(huge_allocate(size)), size);
    used_of_last_ = 0;
  }
  std::byte* chunk = regions_.back().first + used_of_last_;
  used_of_last_ += bytes;
  handed_out_ += bytes;
  return chunk;
}

std::size_t ChunkArena::bytes() const {
  const std::lock_guard lock(mutex_);
  return handed_out_;
}

void ChunkArena::clear() {
  const std::lock_guard lock(mutex_);
  for (const auto& [memory, size] : regions_) huge_free(memory, size);
  regions_.clear();
  used_of_last_ = 0;
  handed_out_ = 0;
}

}  // namespace monolith
