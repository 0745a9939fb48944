#include "io/crc32c.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace monolith {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read in the order of a little-endian machine");

constexpr std::uint32_t kPolynomial = 0x82F63B78U;  // Castagnoli, bits reversed

// kTables[k][b]: the effect of byte b followed by k zero bytes.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xFFU];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

template <typename Word>
Word load(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// The three functions below work on the raw register: the caller inverts before and after.
std::uint32_t extend_by_tables(std::uint32_t crc, const std::byte* data, std::size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    const std::uint64_t word = load<std::uint64_t>(data) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xFFU];
  }
  for (; size > 0; ++data, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*data)) & 0xFFU];
  return crc;
}

#if defined(__x86_64__) || defined(__ARM_FEATURE_CRC32)

#if defined(__x86_64__)
#define MONOLITH_CRC_TARGET __attribute__((target("sse4.2")))
#define MONOLITH_CRC_WORD(crc, word) _mm_crc32_u64(crc, word)
#define MONOLITH_CRC_HALF(crc, half) _mm_crc32_u32(crc, half)
#define MONOLITH_CRC_BYTE(crc, byte) _mm_crc32_u8(crc, byte)
#else
#define MONOLITH_CRC_TARGET
#define MONOLITH_CRC_WORD(crc, word) __crc32cd(static_cast<std::uint32_t>(crc), word)
#define MONOLITH_CRC_HALF(crc, half) __crc32cw(crc, half)
#define MONOLITH_CRC_BYTE(crc, byte) __crc32cb(crc, byte)
#endif

// One instruction waits about three cycles for the one before, so three lanes run side by side and are joined by
// a LaneShift: the effect of a lane's length of zero bytes on the register, per byte of it. Long lanes spend the least
// on joining; short ones serve what is left over, and records of a few hundred bytes.
constexpr std::size_t kLongLane = 2048;
constexpr std::size_t kShortLane = 128;
// Copied at once, so that the checksum finds it in the nearest cache.
constexpr std::size_t kCopyBlock = 12 * kLongLane;
using LaneShift = std::array<std::array<std::uint32_t, 256>, 4>;

template <std::size_t kLane>
LaneShift make_lane_shift() {
  LaneShift shift{};
  const std::array<std::byte, kLane> zeros{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    for (std::size_t k = 0; k < 4; ++k) shift[k][byte] = extend_by_tables(byte << (8 * k), zeros.data(), kLane);
  }
  return shift;
}

std::uint32_t skip_lane(const LaneShift& shift, std::uint32_t crc) {
  return shift[0][crc & 0xFFU] ^ shift[1][(crc >> 8) & 0xFFU] ^ shift[2][(crc >> 16) & 0xFFU] ^ shift[3][crc >> 24];
}

// Takes `size` bytes, a multiple of three lanes.
template <std::size_t kLane>
MONOLITH_CRC_TARGET std::uint32_t extend_by_lanes(std::uint32_t crc, const std::byte* data, std::size_t size) {
  static const LaneShift shift = make_lane_shift<kLane>();
  for (; size > 0; data += 3 * kLane, size -= 3 * kLane) {
    std::uint64_t a = crc, b = 0, c = 0;
    for (std::size_t i = 0; i < kLane; i += 8) {
      a = MONOLITH_CRC_WORD(a, load<std::uint64_t>(data + i));
      b = MONOLITH_CRC_WORD(b, load<std::uint64_t>(data + kLane + i));
      c = MONOLITH_CRC_WORD(c, load<std::uint64_t>(data + 2 * kLane + i));
    }
    crc = skip_lane(shift, static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
    crc = skip_lane(shift, crc) ^ static_cast<std::uint32_t>(c);
  }
  return crc;
}

template <std::size_t kLane>
std::size_t lane_bytes(std::size_t size) {
  return size - size % (3 * kLane);
}

MONOLITH_CRC_TARGET std::uint32_t extend_by_instruction(std::uint32_t crc, const std::byte* data, std::size_t size) {
  if (size >= 3 * kLongLane) {
    const std::size_t taken = lane_bytes<kLongLane>(size);
    crc = extend_by_lanes<kLongLane>(crc, data, taken);
    data += taken;
    size -= taken;
  }
  if (size >= 3 * kShortLane) {
    const std::size_t taken = lane_bytes<kShortLane>(size);
    crc = extend_by_lanes<kShortLane>(crc, data, taken);
    data += taken;
    size -= taken;
  }
  std::uint64_t wide = crc;
  for (; size >= 8; data += 8, size -= 8) wide = MONOLITH_CRC_WORD(wide, load<std::uint64_t>(data));
  crc = static_cast<std::uint32_t>(wide);
  if (size >= 4) {
    crc = MONOLITH_CRC_HALF(crc, load<std::uint32_t>(data));
    data += 4;
    size -= 4;
  }
  for (; size > 0; ++data, --size) crc = MONOLITH_CRC_BYTE(crc, static_cast<std::uint8_t>(*data));
  return crc;
}

// Copy and checksum of 8 bytes or more in one loop whose only branch is its end: lengths of records are random, and
// each branch that depends on one costs more than the work on a few words. The odd bytes come first, so that whole
// words end the data: moved to the end of a word of zeros, which change nothing as long as the register is zero. For
// that the inverted bits that the register would begin with are put onto the data, its first four bytes.
MONOLITH_CRC_TARGET std::uint32_t copy_short(const std::byte* data, std::size_t size, std::byte* to) {
  constexpr std::uint64_t kInverted = 0xFFFFFFFFU;
  const std::size_t odd = (size - 1) % 8 + 1;
  const std::byte* const end = data + size;
  const auto head = load<std::uint64_t>(data);
  std::memcpy(to, &head, sizeof(head));
  std::uint64_t crc = MONOLITH_CRC_WORD(0, (head ^ kInverted) << (8 * (8 - odd)));
  crc ^= odd < 4 ? kInverted >> (8 * odd) : 0;
  for (data += odd, to += odd; data < end; data += 8, to += 8) {
    const auto word = load<std::uint64_t>(data);
    std::memcpy(to, &word, sizeof(word));
    crc = MONOLITH_CRC_WORD(crc, word);
  }
  return static_cast<std::uint32_t>(crc);
}

MONOLITH_CRC_TARGET std::uint32_t copy_by_instruction(const std::byte* data, std::size_t size, std::byte* to) {
  if (size >= 8 && size < 3 * kShortLane) return ~copy_short(data, size, to);
  std::uint32_t crc = ~0U;
  while (size > 0) {
    const std::size_t block = std::min(size, kCopyBlock);
    std::memcpy(to, data, block);
    crc = extend_by_instruction(crc, data, block);
    data += block;
    to += block;
    size -= block;
  }
  return ~crc;
}

bool has_instruction() {
#if defined(__x86_64__)
  static const bool present = __builtin_cpu_supports("sse4.2") != 0;
  return present;
#else
  return true;
#endif
}

#endif

// The product of two polynomials modulo that of the checksum; the highest bit is the coefficient of x^0.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    product ^= (a >> 31) != 0 ? b : 0U;
    b = (b >> 1) ^ ((b & 1U) != 0 ? kPolynomial : 0U);
  }
  return product;
}

}  // namespace

// A byte behind the data multiplies its checksum by x^8.
std::uint32_t join_crc32c(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  std::uint32_t power = 1U << 23;  // x^8
  for (; second_bytes != 0; second_bytes >>= 1) {
    if ((second_bytes & 1) != 0) first = multiply(first, power);
    power = multiply(power, power);
  }
  return first ^ second;
}

std::uint32_t crc32c_portable(std::span<const std::byte> data, std::uint32_t initial) {
  return ~extend_by_tables(~initial, data.data(), data.size());
}

std::uint32_t copy_with_crc32c(std::span<const std::byte> data, std::byte* to) {
#if defined(__x86_64__) || defined(__ARM_FEATURE_CRC32)
  if (has_instruction()) return copy_by_instruction(data.data(), data.size(), to);
#endif
  if (!data.empty()) std::memcpy(to, data.data(), data.size());
  return crc32c_portable(data);
}

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t initial) {
#if defined(__x86_64__) || defined(__ARM_FEATURE_CRC32)
  if (has_instruction()) return ~extend_by_instruction(~initial, data.data(), data.size());
#endif
  return crc32c_portable(data, initial);
}

}  // namespace monolith
