#include "table/id_index.h"

#include <bit>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "ops/simd.h"
#include "table/huge_memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace monolith {

namespace {

// Bit i of the result tells that entry i of the line has the tag; bit 8 + i, that entry i is empty.
inline unsigned match_scalar(const std::uint64_t* line, int row_bits, std::uint64_t tag) {
  unsigned match = 0;
  for (unsigned slot = 0; slot < 8; ++slot) {
    match |= static_cast<unsigned>((line[slot] >> row_bits) == tag) << slot;
    match |= static_cast<unsigned>(line[slot] == 0) << (8 + slot);
  }
  return match;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) inline unsigned match_avx2(const std::uint64_t* line, int row_bits, std::uint64_t tag) {
  const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(line));
  const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 4));
  const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(tag));
  const __m128i shift = _mm_cvtsi32_si128(row_bits);
  const __m256i zero = _mm256_setzero_si256();
  const auto mask = [](__m256i equal) __attribute__((target("avx2"))) {
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
  };
  return mask(_mm256_cmpeq_epi64(_mm256_srl_epi64(low, shift), wanted)) |
         (mask(_mm256_cmpeq_epi64(_mm256_srl_epi64(high, shift), wanted)) << 4) |
         (mask(_mm256_cmpeq_epi64(low, zero)) << 8) | (mask(_mm256_cmpeq_epi64(high, zero)) << 12);
}

__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) inline unsigned match_avx512(const std::uint64_t* line,
                                                                                           int row_bits,
                                                                                           std::uint64_t tag) {
  const __m512i entries = _mm512_load_si512(line);
  // The masked form: GCC 12 takes the plain one's don't-care operand for an uninitialised variable.
  const __m512i shifted = _mm512_maskz_srl_epi64(0xFF, entries, _mm_cvtsi32_si128(row_bits));
  const unsigned equal = _mm512_cmpeq_epi64_mask(shifted, _mm512_set1_epi64(static_cast<long long>(tag)));
  const unsigned empty = _mm512_testn_epi64_mask(entries, entries);
  return equal | (empty << 8);
}
#endif

// What the search needs of an index, in registers.
struct View {
  const std::uint64_t* lines;
  int log2_lines;
  std::uint64_t max_displacement;
};

#define MONOLITH_FIND_ROWS(MATCH)                                                                       \
  const int row_bits = view.log2_lines + 3;                                                             \
  const std::uint64_t line_mask = (std::uint64_t{1} << view.log2_lines) - 1;                            \
  const std::uint64_t rest_mask = (std::uint64_t{1} << (56 - view.log2_lines)) - 1;                     \
  const std::uint64_t row_mask = (std::uint64_t{1} << row_bits) - 1;                                    \
  for (std::size_t i = 0; i < count; ++i) {                                                             \
    const std::uint64_t home = ((hashes[i] << kSubTableBits) >> 1) >> (63 - view.log2_lines);           \
    const std::uint64_t rest = (hashes[i] & rest_mask) << 4;                                            \
    std::uint32_t row = kNoRow;                                                                         \
    for (std::uint64_t displacement = 0;; ++displacement) {                                             \
      const std::uint64_t* line = view.lines + ((home + displacement) & line_mask) * 8;                 \
      const unsigned match = MATCH(line, row_bits, rest | (displacement + 1));                          \
      if ((match & 0xFF) != 0) {                                                                        \
        row = static_cast<std::uint32_t>(line[std::countr_zero(match)] & row_mask);                     \
        break;                                                                                          \
      }                                                                                                 \
      if (match != 0 || displacement == view.max_displacement) break;                                   \
    }                                                                                                   \
    rows[i] = row;                                                                                      \
  }

void find_scalar(View view, const std::uint64_t* hashes, std::size_t count, std::uint32_t* rows) {
  MONOLITH_FIND_ROWS(match_scalar)
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void find_avx2(View view, const std::uint64_t* hashes, std::size_t count,
                                               std::uint32_t* rows) {
  MONOLITH_FIND_ROWS(match_avx2)
}
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) void find_avx512(View view, const std::uint64_t* hashes,
                                                                               std::size_t count,
                                                                               std::uint32_t* rows) {
  MONOLITH_FIND_ROWS(match_avx512)
}
#endif

#undef MONOLITH_FIND_ROWS

}  // namespace

void IdIndex::find_rows(const std::uint64_t* hashes, std::size_t count, std::uint32_t* rows) const {
  if (lines_ == nullptr) {
    for (std::size_t i = 0; i < count; ++i) rows[i] = kNoRow;
    return;
  }
  const View view{lines_, log2_lines_, max_displacement()};
#if defined(__x86_64__)
  switch (simd_level()) {
    case SimdLevel::kAvx512:
      return find_avx512(view, hashes, count, rows);
    case SimdLevel::kAvx2:
      return find_avx2(view, hashes, count, rows);
    case SimdLevel::kScalar:
      break;
  }
#endif
  find_scalar(view, hashes, count, rows);
}

std::size_t IdIndex::bytes_for(std::size_t size) {
  return size == 0 ? 0 : std::bit_ceil((size + 5) / 6) * kLineBytes;
}

std::size_t IdIndex::bytes_to_grow_for_one() const {
  if (lines_ == nullptr) return kLineBytes;
  return size_ + 1 > num_lines() * 6 ? num_lines() * kLineBytes : 0;
}

void IdIndex::insert(std::uint64_t hash, std::uint32_t row) {
  if (lines_ == nullptr || size_ + 1 > num_lines() * 6) grow();
  while (!place(hash, row)) {
    // Only ids made to collide fill fifteen lines in a row while the index is nearly empty.
    if (num_lines() > 1024 && size_ * 64 < num_lines()) {
      throw std::length_error("too many ids share the first " + std::to_string(kSubTableBits + log2_lines_) +
                              " bits of their hash; such ids are made on purpose: refuse their source");
    }
    grow();
  }
  ++size_;
}

bool IdIndex::place(std::uint64_t hash, std::uint32_t row) {
  const std::uint64_t home = home_line(hash);
  for (std::uint64_t displacement = 0; displacement <= max_displacement(); ++displacement) {
    std::uint64_t* line = lines_ + ((home + displacement) & line_mask()) * kLineEntries;
    for (std::size_t slot = 0; slot < kLineEntries; ++slot) {
      if (line[slot] == 0) {
        line[slot] = (tag(hash, displacement) << row_bits()) | row;
        return true;
      }
    }
  }
  return false;
}

void IdIndex::grow() {
  if (lines_ == nullptr) {
    lines_ = static_cast<std::uint64_t*>(huge_allocate(kLineBytes));
    return;
  }
  const std::size_t old_lines = num_lines();
  IdIndex larger;
  larger.sub_table_ = sub_table_;
  larger.log2_lines_ = log2_lines_ + 1;
  larger.lines_ = static_cast<std::uint64_t*>(huge_allocate(2 * old_lines * kLineBytes));
  bool placed = true;
  visit_lines(0, old_lines, [&](std::uint64_t hash, std::uint32_t row) { placed = placed && larger.place(hash, row); });
  // Half the load in twice the lines: an entry that fitted fits again unless ids collide on purpose (see insert).
  if (!placed) throw std::length_error("too many ids share the first bits of their hash; refuse their source");
  std::swap(lines_, larger.lines_);
  std::swap(log2_lines_, larger.log2_lines_);
}

std::uint64_t* IdIndex::find(std::uint64_t hash, std::uint64_t* found_line) const {
  if (lines_ == nullptr) return nullptr;
  const std::uint64_t home = home_line(hash);
  for (std::uint64_t displacement = 0; displacement <= max_displacement(); ++displacement) {
    const std::uint64_t line = (home + displacement) & line_mask();
    bool has_room = false;
    for (std::size_t slot = 0; slot < kLineEntries; ++slot) {
      std::uint64_t* entry = lines_ + line * kLineEntries + slot;
      has_room |= *entry == 0;
      if (*entry >> row_bits() == tag(hash, displacement)) {
        *found_line = line;
        return entry;
      }
    }
    if (has_room) return nullptr;
  }
  return nullptr;
}

bool IdIndex::erase(std::uint64_t hash) {
  std::uint64_t hole_line = 0;
  std::uint64_t* hole = find(hash, &hole_line);
  if (hole == nullptr) return false;
  *hole = 0;
  --size_;
  // Searches stop at a line with room, so while the hole's line was full, an entry that passed over it must come back.
  for (std::uint64_t distance = 1; distance <= max_displacement(); ++distance) {
    const std::uint64_t line = (hole_line + distance) & line_mask();
    bool has_room = false;
    std::uint64_t* candidate = nullptr;
    for (std::size_t slot = 0; slot < kLineEntries; ++slot) {
      std::uint64_t* entry = lines_ + line * kLineEntries + slot;
      if (*entry == 0) {
        has_room = true;
      } else if (displacement_of(*entry) >= distance) {
        candidate = entry;
      }
    }
    if (candidate != nullptr) {
      *hole = *candidate - (distance << row_bits());
      *candidate = 0;
      hole = candidate;
      hole_line = line;
      distance = 0;
      if (has_room) return true;
    } else if (has_room) {
      return true;
    }
  }
  return true;
}

void IdIndex::release() {
  if (lines_ != nullptr) huge_free(lines_, num_lines() * kLineBytes);
  lines_ = nullptr;
  log2_lines_ = 0;
  size_ = 0;
}

}  // namespace monolith
