// Memory for the values of a column: grows, is never zeroed, and can be handed on without a copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace monolith::parse {

class ValueBuffer {
 public:
  ValueBuffer() = default;
  explicit ValueBuffer(std::size_t num_bytes) {
    if (num_bytes > 0) grow(num_bytes);
    size_ = num_bytes;
  }
  ValueBuffer(ValueBuffer&& other) noexcept
      : data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  ValueBuffer& operator=(ValueBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  std::size_t size() const { return size_; }  // in bytes
  std::uint8_t* data() const { return data_.get(); }

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

  // Room for `count` more values behind the present ones; `commit` says how many were written.
  template <class T>
  T* room(std::size_t count) {
    if (count * sizeof(T) > capacity_ - size_) [[unlikely]]
      grow(size_ + count * sizeof(T));
    return reinterpret_cast<T*>(data_.get() + size_);
  }
  template <class T>
  void commit(std::size_t count) {
    size_ += count * sizeof(T);
  }

  void append(const std::uint8_t* bytes, std::size_t count) {
    if (count == 0) return;
    std::memcpy(room<std::uint8_t>(count), bytes, count);
    size_ += count;
  }

  void truncate(std::size_t num_bytes) { size_ = num_bytes; }

  // Gives the memory away, to be released with std::free.
  std::uint8_t* release() {
    capacity_ = size_ = 0;
    return data_.release();
  }

 private:
  struct Free {
    void operator()(std::uint8_t* p) const { std::free(p); }
  };

  [[gnu::noinline]] void grow(std::size_t wanted) {
    const std::size_t capacity = std::max({wanted, capacity_ * 2, std::size_t{256}});
    auto* const data = static_cast<std::uint8_t*>(std::realloc(data_.get(), capacity));
    if (data == nullptr) throw std::bad_alloc();
    data_.release();  // realloc has freed it
    data_.reset(data);
    capacity_ = capacity;
  }

  std::unique_ptr<std::uint8_t, Free> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace monolith::parse
