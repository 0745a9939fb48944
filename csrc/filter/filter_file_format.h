// The fixed-size parts of an admission filter file, as they lie in it; docs/formats.md has the table.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "io/crc32c.h"
#include "table/id_hash.h"

namespace monolith::filter_format {

static_assert(std::endian::native == std::endian::little, "the structs below are the little-endian file layout");

inline constexpr std::array<char, 8> kMagic = {'M', 'N', 'L', 'F', 'I', 'L', 'T', '\n'};
inline constexpr std::array<char, 8> kChangesMagic = {'M', 'N', 'L', 'F', 'D', 'L', 'T', '\n'};
// In 1 and 2, ids started at other cells; in 3, which has the same parts, they had other signatures. These counts
// cannot be found again.
inline constexpr std::uint32_t kVersion = 4;
inline constexpr std::uint32_t kOldestReadVersion = 3;
inline constexpr std::size_t kBlockCells = 10000;
inline constexpr std::uint64_t kFooterOffset = ~std::uint64_t{0};

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t split = 0;
  std::uint32_t split_num = 0;
  std::uint32_t max_forward_step = 0;
  std::uint32_t max_backward_step = 0;
  std::uint32_t max_step = 0;
  std::uint64_t head = 0;
  std::uint64_t head_increment = 0;
  std::uint64_t failure_count = 0;
  std::uint64_t capacity = 0;
  std::uint64_t total_size = 0;
  std::uint64_t num_elements = 0;
  double fill_rate = 0;
  std::uint32_t first_bucket = 0;  // those that the hashes of its shard touch
  std::uint32_t last_bucket = 0;   // the one after the last
  std::uint32_t state_crc = 0;     // of the whole filter: files of different saves do not mix
  std::uint32_t header_crc = 0;

  bool is_of_part() const { return first_bucket != 0 || last_bucket != kNumBuckets; }
};
static_assert(sizeof(Header) == 104 && offsetof(Header, header_crc) == 100);

struct BlockHead {
  std::uint64_t offset = 0;
  std::uint64_t num_cells = 0;
};
static_assert(sizeof(BlockHead) == 16);

struct Footer {
  std::uint64_t offset = kFooterOffset;
  std::uint64_t num_blocks = 0;
  std::uint32_t footer_crc = 0;
};
inline constexpr std::size_t kFooterBytes = 20;  // without the padding of the struct
static_assert(offsetof(Footer, footer_crc) == 16);

// Before the changes of one split.
struct SplitHead {
  std::uint64_t num_elements = 0;
  std::uint64_t num_blocks = 0;
  std::uint32_t was_emptied = 0;
  std::uint32_t head_crc = 0;
};
static_assert(sizeof(SplitHead) == 24 && offsetof(SplitHead, head_crc) == 20);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

// Turned and shifted: bytes followed by their plain CRC have one and the same CRC, whatever they are, so the checksum
// of the whole file, in a manifest, would not tell one header from another.
inline std::uint32_t header_crc(const Header& header) {
  return mask_crc(crc32c(bytes_of(header).first(offsetof(Header, header_crc))));
}
inline std::uint32_t split_head_crc(const SplitHead& head) {
  return mask_crc(crc32c(bytes_of(head).first(offsetof(SplitHead, head_crc))));
}
inline std::uint32_t footer_crc(const Footer& footer) {
  return crc32c(bytes_of(footer).first(offsetof(Footer, footer_crc)));
}
inline std::uint32_t block_crc(const BlockHead& head, std::span<const std::uint16_t> cells) {
  return crc32c(std::as_bytes(cells), crc32c(bytes_of(head)));
}

// Calls visit(head, cells) for each block that holds a count, in order.
template <typename Visit>
void for_each_block(std::span<const std::uint16_t> cells, Visit&& visit) {
  for (std::size_t offset = 0; offset < cells.size(); offset += kBlockCells) {
    const auto block = cells.subspan(offset, std::min(kBlockCells, cells.size() - offset));
    unsigned any = 0;
    for (const std::uint16_t cell : block) any |= cell;
    if (any != 0) visit(BlockHead{offset, block.size()}, block);
  }
}

}  // namespace monolith::filter_format
