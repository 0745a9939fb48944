// Varints of the protobuf wire format: 7 bits a byte, the lowest first, the top bit says that more follow.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace monolith::parse {

static_assert(std::endian::native == std::endian::little, "eight bytes are decoded at once, the lowest first");

inline constexpr std::size_t kMaxVarintBytes = 10;
inline constexpr std::uint64_t kTopBits = 0x8080808080808080;

inline std::uint64_t load_u64(const std::uint8_t* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// Eight groups of 7 bits, one per byte, pushed together to 56 bits: pairs, then fours, then all.
inline std::uint64_t squeeze_varint(std::uint64_t x) {
  x = (x & 0x007f007f007f007f) | ((x & 0x7f007f007f007f00) >> 1);
  x = (x & 0x00003fff00003fff) | ((x & 0x3fff00003fff0000) >> 2);
  return (x & 0x000000000fffffff) | ((x & 0x0fffffff00000000) >> 4);
}

// Reads the varint at `p` and returns where it ends; nullptr if it does not end before `end` or has more than ten
// bytes. Bytes up to `readable` (>= end) may be looked at, so that most varints need no test per byte.
inline const std::uint8_t* decode_varint(const std::uint8_t* p, const std::uint8_t* end, const std::uint8_t* readable,
                                         std::uint64_t& value) {
  if (p < end && *p < 0x80) [[likely]] {
    value = *p;
    return p + 1;
  }
  if (readable - p >= static_cast<std::ptrdiff_t>(kMaxVarintBytes)) {
    const std::uint64_t word = load_u64(p);
    const std::uint64_t stops = ~word & kTopBits;
    if (stops != 0) {
      value = squeeze_varint(word & (stops ^ (stops - 1)) & ~kTopBits);
      p += (std::countr_zero(stops) + 1) / 8;
    } else {
      // Nine or ten bytes; hashed ids have either at random, so no branch tells them apart.
      const std::uint64_t ten = p[8] >> 7;
      if ((ten & p[9] >> 7) != 0) return nullptr;
      value = squeeze_varint(word & ~kTopBits) | std::uint64_t{p[8] & 0x7fU} << 56 | (ten & p[9]) << 63;
      p += 9 + ten;
    }
    return p <= end ? p : nullptr;
  }
  value = 0;
  for (unsigned shift = 0; p < end && shift < 70; shift += 7) {
    const std::uint8_t byte = *p++;
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return p;
  }
  return nullptr;
}

// How many varints end in these bytes.
inline std::size_t count_varints(const std::uint8_t* p, std::size_t size) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < size; ++i) count += p[i] < 0x80;
  return count;
}

}  // namespace monolith::parse
