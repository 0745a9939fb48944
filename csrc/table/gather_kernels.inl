// Included by gather_kernels_scalar.cpp, gather_kernels_avx2.cpp and gather_kernels_avx512.cpp, each of which defines
// MONOLITH_SIMD. No functions of other headers here, unless they are always inlined: the linker keeps one copy of each,
// and it might keep the AVX-512 one.
#include "table/gather_kernels.h"
#include "table/id_entry.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace monolith::MONOLITH_SIMD {
namespace {

// Four stages, each one block of ids behind the one before it: fetch the lines of the index; find the rows in them and
// fetch the pointers to their chunks; fetch the rows; copy them. A stage is a short loop over a block: with all four
// stages in one loop over the ids, a processor has fewer accesses to memory under way.
constexpr std::size_t kBlock = 32;
constexpr std::size_t kStages = 4;
constexpr std::size_t kRing = kStages * kBlock;  // ids under way
static_assert((kRing & (kRing - 1)) == 0, "places in the ring are found by masks");

// In place of a row number: the home line is full of others, so the line after it has to come first.
constexpr std::uint32_t kDisplaced = kNoRow - 1;

// What a gather of ids and one of groups differ in: where hashes come from and where rows go.
// Only a shard's hashes are stretched: the two numbers for it would take registers that the loop has better use for.
template <bool kWhole>
struct IdsSource {
  const std::int64_t* ids;
  TableHash hash;
  [[gnu::always_inline]] std::uint64_t hash_at(std::size_t i) const {
    return kWhole ? hash_id(ids[i]) : hash.of(ids[i]);
  }
  [[gnu::always_inline]] void note(std::size_t, std::byte*, std::uint32_t) const {}
  template <typename CopyTo>
  [[gnu::always_inline]] std::size_t copy(std::size_t i, const CopyTo& copy_to) const {
    copy_to(i);
    return 1;
  }
};

template <bool kMerged>
struct GroupsSource {
  const GroupsToGather& request;
  [[gnu::always_inline]] std::uint64_t hash_at(std::size_t i) const { return request.hashes[request.first + i]; }
  [[gnu::always_inline]] void note(std::size_t i, std::byte* chunk, std::uint32_t row) const {
    FoundRow& at = request.found[request.first + i];
    at.chunk = row == kNoRow ? nullptr : chunk;
    at.row = row;
  }
  template <typename CopyTo>
  [[gnu::always_inline]] std::size_t copy(std::size_t i, const CopyTo& copy_to) const {
    if constexpr (!kMerged) {
      copy_to(request.first + i);
      return 1;
    } else {
      std::size_t copies = 0;
      std::uint32_t position = request.firsts[request.first + i];
      do {
        copy_to(position);
        ++copies;
        position = request.nexts[position];
      } while (position != kNoPosition);
      return copies;
    }
  }
};

enum class Copy { kNone, kCached, kStreaming };

template <std::size_t kDim, Copy kCopy, FetchInto kInto, typename Source>
struct Gatherer {
  Gatherer(const SubTableView* views, const RowCopies& c, Source s)
      : sub_tables(views),
        copies(c),
        source(s),
        dim(kDim == 0 ? c.dim : kDim),
        whole_lines(reinterpret_cast<std::uintptr_t>(c.out) % 64 == 0 && c.stride % 16 == 0) {}

  const SubTableView* const sub_tables;
  const RowCopies copies;
  const Source source;
  const std::size_t dim;
  const bool whole_lines;  // every row of `out` starts at a cache line
  std::size_t hits = 0;
  std::uint64_t hashes[kRing];
  const std::uint64_t* lines[kRing];
  std::byte* const* chunks[kRing];
  std::uint32_t numbers[kRing];  // of rows
  const float* rows[kRing];

  // Apart from the fetches, so that the compiler hashes several ids at once.
  [[gnu::always_inline]] void hash_block(std::size_t block, std::size_t count) {
    const std::size_t first = block * kBlock;
    const std::size_t last = first + kBlock < count ? first + kBlock : count;
    std::uint64_t* const to = hashes + first % kRing;
    for (std::size_t i = first; i < last; ++i) to[i - first] = source.hash_at(i);
  }

  [[gnu::always_inline]] void fetch_index(std::size_t i) {
    const std::uint64_t hash = hashes[i % kRing];
    const SubTableView& view = sub_tables[sub_table_of_hash(hash)];
    const std::uint64_t* line = view.lines + home_line_of(hash, view.log2_lines) * kLineEntries;
    fetch_line(line, kInto);
    lines[i % kRing] = line;
  }

  [[gnu::always_inline]] void fetch_chunk(std::size_t i) {
    const std::uint64_t hash = hashes[i % kRing];
    const SubTableView& view = sub_tables[sub_table_of_hash(hash)];
    const std::uint64_t* line = lines[i % kRing];
    const int row_bits = view.log2_lines + 3;
    const std::uint64_t rest = low_bits_of(hash, 56 - view.log2_lines) << 4;
    const unsigned match = entries_with_tag(line, row_bits, rest | 1);
    if (match != 0) [[likely]] {
      note_entry(i, view, line[__builtin_ctz(match)]);
      return;
    }
    chunks[i % kRing] = &copies.no_chunk;
    numbers[i % kRing] = kNoRow;
    if (!has_room(line)) {
      numbers[i % kRing] = kDisplaced;
      fetch_line(line_after(view, line, 1), kInto);
    }
  }

  [[gnu::always_inline]] void note_entry(std::size_t i, const SubTableView& view, std::uint64_t entry) {
    const std::uint64_t row = low_bits_of(entry, view.log2_lines + 3);
    std::byte* const* chunk = view.chunks + row / kRowsOfChunk;
    __builtin_prefetch(chunk);
    chunks[i % kRing] = chunk;
    numbers[i % kRing] = static_cast<std::uint32_t>(row);
  }

  [[gnu::always_inline]] void fetch_row(std::size_t i) {
    if (numbers[i % kRing] == kDisplaced) [[unlikely]] {
      find_displaced(i);
    }
    const std::uint32_t row = numbers[i % kRing];
    std::byte* const chunk = *chunks[i % kRing];
    const std::size_t place = row == kNoRow ? 0 : row % kRowsOfChunk * copies.weight_stride;
    const std::byte* weights = chunk + copies.first_weights + place;
    source.note(i, chunk, row);
    rows[i % kRing] = reinterpret_cast<const float*>(weights);
    // Only if it is read now: of a large batch, the first rows would be gone again when a step comes to them.
    if constexpr (kCopy != Copy::kNone) {
      fetch_lines(weights, dim * sizeof(float), kInto);
    }
  }

  [[gnu::always_inline]] void copy(std::size_t i) {
    const bool found = numbers[i % kRing] != kNoRow;
    if constexpr (kCopy == Copy::kNone) {
      hits += found;
    } else {
      const float* row = rows[i % kRing];
      const std::size_t num_copies = source.copy(i, [&](std::size_t position) { copy_row(position, row); });
      hits += found ? num_copies : 0;
    }
  }

  [[gnu::always_inline]] void copy_row(std::size_t position, const float* row) const {
    float* out = copies.out + position * copies.stride;
#if defined(__AVX2__)
    // 32 bytes also for AVX-512: outputs in the caches are rarely aligned to more.
#if defined(__AVX512F__)
    if constexpr (kCopy == Copy::kStreaming && kDim != 0 && kDim % 16 == 0) {
      if (whole_lines) {
#pragma GCC unroll 4
        for (std::size_t d = 0; d < dim; d += 16) _mm512_stream_ps(out + d, _mm512_loadu_ps(row + d));
        return;
      }
    }
#endif
    if constexpr (kCopy == Copy::kStreaming) {
#pragma GCC unroll 8
      for (std::size_t d = 0; d < dim; d += 8) _mm256_stream_ps(out + d, _mm256_loadu_ps(row + d));
      return;
    } else if constexpr (kDim != 0) {
#pragma GCC unroll 8
      for (std::size_t d = 0; d < dim; d += 8) _mm256_storeu_ps(out + d, _mm256_loadu_ps(row + d));
      return;
    }
#endif
    for (std::size_t d = 0; d < dim; ++d) out[d] = row[d];
  }

  [[gnu::always_inline]] static const std::uint64_t* line_after(const SubTableView& view, const std::uint64_t* home,
                                                                std::uint64_t displacement) {
    const auto home_line = static_cast<std::uint64_t>(home - view.lines) / kLineEntries;
    return view.lines + low_bits_of(home_line + displacement, view.log2_lines) * kLineEntries;
  }

  // Searches the lines after the home of an id. Without the time between two stages, the first of them alone, which one
  // id in a hundred needs, took a sixth of a lookup.
  [[gnu::noinline]] void find_displaced(std::size_t i) {
    const std::uint64_t hash = hashes[i % kRing];
    const SubTableView& view = sub_tables[sub_table_of_hash(hash)];
    const std::uint64_t rest = low_bits_of(hash, 56 - view.log2_lines) << 4;
    const std::uint64_t last_line = (std::uint64_t{1} << view.log2_lines) - 1;
    const std::uint64_t furthest = last_line < kMaxDisplacement ? last_line : kMaxDisplacement;
    numbers[i % kRing] = kNoRow;
    const std::uint64_t* line = lines[i % kRing];
    for (std::uint64_t displacement = 1; displacement <= furthest && !has_room(line); ++displacement) {
      line = line_after(view, lines[i % kRing], displacement);
      const unsigned match = entries_with_tag(line, view.log2_lines + 3, rest | (displacement + 1));
      if (match != 0) return note_entry(i, view, line[__builtin_ctz(match)]);
    }
  }

  template <typename Stage>
  [[gnu::always_inline]] static void for_block(std::size_t block, std::size_t count, const Stage& stage) {
    const std::size_t first = block * kBlock;
    if (first + kBlock <= count) {
#pragma GCC unroll 2
      for (std::size_t i = first; i < first + kBlock; ++i) stage(i);
    } else {
      for (std::size_t i = first; i < count; ++i) stage(i);
    }
  }

  std::size_t run(std::size_t count) {
    for (std::size_t block = 0; block < (count + kBlock - 1) / kBlock + kStages - 1; ++block) {
      hash_block(block, count);
      for_block(block, count, [&](std::size_t i) __attribute__((always_inline)) { fetch_index(i); });
      if (block < 1) continue;
      for_block(block - 1, count, [&](std::size_t i) __attribute__((always_inline)) { fetch_chunk(i); });
      if (block < 2) continue;
      for_block(block - 2, count, [&](std::size_t i) __attribute__((always_inline)) { fetch_row(i); });
      if (block < 3) continue;
      for_block(block - 3, count, [&](std::size_t i) __attribute__((always_inline)) { copy(i); });
    }
    return hits;
  }
};

template <std::size_t kDim, Copy kCopy, typename Request, typename Source>
std::size_t gather_dim(const Request& request, Source source) {
  const auto run = [&]<FetchInto kInto>() {
    return Gatherer<kDim, kCopy, kInto, Source>(request.sub_tables, request.copies, source).run(request.count);
  };
  if (request.copies.into == FetchInto::kSecondCache) return run.template operator()<FetchInto::kSecondCache>();
  return run.template operator()<FetchInto::kFirstCache>();
}

template <Copy kCopy, typename Request, typename Source>
std::size_t gather_any(const Request& request, Source source) {
  const auto run = [&]<std::size_t kDim>() { return gather_dim<kDim, kCopy>(request, source); };
  switch (request.copies.dim) {
    case 8:
      return run.template operator()<8>();
    case 16:
      return run.template operator()<16>();
    case 32:
      return run.template operator()<32>();
    case 64:
      return run.template operator()<64>();
    default:
      return run.template operator()<0>();
  }
}

template <typename Request, typename Source>
std::size_t gather_and_copy(const Request& request, Source source) {
#if defined(__AVX2__)
  if (request.copies.streaming) {
    const std::size_t hits = gather_any<Copy::kStreaming>(request, source);
    // Streaming stores are weakly ordered: make them visible before another thread is told that the work is done.
    _mm_sfence();
    return hits;
  }
#endif
  return gather_any<Copy::kCached>(request, source);
}

template <bool kMerged>
std::size_t gather_some_groups(const GroupsToGather& request) {
  const GroupsSource<kMerged> source{request};
  if (request.copies.out != nullptr) return gather_and_copy(request, source);
  return gather_dim<0, Copy::kNone>(request, source);
}

}  // namespace

std::size_t gather_ids(const IdsToGather& request) {
  if (request.hash.is_whole()) return gather_and_copy(request, IdsSource<true>{request.ids, request.hash});
  return gather_and_copy(request, IdsSource<false>{request.ids, request.hash});
}

std::size_t gather_groups(const GroupsToGather& request) {
  return request.firsts == nullptr ? gather_some_groups<false>(request) : gather_some_groups<true>(request);
}

}  // namespace monolith::MONOLITH_SIMD
