// A long array of zeros that takes memory only where it is written.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>
#include <utility>

namespace monolith {

template <typename T>
class ZeroedArray {
 public:
  explicit ZeroedArray(std::size_t size) : size_(size) {
    void* memory = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_NOHUGEPAGE
    // Writes are scattered: with 2 MiB pages a few thousand ids would already take all of it.
    ::madvise(memory, bytes(), MADV_NOHUGEPAGE);
#endif
    data_ = static_cast<T*>(memory);
  }
  ~ZeroedArray() {
    if (data_ != nullptr) ::munmap(data_, bytes());
  }

  ZeroedArray(const ZeroedArray& other) : ZeroedArray(other.size_) {
    constexpr std::size_t kChunk = 4096 / sizeof(T);
    for (std::size_t begin = 0; begin < size_; begin += kChunk) {
      const auto chunk = other.span().subspan(begin, std::min(kChunk, size_ - begin));
      // A copy of zeros would take memory for nothing.
      if (std::any_of(chunk.begin(), chunk.end(), [](T value) { return value != 0; })) {
        std::copy(chunk.begin(), chunk.end(), data_ + begin);
      }
    }
  }
  ZeroedArray(ZeroedArray&& other) noexcept : size_(other.size_), data_(std::exchange(other.data_, nullptr)) {}
  ZeroedArray& operator=(ZeroedArray other) noexcept {
    std::swap(size_, other.size_);
    std::swap(data_, other.data_);
    return *this;
  }

  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::span<T> span() { return {data_, size_}; }
  std::span<const T> span() const { return {data_, size_}; }

 private:
#ifdef MAP_NORESERVE
  static constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#else
  static constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
#endif

  std::size_t bytes() const { return size_ * sizeof(T); }

  std::size_t size_;
  T* data_ = nullptr;
};

}  // namespace monolith
