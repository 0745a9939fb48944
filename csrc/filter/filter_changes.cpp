#include "filter/filter_changes.h"

#include <unistd.h>

#include <array>
#include <cstdio>

#include "filter/changed_cells.h"
#include "filter/filter_file_format.h"
#include "filter/filter_file_io.h"

namespace monolith {
namespace {

using State = SlidingHashFilter::State;
using filter_format::BlockHead;
using filter_format::Footer;
using filter_format::Header;
using filter_format::SplitHead;
using filter_io::File;

Header changes_header(const State& state, HashShard shard) {
  Header header = filter_io::header_of(state, shard, 0, 0);
  header.magic = filter_format::kChangesMagic;
  header.num_elements = 0;
  header.header_crc = filter_format::header_crc(header);
  return header;
}

void write_split(std::FILE* file, const std::string& name, const SplitChanges& split) {
  SplitHead head{.num_elements = split.num_elements, .num_blocks = split.pages.size()};
  head.was_emptied = split.was_emptied ? 1 : 0;
  head.head_crc = filter_format::split_head_crc(head);
  filter_io::write(file, filter_format::bytes_of(head), name);
  for (const SplitChanges::Page& page : split.pages) {
    const BlockHead block{page.first_cell, page.cells.size()};
    const auto cells = std::as_bytes(std::span(page.cells));
    filter_io::write(file, filter_format::bytes_of(block), name);
    filter_io::write(file, cells, name);
    filter_io::write(file, filter_format::bytes_of(crc32c(cells, crc32c(filter_format::bytes_of(block)))), name);
  }
}

// Reads one block and hands each of its cells to visit(cell, value); returns the cell after its page.
template <typename Visit>
std::uint64_t read_block(std::FILE* file, const std::string& name, std::uint64_t next, std::size_t num_cells,
                         Visit&& visit) {
  constexpr std::size_t kAtOnce = 4096;
  std::array<SplitChanges::Cell, kAtOnce> cells;
  BlockHead head;
  filter_io::read_value(file, head, name);
  if (head.offset < next || head.offset >= num_cells || head.offset % ChangedCells::kPageCells != 0 ||
      head.num_cells == 0 || head.num_cells > ChangedCells::kPageCells) {
    filter_io::refuse(name, "a block of " + std::to_string(head.num_cells) + " changes at cell " +
                                std::to_string(head.offset) + " is out of place");
  }
  std::uint32_t crc = crc32c(filter_format::bytes_of(head));
  std::int64_t last = -1;
  for (std::uint64_t left = head.num_cells; left > 0;) {
    const auto part = std::span(cells).first(std::min<std::uint64_t>(left, kAtOnce));
    filter_io::read(file, std::as_writable_bytes(part), name);
    crc = crc32c(std::as_bytes(part), crc);
    for (const SplitChanges::Cell& cell : part) {
      // A count is 1 to 15; cells of a page ascend.
      if (cell.place <= last || head.offset + cell.place >= num_cells || (cell.value & 15) == 0) {
        filter_io::refuse(name, "the change of cell " + std::to_string(head.offset + cell.place) + " is none");
      }
      last = cell.place;
      visit(head.offset + cell.place, cell.value);
    }
    left -= part.size();
  }
  std::uint32_t stored = 0;
  filter_io::read_value(file, stored, name);
  if (stored != crc) {
    filter_io::refuse(name, "the checksum of the block at cell " + std::to_string(head.offset) + " is wrong");
  }
  return head.offset + ChangedCells::kPageCells;
}

}  // namespace

void save_filter_changes(const std::string& name, HashShard shard, const State& state,
                         const std::vector<SplitChanges>& changes) {
  File file(std::fopen(name.c_str(), "wbx"));
  if (!file) filter_io::throw_errno("cannot create " + name);
  try {
    filter_io::write(file.get(), filter_format::bytes_of(changes_header(state, shard)), name);
    Footer footer;
    for (const SplitChanges& split : changes) {
      write_split(file.get(), name, split);
      footer.num_blocks += split.pages.size();
    }
    footer.footer_crc = filter_format::footer_crc(footer);
    filter_io::write(file.get(), filter_format::bytes_of(footer).first(filter_format::kFooterBytes), name);
    filter_io::finish(std::move(file), name);
  } catch (...) {
    ::unlink(name.c_str());
    throw;
  }
}

std::uint32_t apply_filter_changes(const std::string& name, HashShard shard, const CellRange& kept, State& state) {
  const File file(std::fopen(name.c_str(), "rb"));
  if (!file) filter_io::throw_errno("cannot open " + name);
  const Header header = filter_io::read_header(file.get(), name, changes_header(state, shard));
  if (header.version < filter_format::kOldestReadVersion) {
    state.clear();
    return header.version;
  }
  if (header.is_of_part() == shard.is_all()) filter_io::refuse(name, "it is of another part than what it changes");
  std::uint64_t num_blocks = 0;
  for (auto& split : state.splits) {
    SplitHead head;
    filter_io::read_value(file.get(), head, name);
    if (head.head_crc != filter_format::split_head_crc(head)) {
      filter_io::refuse(name, "the checksum of a split's head is wrong");
    }
    if (head.num_elements > split.capacity() || head.was_emptied > 1) {
      filter_io::refuse(name, "a split's head contradicts itself");
    }
    if (head.was_emptied == 1) split.clear();
    const auto cells = split.cells();
    std::uint64_t next = 0;
    for (std::uint64_t block = 0; block < head.num_blocks; ++block) {
      next = read_block(file.get(), name, next, cells.size(), [&](std::size_t cell, std::uint16_t value) {
        if (kept.contains(cell)) cells[cell] = value;
      });
    }
    split.set_num_elements(head.num_elements);
    num_blocks += head.num_blocks;
  }
  Footer footer;
  filter_io::read_value(file.get(), footer, name, offsetof(Footer, footer_crc));
  if (footer.offset != filter_format::kFooterOffset) filter_io::refuse(name, "its footer is missing");
  filter_io::read_footer(file.get(), name, footer, num_blocks);
  state.head = header.head;
  state.head_increment = header.head_increment;
  state.failure_count = header.failure_count;
  if (header.version < filter_format::kVersion) state.clear();
  return header.version;
}

}  // namespace monolith
