#include "filter/filter_file_io.h"

#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace monolith::filter_io {

using filter_format::Footer;
using filter_format::Header;

namespace {

template <typename T>
void check_match(const std::string& name, const char* field, const T& ours, const T& theirs) {
  if (ours == theirs) return;
  refuse(name, std::string(field) + ": " + std::to_string(ours) + " doesn't match with: " + std::to_string(theirs) +
                   " read from hash filter checkpoint file; use a filter of the saved configuration");
}

}  // namespace

void throw_errno(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

void refuse(const std::string& name, const std::string& what) {
  throw std::invalid_argument("admission filter file " + name + ": " + what);
}

void write(std::FILE* file, std::span<const std::byte> bytes, const std::string& name) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) throw_errno("cannot write " + name);
}

void finish(File file, const std::string& name) {
  if (std::fflush(file.get()) != 0 || ::fsync(::fileno(file.get())) != 0) throw_errno("cannot flush " + name);
  if (std::fclose(file.release()) != 0) throw_errno("cannot close " + name);
}

void read(std::FILE* file, std::span<std::byte> bytes, const std::string& name) {
  if (std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size()) return;
  if (std::ferror(file) != 0) throw_errno("cannot read " + name);
  refuse(name, "it ends too early; it was cut or never finished");
}

void read_footer(std::FILE* file, const std::string& name, Footer footer, std::uint64_t num_blocks) {
  read_value(file, footer.footer_crc, name);
  if (footer.footer_crc != filter_format::footer_crc(footer) || footer.num_blocks != num_blocks) {
    refuse(name, "its footer does not fit the " + std::to_string(num_blocks) + " blocks before it");
  }
  if (std::fgetc(file) != EOF) refuse(name, "there are bytes after its footer");
}

Header header_of(const SlidingHashFilter::State& state, HashShard shard, std::size_t split, std::uint32_t crc) {
  Header header;
  header.split = static_cast<std::uint32_t>(split);
  header.split_num = static_cast<std::uint32_t>(state.splits.size());
  header.max_forward_step = SlidingHashFilter::kMaxForwardStep;
  header.max_backward_step = static_cast<std::uint32_t>(state.max_backward_step());
  header.max_step = SlidingHashFilter::kMaxStep;
  header.head = state.head;
  header.head_increment = state.head_increment;
  header.failure_count = state.failure_count;
  header.capacity = state.splits[split].capacity();
  header.total_size = state.splits[split].total_size();
  header.num_elements = state.splits[split].num_elements();
  header.fill_rate = state.splits[split].fill_rate();
  header.first_bucket = shard.first_bucket();
  header.last_bucket = shard.end_bucket();
  header.state_crc = crc;
  header.header_crc = filter_format::header_crc(header);
  return header;
}

Header read_header(std::FILE* file, const std::string& name, const Header& expected) {
  Header header;
  constexpr std::size_t kPreludeBytes = offsetof(Header, split);
  read_value(file, header, name, kPreludeBytes);
  if (header.magic != expected.magic) refuse(name, "it is not an admission filter file of this kind");
  if (header.version == 0 || header.version > filter_format::kVersion) {
    refuse(name, "its format version " + std::to_string(header.version) + " is unknown; this build reads version " +
                     std::to_string(filter_format::kVersion));
  }
  if (header.version < filter_format::kOldestReadVersion) {
    header.last_bucket = kNumBuckets;  // there were no parts
    return header;
  }
  read(file, std::as_writable_bytes(std::span(&header, 1)).subspan(kPreludeBytes), name);
  if (header.header_crc != filter_format::header_crc(header)) refuse(name, "the checksum of its header is wrong");
  check_match(name, "split_num", expected.split_num, header.split_num);
  check_match(name, "max_forward_step", expected.max_forward_step, header.max_forward_step);
  check_match(name, "max_backward_step", expected.max_backward_step, header.max_backward_step);
  check_match(name, "max_step", expected.max_step, header.max_step);
  check_match(name, "capacity", expected.capacity, header.capacity);
  check_match(name, "total_size", expected.total_size, header.total_size);
  check_match(name, "fill_rate", expected.fill_rate, header.fill_rate);
  if (header.is_of_part()) {
    check_match(name, "first_bucket", expected.first_bucket, header.first_bucket);
    check_match(name, "last_bucket", expected.last_bucket, header.last_bucket);
  }
  if (header.split != expected.split) {
    refuse(name, "it is the file of split " + std::to_string(header.split) + " under the name of split " +
                     std::to_string(expected.split) + ", so that split is there twice");
  }
  if (header.num_elements > header.capacity || header.head >= header.split_num ||
      header.head != header.head_increment % header.split_num) {
    refuse(name, "its header contradicts itself");
  }
  return header;
}

}  // namespace monolith::filter_io
