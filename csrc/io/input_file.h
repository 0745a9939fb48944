// A file to read pieces of.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "io/table_file_format.h"

namespace monolith::table_file {

class InputFile {
 public:
  explicit InputFile(const std::string& path) : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_ < 0) fail(path, "cannot open");
    struct stat status{};
    if (fstat(file_, &status) != 0) {
      const int reason = errno;
      close(file_);
      errno = reason;
      fail(path, "cannot stat");
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~InputFile() { let_go(); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size() const { return size_; }

  // Closes the file, which cannot be read any more.
  void let_go() {
    if (file_ >= 0) close(std::exchange(file_, -1));
  }

  // Reads a piece that lies in the file. Safe for concurrent use. Throws std::system_error.
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
  std::string path_;
  int file_;
  std::uint64_t size_ = 0;
};

}  // namespace monolith::table_file
