// One of the 256 parts of a table: an index, its rows, and what their consumers have not seen yet, behind one lock.
//
// Rows live in chunks of 64 that never move:
//
//   [ header: 64 B | last seen: 64 x 4 B | 64 rows: weights and optimizer state ]
//
// Where both parts fill whole cache lines, or share one, a row's weights and state stand side by side: a step then
// touches one place in memory. Otherwise the weights of all rows come first, so that a lookup touches whole lines.
//
// Callers hold `lock` (shared to read, exclusive to change) for at most a block of 64 ids, as guests of the table's
// gate (table_gate.h); or have the whole table for themselves.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "table/chunk_arena.h"
#include "table/found_row.h"
#include "table/id_index.h"
#include "table/row_layout.h"
#include "table/rw_spin_lock.h"
#include "table/sub_table_view.h"

namespace monolith {

inline constexpr std::size_t kChunkRows = kRowsOfChunk;
inline constexpr std::size_t kMaxConsumers = 6;

struct alignas(64) ChunkHeader {
  std::uint64_t dirty[kMaxConsumers];  // a bit per row: changed since the consumer last took its changes
  std::uint64_t preserved;             // a bit per row: the snapshot being taken has this row, or must not have it
  std::uint64_t preserved_epoch;       // which snapshot `preserved` speaks of

  // Whether a row is dirty for all of the first `num_consumers` already. Needs no lock: another thread may set bits.
  bool is_dirty_for_all(std::size_t num_consumers, std::uint64_t bit) {
    for (std::size_t i = 0; i < num_consumers; ++i) {
      if ((std::atomic_ref(dirty[i]).load(std::memory_order_relaxed) & bit) == 0) return false;
    }
    return true;
  }
};
static_assert(sizeof(ChunkHeader) == 64);

// Byte offsets inside a chunk, the same for all chunks of a table.
struct ChunkLayout {
  explicit ChunkLayout(const RowLayout& rows);
  std::size_t weight_bytes, state_bytes;  // of one row
  std::size_t weight_stride, state_stride;
  std::size_t first_weights, first_state, bytes;

  std::byte* weights(std::byte* chunk, std::uint32_t row) const {
    return chunk + first_weights + row % kChunkRows * weight_stride;
  }
  std::byte* state(std::byte* chunk, std::uint32_t row) const {
    return chunk + first_state + row % kChunkRows * state_stride;
  }
  static std::uint32_t& last_seen(std::byte* chunk, std::uint32_t row) {
    return reinterpret_cast<std::uint32_t*>(chunk + sizeof(ChunkHeader))[row % kChunkRows];
  }
};

// What one consumer (a delta checkpoint, a serving target) has yet to be told.
struct ConsumerChanges {
  std::vector<std::uint64_t> touched_hashes;  // each once; may name ids erased since
  std::vector<std::uint32_t> touched_rows;    // where their dirty bit is
  std::vector<std::uint64_t> erased_hashes;   // tombstones
  bool overflowed = false;                    // too many to list: everything counts as changed
};

// Rows that a snapshot must still write but that training has changed or erased since the snapshot began.
struct PreservedRows {
  std::vector<std::uint64_t> hashes;
  std::vector<std::uint32_t> last_seen;
  std::vector<std::byte> rows;  // row_bytes each
};

struct alignas(64) SubTable {
  RwSpinLock lock;
  IdIndex index;
  std::vector<std::byte*> chunks;
  std::uint32_t erase_version = 0;  // changes when a row number may have come to mean another id
  std::uint32_t num_rows = 0;       // row numbers ever given out
  // All that finding a row needs is above, in one cache line.
  SubTableView* view = nullptr;           // the same for callers without locks; this sub-table keeps it up to date
  std::uint32_t first_free_row = kNoRow;  // each names the next where its last seen was: no memory to erase a row
  std::uint64_t snapshot_epoch = 0;       // not 0 while a snapshot is being taken of this sub-table
  PreservedRows preserved;
  std::vector<ConsumerChanges> consumers;
  std::size_t max_changes = 0;  // that one consumer may have outstanding here, before it overflows

  std::byte* chunk_of(std::uint32_t row) const { return chunks[row / kChunkRows]; }
  FoundRow found(std::uint32_t row) const { return {row == kNoRow ? nullptr : chunk_of(row), row}; }
  static std::size_t place_of(std::uint32_t row) { return row % kChunkRows; }
  ChunkHeader& header(std::uint32_t row) const { return *reinterpret_cast<ChunkHeader*>(chunk_of(row)); }
  std::uint32_t& last_seen(std::uint32_t row) const { return ChunkLayout::last_seen(chunk_of(row), row); }
  std::byte* weights(const ChunkLayout& layout, std::uint32_t row) const { return layout.weights(chunk_of(row), row); }
  std::byte* state(const ChunkLayout& layout, std::uint32_t row) const { return layout.state(chunk_of(row), row); }

  // Someone wants to know of changes: a consumer or a snapshot.
  bool watches_changes() const { return snapshot_epoch != 0 || !consumers.empty(); }

  // After the index or the list of chunks may have moved.
  void refresh_view();

  // What all of this takes, but for changes that consumers have not taken and what a snapshot has set aside.
  std::size_t bytes(const ChunkLayout& layout) const;

  // What this sub-table would take with `num_rows` rows.
  std::size_t bytes_for(const ChunkLayout& layout, std::size_t num_rows) const;

  // Bytes that one more row would add.
  std::size_t bytes_for_one_more(const ChunkLayout& layout) const;

  // Takes the memory of `count` rows now, every page of it, so that inserting them takes none.
  void reserve(const ChunkLayout& layout, ChunkArena& arena, std::size_t count);

  // Gives an absent id a row (contents undefined, nothing marked). Throws std::bad_alloc and stays as it was.
  std::uint32_t insert(const ChunkLayout& layout, ChunkArena& arena, std::uint64_t hash);

  // Before a row is changed: keeps its old contents for a running snapshot, and marks it dirty for every consumer.
  void before_change(const ChunkLayout& layout, std::uint64_t hash, std::uint32_t row) {
    if (!watches_changes()) return;
    ChunkHeader& chunk = header(row);
    const std::uint64_t bit = std::uint64_t{1} << place_of(row);
    if (snapshot_epoch != 0 && !(chunk.preserved_epoch == snapshot_epoch && (chunk.preserved & bit) != 0)) {
      preserve(layout, hash, row, true);
    }
    for (std::size_t i = 0; i < consumers.size(); ++i) {
      if ((chunk.dirty[i] & bit) == 0) mark_dirty(i, hash, row);
    }
  }

  // A new row belongs to no snapshot that began before it.
  void after_insert(const ChunkLayout& layout, std::uint64_t hash, std::uint32_t row);

  void mark_dirty(std::size_t consumer, std::uint64_t hash, std::uint32_t row);
  void mark_erased(std::size_t consumer, std::uint64_t hash);

  // Hands over a consumer's changes and starts it afresh.
  ConsumerChanges take_changes(std::size_t consumer);

  // Removes an id's row and leaves tombstones; false if absent.
  bool erase(const ChunkLayout& layout, std::uint64_t hash);

  // Marks a row as taken by the running snapshot; false if it was marked before. With `copy`, keeps its contents.
  bool preserve(const ChunkLayout& layout, std::uint64_t hash, std::uint32_t row, bool copy);

  void clear();
};

}  // namespace monolith
