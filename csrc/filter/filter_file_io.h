// What the files of a filter and the files of its changes are written and read with.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "filter/filter_file_format.h"
#include "filter/sliding_hash_filter.h"

namespace monolith::filter_io {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Throws std::system_error of errno.
[[noreturn]] void throw_errno(const std::string& what);

// Throws std::invalid_argument: the file is not one to restore from.
[[noreturn]] void refuse(const std::string& name, const std::string& what);

void write(std::FILE* file, std::span<const std::byte> bytes, const std::string& name);

// Writes what is left, flushes the file to the disk and closes it.
void finish(File file, const std::string& name);

void read(std::FILE* file, std::span<std::byte> bytes, const std::string& name);

template <typename T>
void read_value(std::FILE* file, T& value, const std::string& name, std::size_t num_bytes = sizeof(T)) {
  read(file, std::as_writable_bytes(std::span<T, 1>(&value, 1)).first(num_bytes), name);
}

// Reads the footer, of which the offset is read already, and makes sure that nothing follows.
void read_footer(std::FILE* file, const std::string& name, filter_format::Footer footer, std::uint64_t num_blocks);

// What the header of one split's file has to be; restore compares with it.
filter_format::Header header_of(const SlidingHashFilter::State& state, HashShard shard, std::size_t split,
                                std::uint32_t crc);

// Reads a header of the magic and sizes that are expected, of this version or an older one. Of versions before
// kOldestReadVersion, the version alone is read.
filter_format::Header read_header(std::FILE* file, const std::string& name, const filter_format::Header& expected);

}  // namespace monolith::filter_io
