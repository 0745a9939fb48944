#include "table/huge_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

namespace monolith {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSmallestPiece = std::size_t{4} << 10;
constexpr std::size_t kCacheLine = 64;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Zeroed, aligned to a huge page.
void* map_huge(std::size_t size) {
  // Over-reserve to align, then give the ends back.
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

// Pieces of 4 KiB to 1 MiB, a power of two each, cut out of huge pages that hold pieces of one size.
// A table's sub-tables grow at about the same time, so pages of an outgrown size empty soon. A few of them are kept for
// the pieces that are asked for next, which then need no fresh page from the system. The others are given back.
class PiecePool {
 public:
  void* allocate(std::size_t size) {
    const auto [piece, is_zero] = take_piece(size);
    return is_zero ? piece : std::memset(piece, 0, size);
  }

  void free(void* piece, std::size_t size) {
    const std::lock_guard lock(mutex_);
    const auto address = reinterpret_cast<std::uintptr_t>(piece);
    const std::uintptr_t base = address / kHugePage * kHugePage;
    std::vector<std::uintptr_t>& open = open_pages_[static_cast<std::size_t>(std::countr_zero(size))];
    Page& page = pages_.at(base);
    if (page.free.empty()) open.push_back(base);
    page.free.push_back(address);
    page.is_fresh = false;
    if (page.free.size() < page.num_pieces) return;
    open.erase(std::ranges::find(open, base));
    pages_.erase(base);
    if (spare_pages_.size() < kSparePages) {
      spare_pages_.push_back(base);
    } else {
      munmap(reinterpret_cast<void*>(base), kHugePage);
    }
  }

 private:
  struct Piece {
    void* memory;
    bool is_zero;
  };

  Piece take_piece(std::size_t size) {
    const std::lock_guard lock(mutex_);
    std::vector<std::uintptr_t>& open = open_pages_[static_cast<std::size_t>(std::countr_zero(size))];
    if (open.empty()) open.push_back(add_page(size));
    Page& page = pages_.at(open.back());
    const auto address = page.free.back();
    page.free.pop_back();
    if (page.free.empty()) open.pop_back();
    // A fresh page is zero already; clearing it again would cost its page faults early.
    return {reinterpret_cast<void*>(address), page.is_fresh};
  }

  std::uintptr_t add_page(std::size_t piece_size) {
    const bool is_fresh = spare_pages_.empty();
    const auto base = is_fresh ? reinterpret_cast<std::uintptr_t>(map_huge(kHugePage)) : spare_pages_.back();
    if (!is_fresh) spare_pages_.pop_back();
    Page& page = pages_[base];
    for (std::size_t offset = kHugePage; offset > 0; offset -= piece_size) {
      page.free.push_back(base + offset - piece_size);
    }
    page.num_pieces = page.free.size();
    page.is_fresh = is_fresh;
    return base;
  }

  struct Page {
    std::vector<std::uintptr_t> free;
    std::size_t num_pieces = 0;
    bool is_fresh = false;  // zeros but for pieces in use
  };
  static constexpr std::size_t kSparePages = 4;
  std::mutex mutex_;
  std::unordered_map<std::uintptr_t, Page> pages_;
  std::array<std::vector<std::uintptr_t>, 64> open_pages_;  // with free pieces, by log2 of the piece size
  std::vector<std::uintptr_t> spare_pages_;
};

PiecePool& piece_pool() {
  // Never destroyed: tables may outlive static destructors.
  static auto* pool = new PiecePool;
  return *pool;
}

bool is_piece(std::size_t bytes) { return bytes >= kSmallestPiece && bytes < kHugePage && std::has_single_bit(bytes); }

}  // namespace

void* huge_allocate(std::size_t bytes) {
  if (is_piece(bytes)) return piece_pool().allocate(bytes);
  if (bytes >= kHugePage) return map_huge(round_up(bytes, kHugePage));
  void* memory = std::aligned_alloc(kCacheLine, round_up(bytes, kCacheLine));
  if (memory == nullptr) throw std::bad_alloc();
  return std::memset(memory, 0, bytes);
}

void huge_free(void* memory, std::size_t bytes) {
  if (memory == nullptr) return;
  if (is_piece(bytes)) {
    piece_pool().free(memory, bytes);
  } else if (bytes >= kHugePage) {
    munmap(memory, round_up(bytes, kHugePage));
  } else {
    std::free(memory);
  }
}

}  // namespace monolith
