// Included by gather_kernels_scalar.cpp, gather_kernels_avx2.cpp and gather_kernels_avx512.cpp, each of which defines
// MONOLITH_SIMD. No functions of other headers here, unless they are always inlined: the linker keeps one copy of each,
// and it might keep the AVX-512 one.
#include "table/gather_kernels.h"
#include "table/id_entry.h"
#include "table/id_hash.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace monolith::MONOLITH_SIMD {
namespace {

// Four stages work on different ids at the same time: fetch the line of the index; find the row in it and fetch the
// pointer to its chunk; fetch the row; copy it. These are how many ids a stage is behind the first one.
constexpr std::size_t kChunksAt = 16;
constexpr std::size_t kRowsAt = 24;
constexpr std::size_t kCopyAt = 40;
constexpr std::size_t kRing = 64;  // ids under way, a power of two
static_assert(kCopyAt < kRing);

template <std::size_t kDim, bool kStreaming>
struct Gatherer {
  explicit Gatherer(const GatherRequest& r) : request(r), dim(kDim == 0 ? r.dim : kDim) {}

  const GatherRequest request;
  const std::size_t dim;
  std::size_t hits = 0;
  std::uint64_t hashes[kRing];
  const std::uint64_t* lines[kRing];
  const std::byte* const* chunks[kRing];
  std::size_t places[kRing];  // of the rows in their chunks, in bytes
  const float* rows[kRing];

  [[gnu::always_inline]] void fetch_line(std::size_t i) {
    const std::uint64_t hash = hash_id(request.ids[i]);
    const SubTableView& view = request.sub_tables[sub_table_of_hash(hash)];
    const std::uint64_t* line = view.lines + home_line_of(hash, view.log2_lines) * kLineEntries;
    __builtin_prefetch(line);
    hashes[i % kRing] = hash;
    lines[i % kRing] = line;
  }

  [[gnu::always_inline]] void fetch_chunk(std::size_t i) {
    const std::uint64_t hash = hashes[i % kRing];
    const SubTableView& view = request.sub_tables[sub_table_of_hash(hash)];
    const std::uint64_t* line = lines[i % kRing];
    const int row_bits = view.log2_lines + 3;
    const std::uint64_t rest = low_bits_of(hash, 56 - view.log2_lines) << 4;
    unsigned match = entries_with_tag(line, row_bits, rest | 1);
    if (match == 0) [[unlikely]] {
      line = find_displaced(view, line, row_bits, rest, match);
      if (line == nullptr) {
        chunks[i % kRing] = &request.no_chunk;
        places[i % kRing] = 0;
        return;
      }
    }
    const std::uint64_t row = low_bits_of(line[__builtin_ctz(match)], row_bits);
    const std::byte* const* chunk = view.chunks + row / kRowsOfChunk;
    __builtin_prefetch(chunk);
    chunks[i % kRing] = chunk;
    places[i % kRing] = row % kRowsOfChunk * request.weight_stride;
    ++hits;
  }

  [[gnu::always_inline]] void fetch_row(std::size_t i) {
    const std::byte* weights = *chunks[i % kRing] + request.first_weights + places[i % kRing];
    rows[i % kRing] = reinterpret_cast<const float*>(weights);
    for (std::size_t byte = 0; byte < dim * sizeof(float); byte += 64) __builtin_prefetch(weights + byte);
  }

  [[gnu::always_inline]] void copy(std::size_t i) const {
    const float* row = rows[i % kRing];
    float* out = request.out + i * request.stride;
#if defined(__AVX2__)
    // 32 bytes also for AVX-512: outputs are rarely aligned to more.
    if constexpr (kStreaming) {
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

  // The line past its home where an entry is, and which entries of it match; nullptr if there is none.
  [[gnu::noinline]] static const std::uint64_t* find_displaced(const SubTableView& view, const std::uint64_t* home,
                                                               int row_bits, std::uint64_t rest, unsigned& match) {
    const std::uint64_t mask = (std::uint64_t{1} << view.log2_lines) - 1;
    const std::uint64_t furthest = mask < kMaxDisplacement ? mask : kMaxDisplacement;
    const auto home_line = static_cast<std::uint64_t>(home - view.lines) / kLineEntries;
    const std::uint64_t* line = home;
    for (std::uint64_t displacement = 1; displacement <= furthest && !has_room(line); ++displacement) {
      line = view.lines + ((home_line + displacement) & mask) * kLineEntries;
      match = entries_with_tag(line, row_bits, rest | (displacement + 1));
      if (match != 0) return line;
    }
    return nullptr;
  }

  // While id i is in the first stage, ids behind it are in the others. At the edges of the batch some have none.
  template <bool kEdge>
  [[gnu::always_inline]] void all_stages(std::size_t i) {
    const auto has_id = [&](std::size_t behind) { return !kEdge || (i >= behind && i - behind < request.count); };
    if (has_id(0)) fetch_line(i);
    if (has_id(kChunksAt)) fetch_chunk(i - kChunksAt);
    if (has_id(kRowsAt)) fetch_row(i - kRowsAt);
    if (has_id(kCopyAt)) copy(i - kCopyAt);
  }

  std::size_t run() {
    std::size_t i = 0;
    for (; i < kCopyAt; ++i) all_stages<true>(i);
    for (; i < request.count; ++i) all_stages<false>(i);
    for (; i < request.count + kCopyAt; ++i) all_stages<true>(i);
    return hits;
  }
};

template <bool kStreaming>
std::size_t gather_any(const GatherRequest& request) {
  switch (request.dim) {
    case 8:
      return Gatherer<8, kStreaming>(request).run();
    case 16:
      return Gatherer<16, kStreaming>(request).run();
    case 32:
      return Gatherer<32, kStreaming>(request).run();
    case 64:
      return Gatherer<64, kStreaming>(request).run();
    default:
      return Gatherer<0, kStreaming>(request).run();
  }
}

}  // namespace

std::size_t gather_rows(const GatherRequest& request) {
#if defined(__AVX2__)
  if (request.streaming) {
    const std::size_t hits = gather_any<true>(request);
    // Streaming stores are weakly ordered: make them visible before another thread is told that the work is done.
    _mm_sfence();
    return hits;
  }
#endif
  return gather_any<false>(request);
}

}  // namespace monolith::MONOLITH_SIMD
