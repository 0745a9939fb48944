#include "table/huge_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace monolith {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kCacheLine = 64;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void* huge_allocate(std::size_t bytes) {
  if (bytes < kHugePage) {
    void* memory = std::aligned_alloc(kCacheLine, round_up(bytes, kCacheLine));
    if (memory == nullptr) throw std::bad_alloc();
    return std::memset(memory, 0, bytes);
  }
  // Over-reserve to align, then give the ends back.
  const std::size_t size = round_up(bytes, kHugePage);
  void* reserved = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) throw std::bad_alloc();
  const auto begin = reinterpret_cast<std::uintptr_t>(reserved);
  const std::uintptr_t aligned = round_up(begin, kHugePage);
  if (aligned > begin) munmap(reserved, aligned - begin);
  const std::size_t tail = begin + kHugePage - aligned;
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + size), tail);
#ifdef MADV_HUGEPAGE
  madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
#endif
  return reinterpret_cast<void*>(aligned);
}

void huge_free(void* memory, std::size_t bytes) {
  if (memory == nullptr) return;
  if (bytes < kHugePage) {
    std::free(memory);
  } else {
    munmap(memory, round_up(bytes, kHugePage));
  }
}

}  // namespace monolith
