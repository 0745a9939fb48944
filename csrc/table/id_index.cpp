#include "table/id_index.h"

#include <algorithm>
#include <bit>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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

// What the search needs of an index, in registers.
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

std::size_t IdIndex::bytes_for(std::size_t size) const {
  if (size == 0) return 0;
  std::size_t lines = std::bit_ceil(size / kLineEntries + 1);
  while (size > most_entries(lines)) lines *= 2;
  return lines * kLineBytes;
}

std::size_t IdIndex::bytes_to_grow_for_one() const {
  if (lines_ == nullptr) return kLineBytes;
  return size_ + 1 > most_entries(num_lines()) ? num_lines() * kLineBytes : 0;
}

void IdIndex::reserve(std::size_t num_entries) {
  if (lines_ == nullptr && num_entries > 0) {
    const std::size_t bytes = bytes_for(num_entries);
    lines_ = static_cast<std::uint64_t*>(huge_allocate(bytes));
    log2_lines_ = std::countr_zero(bytes / kLineBytes);
  }
  while (num_entries > most_entries(num_lines())) grow();
}

void IdIndex::insert(std::uint64_t hash, std::uint32_t row) {
  if (lines_ == nullptr || size_ + 1 > most_entries(num_lines())) grow();
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
    // All entries at once: no processor foresees which one is the first empty one.
    unsigned empty = 0;
    for (unsigned slot = 0; slot < kLineEntries; ++slot) empty |= static_cast<unsigned>(line[slot] == 0) << slot;
    if (empty != 0) {
      line[std::countr_zero(empty)] = (tag(hash, displacement) << row_bits()) | row;
      return true;
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
  if (!placed) place_in_home_order(larger);
  larger.lines_ = lines_.exchange(larger.lines_);
  larger.log2_lines_ = log2_lines_.exchange(larger.log2_lines_);
}

// Ids made to collide may fit in one order and not in another. Every entry may go equally far from its home, so the
// order of homes fits if any does; and since the entries fit in half the lines, it does.
void IdIndex::place_in_home_order(IdIndex& larger) const {
  std::fill_n(larger.lines_.load(), larger.num_lines() * kLineEntries, 0);
  // Nothing has passed over a line with room: there the circle of lines can be cut.
  std::uint64_t cut = 0;
  const auto is_full = [&](std::uint64_t line) {
    return std::all_of(lines_ + line * kLineEntries, lines_ + (line + 1) * kLineEntries,
                       [](std::uint64_t entry) { return entry != 0; });
  };
  while (is_full(cut)) ++cut;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> entries;
  entries.reserve(size_);
  visit_lines(0, num_lines(), [&](std::uint64_t hash, std::uint32_t row) { entries.emplace_back(hash, row); });
  const auto distance = [&](std::uint64_t hash) {
    return (larger.home_line(hash) - 2 * (cut + 1)) & larger.line_mask();
  };
  std::ranges::sort(entries, [&](const auto& a, const auto& b) { return distance(a.first) < distance(b.first); });
  for (const auto& [hash, row] : entries) {
    if (!larger.place(hash, row)) throw std::length_error("too many ids share the first bits of their hash");
  }
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
