#include "table/sub_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace monolith {

namespace {

std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Room for how many chunks is made when there is none left.
std::size_t more_chunks(const std::vector<std::byte*>& chunks) { return std::max<std::size_t>(4, chunks.size() * 2); }

void overflow(ConsumerChanges& changes) {
  changes = {};
  changes.overflowed = true;
}

}  // namespace

ChunkLayout::ChunkLayout(const RowLayout& rows) : weight_bytes(rows.weight_bytes()), state_bytes(rows.state_bytes()) {
  const std::size_t row_bytes = weight_bytes + state_bytes;
  first_weights = sizeof(ChunkHeader) + kChunkRows * sizeof(std::uint32_t);
  if ((weight_bytes % 64 == 0 && state_bytes % 64 == 0) || 64 % row_bytes == 0) {
    weight_stride = state_stride = row_bytes;
    first_state = first_weights + weight_bytes;
    bytes = first_weights + whole_lines(kChunkRows * row_bytes);
  } else {
    weight_stride = weight_bytes;
    state_stride = state_bytes;
    first_state = first_weights + whole_lines(kChunkRows * weight_bytes);
    bytes = first_state + whole_lines(kChunkRows * state_bytes);
  }
}

void SubTable::refresh_view() {
  alignas(64) static constexpr std::uint64_t kEmptyLine[kLineEntries] = {};
  if (view == nullptr) return;
  *view = {index.lines() == nullptr ? kEmptyLine : index.lines(), chunks.data(), index.log2_lines()};
}

std::size_t SubTable::bytes(const ChunkLayout& layout) const {
  return sizeof(SubTable) + index.bytes() + chunks.capacity() * sizeof(std::byte*) + chunks.size() * layout.bytes;
}

std::size_t SubTable::bytes_for(const ChunkLayout& layout, std::size_t num_rows) const {
  const std::size_t num_chunks = (num_rows + kChunkRows - 1) / kChunkRows;
  const std::size_t capacity = num_chunks == 0 ? 0 : std::max<std::size_t>(4, std::bit_ceil(num_chunks));
  return sizeof(SubTable) + index.bytes_for(num_rows) + capacity * sizeof(std::byte*) + num_chunks * layout.bytes;
}

std::size_t SubTable::bytes_for_one_more(const ChunkLayout& layout) const {
  std::size_t bytes = index.bytes_to_grow_for_one();
  if (first_free_row == kNoRow && num_rows == chunks.size() * kChunkRows) {
    bytes += layout.bytes;
    if (chunks.size() == chunks.capacity()) bytes += (more_chunks(chunks) - chunks.capacity()) * sizeof(std::byte*);
  }
  return bytes;
}

void SubTable::reserve(const ChunkLayout& layout, ChunkArena& arena, std::size_t count) {
  constexpr std::size_t kPage = 4096;
  index.reserve(count);
  chunks.reserve((count + kChunkRows - 1) / kChunkRows);
  while (chunks.size() * kChunkRows < count) {
    std::byte* chunk = arena.allocate(layout.bytes);
    for (std::size_t offset = 0; offset < layout.bytes; offset += kPage) {
      *const_cast<volatile std::byte*>(chunk + offset) = std::byte{0};
    }
    chunks.push_back(chunk);
  }
  refresh_view();
}

std::uint32_t SubTable::insert(const ChunkLayout& layout, ChunkArena& arena, std::uint64_t hash) {
  // Also if there is no memory: the index or the list of chunks may have moved before that showed.
  struct Refresh {
    SubTable& sub_table;
    ~Refresh() { sub_table.refresh_view(); }
  } const refresh{*this};
  const bool reuse = first_free_row != kNoRow;
  if (!reuse && num_rows == chunks.size() * kChunkRows) {
    if (chunks.size() == chunks.capacity()) chunks.reserve(more_chunks(chunks));
    chunks.push_back(arena.allocate(layout.bytes));
  }
  const std::uint32_t row = reuse ? first_free_row : num_rows;
  index.insert(hash, row);
  if (reuse) {
    first_free_row = last_seen(row);
  } else {
    ++num_rows;
  }
  return row;
}

void SubTable::after_insert(const ChunkLayout& layout, std::uint64_t hash, std::uint32_t row) {
  if (snapshot_epoch != 0) preserve(layout, hash, row, false);
  for (std::size_t i = 0; i < consumers.size(); ++i) mark_dirty(i, hash, row);
}

void SubTable::mark_dirty(std::size_t consumer, std::uint64_t hash, std::uint32_t row) {
  ConsumerChanges& changes = consumers[consumer];
  // Only a thread with the lock changes these bits, but others may look (is_dirty_for_all).
  const std::atomic_ref dirty(header(row).dirty[consumer]);
  dirty.store(dirty.load(std::memory_order_relaxed) | std::uint64_t{1} << place_of(row), std::memory_order_relaxed);
  if (changes.overflowed) return;
  changes.touched_hashes.push_back(hash);
  changes.touched_rows.push_back(row);
  if (changes.touched_hashes.size() > max_changes) overflow(changes);
}

void SubTable::mark_erased(std::size_t consumer, std::uint64_t hash) {
  ConsumerChanges& changes = consumers[consumer];
  if (changes.overflowed) return;
  changes.erased_hashes.push_back(hash);
  if (changes.erased_hashes.size() > max_changes) overflow(changes);
}

ConsumerChanges SubTable::take_changes(std::size_t consumer) {
  ConsumerChanges taken;
  std::swap(taken, consumers[consumer]);
  if (taken.overflowed) {
    for (std::byte* chunk : chunks) reinterpret_cast<ChunkHeader*>(chunk)->dirty[consumer] = 0;
  }
  for (const std::uint32_t row : taken.touched_rows) {
    header(row).dirty[consumer] &= ~(std::uint64_t{1} << place_of(row));
  }
  return taken;
}

bool SubTable::erase(const ChunkLayout& layout, std::uint64_t hash) {
  const std::uint32_t row = index.find_row(hash);
  if (row == kNoRow) return false;
  if (snapshot_epoch != 0) preserve(layout, hash, row, true);
  last_seen(row) = first_free_row;
  first_free_row = row;
  index.erase(hash);
  ++erase_version;
  const std::uint64_t bit = std::uint64_t{1} << place_of(row);
  for (std::size_t i = 0; i < consumers.size(); ++i) {
    header(row).dirty[i] &= ~bit;
    mark_erased(i, hash);
  }
  return true;
}

bool SubTable::preserve(const ChunkLayout& layout, std::uint64_t hash, std::uint32_t row, bool copy) {
  ChunkHeader& chunk = header(row);
  const std::uint64_t bit = std::uint64_t{1} << place_of(row);
  if (chunk.preserved_epoch != snapshot_epoch) {
    chunk.preserved_epoch = snapshot_epoch;
    chunk.preserved = 0;
  }
  if ((chunk.preserved & bit) != 0) return false;
  if (copy) {
    const std::size_t row_bytes = layout.weight_bytes + layout.state_bytes;
    const std::size_t end = preserved.rows.size();
    preserved.rows.resize(end + row_bytes);
    std::memcpy(preserved.rows.data() + end, weights(layout, row), layout.weight_bytes);
    if (layout.state_bytes != 0) {
      std::memcpy(preserved.rows.data() + end + layout.weight_bytes, state(layout, row), layout.state_bytes);
    }
    preserved.last_seen.push_back(last_seen(row));
    preserved.hashes.push_back(hash);
  }
  chunk.preserved |= bit;
  return true;
}

void SubTable::clear() {
  index.clear();
  chunks = {};
  first_free_row = kNoRow;
  num_rows = 0;
  ++erase_version;
  refresh_view();
  for (ConsumerChanges& changes : consumers) overflow(changes);
}

}  // namespace monolith
