#include "filter/filter_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "filter/cell_range.h"
#include "filter/filter_file_format.h"

namespace monolith {
namespace {

namespace fs = std::filesystem;
using State = SlidingHashFilter::State;
using Split = SlidingHashFilter::Split;
using filter_format::BlockHead;
using filter_format::Footer;
using filter_format::Header;

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::string split_name(const std::string& basename, std::size_t split, std::size_t num_splits) {
  char suffix[32];
  std::snprintf(suffix, sizeof(suffix), "-%05zu-of-%05zu", split, num_splits);
  return basename + suffix;
}

// The checksum of a whole filter, as its splits and blocks come by.
class StateCrc {
 public:
  void add_split(std::uint64_t num_elements) { crc_ = crc32c(filter_format::bytes_of(num_elements), crc_); }
  void add_block(const BlockHead& head, std::span<const std::uint16_t> cells) {
    crc_ = crc32c(std::as_bytes(cells), crc32c(filter_format::bytes_of(head), crc_));
  }
  std::uint32_t value() const { return crc_; }

 private:
  std::uint32_t crc_ = 0;
};

std::uint32_t state_crc(const State& state) {
  StateCrc crc;
  for (const Split& split : state.splits) {
    crc.add_split(split.num_elements());
    if (split.num_elements() == 0) continue;  // an untouched split is not read: it may be large
    filter_format::for_each_block(split.cells(), [&](const auto&... block) { crc.add_block(block...); });
  }
  return crc.value();
}

// What the header of one split's file has to be; restore compares with it.
Header header_of(const State& state, BucketRange buckets, std::size_t split, std::uint32_t crc) {
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
  header.first_bucket = buckets.first;
  header.last_bucket = buckets.last;
  header.state_crc = crc;
  header.header_crc = filter_format::header_crc(header);
  return header;
}

// ---- save

void write(std::FILE* file, std::span<const std::byte> bytes, const std::string& name) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) throw_errno("cannot write " + name);
}

void write_split(const std::string& name, const Header& header, const Split& split) {
  File file(std::fopen(name.c_str(), "wbx"));
  if (!file) throw_errno("cannot create " + name);
  write(file.get(), filter_format::bytes_of(header), name);
  Footer footer;
  if (split.num_elements() != 0) {
    filter_format::for_each_block(split.cells(), [&](const BlockHead& head, std::span<const std::uint16_t> cells) {
      write(file.get(), filter_format::bytes_of(head), name);
      write(file.get(), std::as_bytes(cells), name);
      write(file.get(), filter_format::bytes_of(filter_format::block_crc(head, cells)), name);
      ++footer.num_blocks;
    });
  }
  footer.footer_crc = filter_format::footer_crc(footer);
  write(file.get(), filter_format::bytes_of(footer).first(filter_format::kFooterBytes), name);
  if (std::fflush(file.get()) != 0 || ::fsync(::fileno(file.get())) != 0) throw_errno("cannot flush " + name);
  if (std::fclose(file.release()) != 0) throw_errno("cannot close " + name);
}

void sync_directory(const fs::path& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) throw_errno("cannot open " + directory.string());
  const int result = ::fsync(fd);
  ::close(fd);
  // Some file systems have no sync of directories; the files themselves are safe.
  if (result != 0 && errno != EINVAL && errno != ENOTSUP) throw_errno("cannot flush " + directory.string());
}

fs::path directory_of(const std::string& basename) {
  const fs::path parent = fs::path(basename).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

// ---- restore

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw std::invalid_argument("admission filter file " + name + ": " + what);
}

void read(std::FILE* file, std::span<std::byte> bytes, const std::string& name) {
  if (std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size()) return;
  if (std::ferror(file) != 0) throw_errno("cannot read " + name);
  refuse(name, "it ends too early; it was cut or never finished");
}

template <typename T>
void read_value(std::FILE* file, T& value, const std::string& name, std::size_t num_bytes = sizeof(T)) {
  read(file, std::as_writable_bytes(std::span<T, 1>(&value, 1)).first(num_bytes), name);
}

template <typename T>
void check_match(const std::string& name, const char* field, const T& ours, const T& theirs) {
  if (ours == theirs) return;
  refuse(name, std::string(field) + ": " + std::to_string(ours) + " doesn't match with: " + std::to_string(theirs) +
                   " read from hash filter checkpoint file; use a filter of the saved configuration");
}

Header read_header(std::FILE* file, const std::string& name, const Header& expected) {
  Header header;
  read_value(file, header, name);
  if (header.magic != filter_format::kMagic) refuse(name, "it is not an admission filter file");
  if (header.version != filter_format::kVersion) {
    refuse(name, "its format version " + std::to_string(header.version) + " is unknown; this build reads version " +
                     std::to_string(filter_format::kVersion));
  }
  if (header.header_crc != filter_format::header_crc(header)) refuse(name, "the checksum of its header is wrong");
  check_match(name, "split_num", expected.split_num, header.split_num);
  check_match(name, "max_forward_step", expected.max_forward_step, header.max_forward_step);
  check_match(name, "max_backward_step", expected.max_backward_step, header.max_backward_step);
  check_match(name, "max_step", expected.max_step, header.max_step);
  check_match(name, "capacity", expected.capacity, header.capacity);
  check_match(name, "total_size", expected.total_size, header.total_size);
  check_match(name, "fill_rate", expected.fill_rate, header.fill_rate);
  if (!header.buckets().is_all()) {
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

// Reads all blocks of a split of `num_cells` cells and hands each to visit(head, cells).
template <typename Visit>
void read_blocks(std::FILE* file, const std::string& name, std::size_t num_cells, Visit&& visit) {
  std::array<std::uint16_t, filter_format::kBlockCells> cells;
  std::uint64_t num_blocks = 0;
  std::uint64_t next = 0;
  Footer footer;
  while (true) {
    BlockHead head;
    read_value(file, head, name);
    if (head.offset == filter_format::kFooterOffset) {
      footer.num_blocks = head.num_cells;
      break;
    }
    if (head.offset < next || head.offset >= num_cells || head.offset % filter_format::kBlockCells != 0 ||
        head.num_cells != std::min<std::uint64_t>(filter_format::kBlockCells, num_cells - head.offset)) {
      refuse(name, "a block of " + std::to_string(head.num_cells) + " cells at cell " + std::to_string(head.offset) +
                       " is out of place");
    }
    const auto block = std::span(cells).first(head.num_cells);
    read(file, std::as_writable_bytes(block), name);
    std::uint32_t crc = 0;
    read_value(file, crc, name);
    if (crc != filter_format::block_crc(head, block)) {
      refuse(name, "the checksum of the block at cell " + std::to_string(head.offset) + " is wrong");
    }
    visit(head, std::span<const std::uint16_t>(block));
    next = head.offset + head.num_cells;
    ++num_blocks;
  }
  read_value(file, footer.footer_crc, name);
  if (footer.footer_crc != filter_format::footer_crc(footer) || footer.num_blocks != num_blocks) {
    refuse(name, "its footer does not fit the " + std::to_string(num_blocks) + " blocks before it");
  }
  if (std::fgetc(file) != EOF) refuse(name, "there are bytes after its footer");
}

struct FileName {
  std::size_t split;
  std::size_t num_splits;
};

// Reads the `-ddddd-of-ddddd` that follows the basename; other files, temporary ones among them, are none of ours.
std::optional<FileName> parse_suffix(std::string_view suffix) {
  constexpr std::string_view kPattern = "-ddddd-of-ddddd";
  if (suffix.size() != kPattern.size()) return std::nullopt;
  for (std::size_t i = 0; i < suffix.size(); ++i) {
    const bool digit = suffix[i] >= '0' && suffix[i] <= '9';
    if (kPattern[i] == 'd' ? !digit : suffix[i] != kPattern[i]) return std::nullopt;
  }
  FileName name{};
  std::from_chars(suffix.data() + 1, suffix.data() + 6, name.split);
  std::from_chars(suffix.data() + 10, suffix.data() + 15, name.num_splits);
  return name;
}

// Makes sure that exactly the files of `num_splits` splits are there.
void check_files_present(const std::string& basename, std::size_t num_splits) {
  const std::string stem = fs::path(basename).filename().string();
  std::vector<bool> present(num_splits, false);
  bool any = false;
  std::error_code error;
  for (fs::directory_iterator entry(directory_of(basename), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(stem)) continue;
    const auto parsed = parse_suffix(std::string_view(name).substr(stem.size()));
    if (!parsed) continue;
    any = true;
    if (parsed->num_splits != num_splits) {
      throw std::invalid_argument("Filename " + entry->path().string() + " doesn't match nshards. " +
                                  std::to_string(num_splits) + " is the split_num of this filter");
    }
    if (parsed->split >= num_splits) {
      throw std::invalid_argument("Shard " + std::to_string(parsed->split) + " exceeds " + std::to_string(num_splits) +
                                  " for " + entry->path().string());
    }
    present[parsed->split] = true;
  }
  errno = ENOENT;
  if (!any) throw_errno("There is no valid sharded files for " + basename);
  for (std::size_t split = 0; split < num_splits; ++split) {
    if (!present[split]) throw_errno("Shard " + std::to_string(split) + " doesn't show up for " + basename);
  }
}

}  // namespace

void save_filter_files(const std::string& basename, BucketRange buckets, const State& state) {
  static std::atomic<std::uint64_t> num_saves{0};
  const std::string temporary = "-tmp-" + std::to_string(::getpid()) + "-" + std::to_string(num_saves.fetch_add(1));
  const std::size_t num_splits = state.splits.size();
  const std::uint32_t crc = state_crc(state);
  std::size_t num_started = 0;
  try {
    for (; num_started < num_splits;) {
      const std::size_t split = num_started++;
      write_split(split_name(basename, split, num_splits) + temporary, header_of(state, buckets, split, crc),
                  state.splits[split]);
    }
    for (std::size_t split = 0; split < num_splits; ++split) {
      const std::string name = split_name(basename, split, num_splits);
      if (std::rename((name + temporary).c_str(), name.c_str()) != 0) throw_errno("cannot rename to " + name);
    }
    sync_directory(directory_of(basename));
  } catch (...) {
    for (std::size_t split = 0; split < num_started; ++split) {
      ::unlink((split_name(basename, split, num_splits) + temporary).c_str());
    }
    throw;
  }
}

void load_filter_files(const std::string& basename, BucketRange buckets, State& state) {
  const std::size_t num_splits = state.splits.size();
  check_files_present(basename, num_splits);
  StateCrc crc;
  std::optional<Header> first;
  bool takes_part = false;  // of files of all buckets
  for (std::size_t split = 0; split < num_splits; ++split) {
    const std::string name = split_name(basename, split, num_splits);
    const File file(std::fopen(name.c_str(), "rb"));
    if (!file) throw_errno("cannot open " + name);
    const Header header = read_header(file.get(), name, header_of(state, buckets, split, 0));
    if (!first) first = header;
    if (header.state_crc != first->state_crc || header.head_increment != first->head_increment ||
        header.failure_count != first->failure_count || header.buckets() != first->buckets()) {
      refuse(name, "it comes from another save than " + split_name(basename, 0, num_splits));
    }
    takes_part = header.buckets() != buckets;
    Split& cells = state.splits[split];
    const CellRange kept(cells, takes_part ? buckets : BucketRange{});
    crc.add_split(header.num_elements);
    read_blocks(file.get(), name, cells.cells().size(), [&](const BlockHead& head, const auto& block) {
      crc.add_block(head, block);
      kept.copy(block, head.offset, cells);
    });
    cells.set_num_elements(takes_part ? kept.cut(cells) : header.num_elements);
  }
  if (crc.value() != first->state_crc) {
    refuse(basename, "the files do not add up to the state that was saved");
  }
  state.head = first->head;
  state.head_increment = first->head_increment;
  // Only one of the parts has it, so that they add up again.
  state.failure_count = takes_part && buckets.first > 0 ? 0 : first->failure_count;
}

}  // namespace monolith
