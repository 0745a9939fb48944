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
#include "filter/filter_changes.h"
#include "filter/filter_file_format.h"
#include "filter/filter_file_io.h"

namespace monolith {
namespace {

namespace fs = std::filesystem;
using State = SlidingHashFilter::State;
using Split = SlidingHashFilter::Split;
using filter_format::BlockHead;
using filter_format::Footer;
using filter_format::Header;
using filter_io::File;
using filter_io::header_of;
using filter_io::read_header;
using filter_io::read_value;
using filter_io::refuse;
using filter_io::throw_errno;
using filter_io::write;

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

// ---- save

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
  filter_io::finish(std::move(file), name);
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
    filter_io::read(file, std::as_writable_bytes(block), name);
    std::uint32_t crc = 0;
    read_value(file, crc, name);
    if (crc != filter_format::block_crc(head, block)) {
      refuse(name, "the checksum of the block at cell " + std::to_string(head.offset) + " is wrong");
    }
    visit(head, std::span<const std::uint16_t>(block));
    next = head.offset + head.num_cells;
    ++num_blocks;
  }
  filter_io::read_footer(file, name, footer, num_blocks);
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

void save_filter_files(const std::string& basename, HashShard shard, const State& state) {
  static std::atomic<std::uint64_t> num_saves{0};
  const std::string temporary = "-tmp-" + std::to_string(::getpid()) + "-" + std::to_string(num_saves.fetch_add(1));
  const std::size_t num_splits = state.splits.size();
  const std::uint32_t crc = state_crc(state);
  std::size_t num_started = 0;
  try {
    for (; num_started < num_splits;) {
      const std::size_t split = num_started++;
      write_split(split_name(basename, split, num_splits) + temporary, header_of(state, shard, split, crc),
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

std::uint32_t load_filter_files(const std::string& basename, std::span<const std::string> changes, HashShard shard,
                                State& state) {
  const std::size_t num_splits = state.splits.size();
  check_files_present(basename, num_splits);
  StateCrc crc;
  std::optional<Header> first;
  bool takes_part = false;  // of files of the whole
  for (std::size_t split = 0; split < num_splits; ++split) {
    const std::string name = split_name(basename, split, num_splits);
    const File file(std::fopen(name.c_str(), "rb"));
    if (!file) throw_errno("cannot open " + name);
    const Header header = read_header(file.get(), name, header_of(state, shard, split, 0));
    if (!first) first = header;
    if (header.version != first->version || header.state_crc != first->state_crc ||
        header.head_increment != first->head_increment || header.failure_count != first->failure_count ||
        header.is_of_part() != first->is_of_part()) {
      refuse(name, "it comes from another save than " + split_name(basename, 0, num_splits));
    }
    takes_part = !header.is_of_part() && !shard.is_all();
    if (header.version < filter_format::kOldestReadVersion) continue;
    Split& cells = state.splits[split];
    const CellRange kept(cells, takes_part ? shard : HashShard{});
    crc.add_split(header.num_elements);
    read_blocks(file.get(), name, cells.cells().size(), [&](const BlockHead& head, const auto& block) {
      crc.add_block(head, block);
      kept.copy(block, head.offset, cells);
    });
    cells.set_num_elements(header.num_elements);
  }
  if (first->version >= filter_format::kOldestReadVersion && crc.value() != first->state_crc) {
    refuse(basename, "the files do not add up to the state that was saved");
  }
  state.head = first->head;
  state.head_increment = first->head_increment;
  state.failure_count = first->failure_count;
  if (first->version < filter_format::kVersion) state.clear();
  std::uint32_t oldest = first->version;
  const HashShard of_files = takes_part ? HashShard{} : shard;
  const CellRange kept(state.splits[0], takes_part ? shard : HashShard{});  // all splits have the same size
  for (const std::string& name : changes) {
    oldest = std::min(oldest, apply_filter_changes(name, of_files, kept, state));
  }
  if (!takes_part) return oldest;
  for (Split& cells : state.splits) cells.set_num_elements(kept.cut(cells));
  // Only one of the parts has it, so that they add up again.
  if (shard.index > 0) state.failure_count = 0;
  return oldest;
}

}  // namespace monolith
