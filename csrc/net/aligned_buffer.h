// Memory for a frame, used again for the next one.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "table/huge_memory.h"

namespace monolith::net {

// Starts at a multiple of 64, as the arrays of a frame do, so they are aligned in memory too. Large ones are on huge
// pages: the first touch of fresh small pages takes longer than sending what is written to them. Memory is claimed and
// not touched: a frame that is promised and never comes costs address space only.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size) { fit(size); }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer() { release(); }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Makes the size `size`; what was in it is lost.
  void fit(std::size_t size) {
    if (size > capacity_) {
      release();
      data_ = static_cast<std::byte*>(huge_allocate(size));
      capacity_ = size;
    }
    size_ = size;
  }

  // Gives memory beyond `bytes` back.
  void shrink_to(std::size_t bytes) {
    if (capacity_ > bytes) release();
  }

 private:
  void release() {
    if (data_ != nullptr) huge_free(data_, capacity_);
    data_ = nullptr;
    size_ = capacity_ = 0;
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace monolith::net
