// A file to read from: mapped as a whole, and in small pieces.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/table_file_format.h"

namespace monolith::table_file {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path) : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_ < 0) fail(path, "cannot open");
    struct stat status{};
    if (fstat(file_, &status) != 0) give_up("cannot stat");
    size_ = static_cast<std::uint64_t>(status.st_size);
    if (size_ == 0) return;
    void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file_, 0);
    if (mapped == MAP_FAILED) give_up("cannot map");
    madvise(mapped, size_, MADV_SEQUENTIAL);
    data_ = static_cast<const std::byte*>(mapped);
  }
  ~MappedFile() {
    if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
    close(file_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::uint64_t size() const { return size_; }
  const std::byte* data() const { return data_; }

  // Copies a piece that lies in the file. Touching the mapping instead would have the system fetch megabytes around it.
  void read(std::uint64_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
      const ssize_t count = pread(file_, to.data(), to.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count == 0) errno = EIO;  // it was shortened meanwhile
      if (count <= 0) fail(path_, "cannot read");
      offset += static_cast<std::uint64_t>(count);
      to = to.subspan(static_cast<std::size_t>(count));
    }
  }

 private:
  [[noreturn]] void give_up(const char* what) const {
    const int reason = errno;
    close(file_);
    errno = reason;
    fail(path_, what);
  }

  std::string path_;
  int file_;
  std::uint64_t size_ = 0;
  const std::byte* data_ = nullptr;
};

}  // namespace monolith::table_file
