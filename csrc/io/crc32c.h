// CRC-32C (Castagnoli), the checksum of every file and frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace monolith {

// The checksum of `data`. Given the checksum of what came before as `initial`, it is that of both joined:
// crc32c(b, crc32c(a)) == crc32c(a + b). Uses the processor's instruction where there is one.
std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t initial = 0);

// Copies `data` to `to` and returns its checksum; faster than one after the other, above all for short data.
std::uint32_t copy_with_crc32c(std::span<const std::byte> data, std::byte* to);

// The checksum of a + b, from those of a and b and the size of b: a microsecond, whatever the sizes.
std::uint32_t join_crc32c(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

// What data followed by its own checksum, as four little-endian bytes, has for a checksum, whatever the data.
inline constexpr std::uint32_t kCrcOfSealed = 0x48674BC7U;

// As crc32c, by tables, on any processor; crc32c falls back to it.
std::uint32_t crc32c_portable(std::span<const std::byte> data, std::uint32_t initial = 0);

// TFRecord stores checksums masked, so that a checksum of data that holds checksums stays meaningful.
constexpr std::uint32_t mask_crc(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

constexpr std::uint32_t unmask_crc(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xA282EAD8U;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace monolith
