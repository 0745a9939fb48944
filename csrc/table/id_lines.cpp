#include "table/id_lines.h"

#include <bit>

#include "ops/simd.h"
#include "table/huge_memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace monolith {

namespace {

// Bit i of `with_tag` tells that entry i of the line has the tag; bit i of `empty`, that it is empty.
struct MatchScalar {
  static unsigned with_tag(const std::uint64_t* line, int row_bits, std::uint64_t tag) {
    unsigned found = 0;
    for (unsigned slot = 0; slot < 8; ++slot) found |= static_cast<unsigned>((line[slot] >> row_bits) == tag) << slot;
    return found;
  }
  static bool has_room(const std::uint64_t* line) {
    return line[0] == 0 || line[1] == 0 || line[2] == 0 || line[3] == 0 || line[4] == 0 || line[5] == 0 ||
           line[6] == 0 || line[7] == 0;
  }
};

#if defined(__x86_64__)
#define MONOLITH_AVX2 __attribute__((target("avx2,bmi,bmi2")))
#define MONOLITH_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,bmi,bmi2")))

struct MatchAvx2 {
  MONOLITH_AVX2 static unsigned with_tag(const std::uint64_t* line, int row_bits, std::uint64_t tag) {
    const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(line));
    const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 4));
    const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(tag));
    const __m128i shift = _mm_cvtsi32_si128(row_bits);
    const __m256i low_equal = _mm256_cmpeq_epi64(_mm256_srl_epi64(low, shift), wanted);
    const __m256i high_equal = _mm256_cmpeq_epi64(_mm256_srl_epi64(high, shift), wanted);
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(low_equal))) |
           (static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(high_equal))) << 4);
  }
  MONOLITH_AVX2 static bool has_room(const std::uint64_t* line) {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i low = _mm256_cmpeq_epi64(_mm256_load_si256(reinterpret_cast<const __m256i*>(line)), zero);
    const __m256i high = _mm256_cmpeq_epi64(_mm256_load_si256(reinterpret_cast<const __m256i*>(line + 4)), zero);
    return _mm256_testz_si256(_mm256_or_si256(low, high), _mm256_set1_epi64x(-1)) == 0;
  }
};

struct MatchAvx512 {
  MONOLITH_AVX512 static unsigned with_tag(const std::uint64_t* line, int row_bits, std::uint64_t tag) {
    // The masked form: GCC 12 takes the plain one's don't-care operand for an uninitialised variable.
    const __m512i shifted = _mm512_maskz_srl_epi64(0xFF, _mm512_load_si512(line), _mm_cvtsi32_si128(row_bits));
    return _mm512_cmpeq_epi64_mask(shifted, _mm512_set1_epi64(static_cast<long long>(tag)));
  }
  MONOLITH_AVX512 static bool has_room(const std::uint64_t* line) {
    const __m512i entries = _mm512_load_si512(line);
    return _mm512_testn_epi64_mask(entries, entries) != 0;
  }
};
#endif

// What the search needs of the lines, in registers.
struct View {
  const std::uint64_t* lines;
  int log2_lines;
  std::uint64_t max_displacement;
};

#define MONOLITH_FIND_ROWS(MATCH)                                                             \
  const int row_bits = view.log2_lines + 3;                                                   \
  const std::uint64_t line_mask = (std::uint64_t{1} << view.log2_lines) - 1;                  \
  const std::uint64_t rest_mask = (std::uint64_t{1} << (56 - view.log2_lines)) - 1;           \
  const std::uint64_t row_mask = (std::uint64_t{1} << row_bits) - 1;                          \
  for (std::size_t i = 0; i < count; ++i) {                                                   \
    const std::uint64_t home = ((hashes[i] << kSubTableBits) >> 1) >> (63 - view.log2_lines); \
    const std::uint64_t rest = (hashes[i] & rest_mask) << 4;                                  \
    std::uint32_t row = kNoRow;                                                               \
    for (std::uint64_t displacement = 0;; ++displacement) {                                   \
      const std::uint64_t* line = view.lines + ((home + displacement) & line_mask) * 8;       \
      const unsigned match = MATCH::with_tag(line, row_bits, rest | (displacement + 1));      \
      if (match != 0) {                                                                       \
        row = static_cast<std::uint32_t>(line[std::countr_zero(match)] & row_mask);           \
        break;                                                                                \
      }                                                                                       \
      if (MATCH::has_room(line) || displacement == view.max_displacement) break;              \
    }                                                                                         \
    rows[i] = row;                                                                            \
  }

void find_scalar(View view, const std::uint64_t* hashes, std::size_t count,
                 std::uint32_t* rows){MONOLITH_FIND_ROWS(MatchScalar)}
#if defined(__x86_64__)
MONOLITH_AVX2 void find_avx2(View view, const std::uint64_t* hashes, std::size_t count,
                             std::uint32_t* rows){MONOLITH_FIND_ROWS(MatchAvx2)} MONOLITH_AVX512
    void find_avx512(View view, const std::uint64_t* hashes, std::size_t count, std::uint32_t* rows) {
  MONOLITH_FIND_ROWS(MatchAvx512)
}
#endif

#undef MONOLITH_FIND_ROWS

}  // namespace

void IdLines::allocate(int log2_lines) {
  release();
  lines_ = static_cast<std::uint64_t*>(huge_allocate((std::size_t{1} << log2_lines) * kLineBytes));
  log2_lines_ = log2_lines;
}

void IdLines::release() {
  if (lines_ != nullptr) huge_free(lines_, bytes());
  lines_ = nullptr;
  log2_lines_ = 0;
}

void IdLines::swap(IdLines& other) {
  other.lines_ = lines_.exchange(other.lines_);
  other.log2_lines_ = log2_lines_.exchange(other.log2_lines_);
}

void IdLines::find_rows(const std::uint64_t* hashes, std::size_t count, std::uint32_t* rows) const {
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

bool IdLines::place(std::uint64_t hash, std::uint32_t row) {
  const std::uint64_t first = home(hash);
  for (std::uint64_t displacement = 0; displacement <= max_displacement(); ++displacement) {
    std::uint64_t* line = lines_ + ((first + displacement) & line_mask()) * kLineEntries;
    for (std::size_t slot = 0; slot < kLineEntries; ++slot) {
      if (line[slot] == 0) {
        line[slot] = (tag(hash, displacement) << row_bits()) | row;
        return true;
      }
    }
  }
  return false;
}

std::uint64_t* IdLines::find(std::uint64_t hash, std::uint64_t* found_line) const {
  if (lines_ == nullptr) return nullptr;
  const std::uint64_t first = home(hash);
  for (std::uint64_t displacement = 0; displacement <= max_displacement(); ++displacement) {
    const std::uint64_t line = (first + displacement) & line_mask();
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

bool IdLines::erase(std::uint64_t hash) {
  std::uint64_t hole_line = 0;
  std::uint64_t* hole = find(hash, &hole_line);
  if (hole == nullptr) return false;
  *hole = 0;
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

}  // namespace monolith
