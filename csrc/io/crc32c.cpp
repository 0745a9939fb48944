#include "io/crc32c.h"

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
#define MONOLITH_CRC_BYTE(crc, byte) _mm_crc32_u8(crc, byte)
#else
#define MONOLITH_CRC_TARGET
#define MONOLITH_CRC_WORD(crc, word) __crc32cd(static_cast<std::uint32_t>(crc), word)
#define MONOLITH_CRC_BYTE(crc, byte) __crc32cb(crc, byte)
#endif

// One instruction waits about three cycles for the one before, so three lanes run side by side and are joined by
// kLaneShift: the effect of kLane zero bytes on the register, per byte of it.
constexpr std::size_t kLane = 2048;
using LaneShift = std::array<std::array<std::uint32_t, 256>, 4>;

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

MONOLITH_CRC_TARGET std::uint32_t extend_by_instruction(std::uint32_t crc, const std::byte* data, std::size_t size) {
  if (size >= 3 * kLane) {
    static const LaneShift shift = make_lane_shift();
    for (; size >= 3 * kLane; data += 3 * kLane, size -= 3 * kLane) {
      std::uint64_t a = crc, b = 0, c = 0;
      for (std::size_t i = 0; i < kLane; i += 8) {
        a = MONOLITH_CRC_WORD(a, load<std::uint64_t>(data + i));
        b = MONOLITH_CRC_WORD(b, load<std::uint64_t>(data + kLane + i));
        c = MONOLITH_CRC_WORD(c, load<std::uint64_t>(data + 2 * kLane + i));
      }
      crc = skip_lane(shift, static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
      crc = skip_lane(shift, crc) ^ static_cast<std::uint32_t>(c);
    }
  }
  std::uint64_t wide = crc;
  for (; size >= 8; data += 8, size -= 8) wide = MONOLITH_CRC_WORD(wide, load<std::uint64_t>(data));
  crc = static_cast<std::uint32_t>(wide);
  for (; size > 0; ++data, --size) crc = MONOLITH_CRC_BYTE(crc, static_cast<std::uint8_t>(*data));
  return crc;
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

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> data, std::uint32_t initial) {
  return ~extend_by_tables(~initial, data.data(), data.size());
}

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t initial) {
#if defined(__x86_64__) || defined(__ARM_FEATURE_CRC32)
  if (has_instruction()) return ~extend_by_instruction(~initial, data.data(), data.size());
#endif
  return crc32c_portable(data, initial);
}

}  // namespace monolith
