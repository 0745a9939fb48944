#include "ops/city_hash.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "ops/parallel_for.h"
#include "ops/ragged.h"

namespace monolith {
namespace {

using Word = std::uint64_t;

// The published constants: primes between 2^63 and 2^64, and the multiplier of the 128-to-64-bit mix.
constexpr Word kPrime0 = 0xc3a5c85c97cb3127;
constexpr Word kPrime1 = 0xb492b66fbe98f273;
constexpr Word kPrime2 = 0x9ae16a3b2f90404f;
constexpr Word kMixMultiplier = 0x9ddfea08eb382d69;

// Rows per task: enough work to be worth a thread.
constexpr std::size_t kRowsPerTask = 16384;

Word reversed(Word x) {
  x = ((x & 0x00ff00ff00ff00ff) << 8) | ((x >> 8) & 0x00ff00ff00ff00ff);
  x = ((x & 0x0000ffff0000ffff) << 16) | ((x >> 16) & 0x0000ffff0000ffff);
  return (x << 32) | (x >> 32);
}

// Little-endian, at any address and on any machine.
Word load64(const std::uint8_t* p) {
  Word x;
  std::memcpy(&x, p, sizeof x);
  if constexpr (std::endian::native == std::endian::big) x = reversed(x);
  return x;
}

Word load32(const std::uint8_t* p) { return Word{p[0]} | Word{p[1]} << 8 | Word{p[2]} << 16 | Word{p[3]} << 24; }

Word rotated_right(Word x, int bits) { return std::rotr(x, bits); }
Word folded(Word x) { return x ^ (x >> 47); }

Word mixed(Word low, Word high, Word multiplier = kMixMultiplier) {
  const Word once = folded((low ^ high) * multiplier);
  return folded((high ^ once) * multiplier) * multiplier;
}

Word hash_up_to_16(const std::uint8_t* s, std::size_t size) {
  const Word multiplier = kPrime2 + size * 2;
  if (size >= 8) {
    const Word head = load64(s) + kPrime2;
    const Word tail = load64(s + size - 8);
    return mixed(rotated_right(tail, 37) * multiplier + head, (rotated_right(head, 25) + tail) * multiplier,
                 multiplier);
  }
  if (size >= 4) return mixed(size + (load32(s) << 3), load32(s + size - 4), multiplier);
  if (size == 0) return kPrime2;
  const Word start_and_middle = Word{s[0]} + (Word{s[size / 2]} << 8);
  const Word size_and_end = size + (Word{s[size - 1]} << 2);
  return folded(start_and_middle * kPrime2 ^ size_and_end * kPrime0) * kPrime2;
}

Word hash_17_to_32(const std::uint8_t* s, std::size_t size) {
  const Word multiplier = kPrime2 + size * 2;
  const Word first = load64(s) * kPrime1;
  const Word second = load64(s + 8);
  const Word last = load64(s + size - 8) * multiplier;
  const Word before_last = load64(s + size - 16) * kPrime2;
  return mixed(rotated_right(first + second, 43) + rotated_right(last, 30) + before_last,
               first + rotated_right(second + kPrime2, 18) + last, multiplier);
}

Word hash_33_to_64(const std::uint8_t* s, std::size_t size) {
  const Word multiplier = kPrime2 + size * 2;
  // Words from the front are numbered up, words from the back down; they may overlap.
  const Word front0 = load64(s) * kPrime2;
  const Word front1 = load64(s + 8);
  const Word front2 = load64(s + 16) * kPrime2;
  const Word front3 = load64(s + 24) * 9;
  const Word back0 = load64(s + size - 8);
  const Word back1 = load64(s + size - 16) * multiplier;
  const Word back2 = load64(s + size - 24);
  const Word back3 = load64(s + size - 32);

  const Word outer = rotated_right(front0 + back0, 43) + (rotated_right(front1, 30) + back2) * 9;
  const Word crossed = ((front0 + back0) ^ back3) + front3 + 1;
  const Word turned = reversed((outer + crossed) * multiplier) + back1;
  const Word inner = rotated_right(front2 + front3, 42) + back2;
  const Word spread = (reversed((crossed + turned) * multiplier) + back0) * multiplier;
  const Word sum = front2 + front3 + back2;
  const Word last = reversed((inner + sum) * multiplier + spread) + front1;
  return folded((sum + last) * multiplier + back3 + back1) * multiplier + inner;
}

using Pair = std::pair<Word, Word>;

// A quick mix of 32 bytes into two words.
Pair absorbed(const std::uint8_t* s, Word a, Word b) {
  const Word last = load64(s + 24);
  a += load64(s);
  b = rotated_right(b + a + last, 21);
  const Word before = a;
  a += load64(s + 8) + load64(s + 16);
  return {a + last, b + rotated_right(a, 44) + before};
}

// Seven words of state start from the last 64 bytes and take in the string 64 bytes at a time.
Word hash_long(const std::uint8_t* s, std::size_t size) {
  Word x = load64(s + size - 40);
  Word y = load64(s + size - 16) + load64(s + size - 56);
  Word z = mixed(load64(s + size - 48) + size, load64(s + size - 24));
  Pair v = absorbed(s + size - 64, size, z);
  Pair w = absorbed(s + size - 32, y + kPrime1, x);
  x = x * kPrime1 + load64(s);
  // The last 1 to 64 bytes are in the state already.
  for (std::size_t left = (size - 1) / 64; left > 0; --left, s += 64) {
    x = rotated_right(x + y + v.first + load64(s + 8), 37) * kPrime1 ^ w.second;
    y = rotated_right(y + v.second + load64(s + 48), 42) * kPrime1 + v.first + load64(s + 40);
    z = rotated_right(z + w.first, 33) * kPrime1;
    v = absorbed(s, v.second * kPrime1, x + w.first);
    w = absorbed(s + 32, z + w.second, y + load64(s + 16));
    std::swap(z, x);
  }
  return mixed(mixed(v.first, w.first) + folded(y) * kPrime1 + z, mixed(v.second, w.second) + x);
}

void check_out(std::size_t size, std::size_t wanted) {
  if (size != wanted) {
    throw std::invalid_argument("out has " + std::to_string(size) + " entries but there are " + std::to_string(wanted) +
                                " strings to hash; the two must be equal");
  }
}

template <class Hash>
void hash_all(std::span<std::int64_t> out, const Hash& hash) {
  parallel_for((out.size() + kRowsPerTask - 1) / kRowsPerTask, [&](std::size_t task) {
    const std::size_t end = std::min(out.size(), (task + 1) * kRowsPerTask);
    for (std::size_t i = task * kRowsPerTask; i < end; ++i) out[i] = static_cast<std::int64_t>(hash(i));
  });
}

}  // namespace

std::uint64_t city_hash64(std::span<const std::uint8_t> bytes) {
  const std::uint8_t* const s = bytes.data();
  const std::size_t size = bytes.size();
  if (size <= 16) return hash_up_to_16(s, size);
  if (size <= 32) return hash_17_to_32(s, size);
  if (size <= 64) return hash_33_to_64(s, size);
  return hash_long(s, size);
}

void city_hash64_values(std::span<const std::int64_t> values, std::span<std::int64_t> out) {
  check_out(out.size(), values.size());
  hash_all(out, [&](std::size_t i) {
    std::array<std::uint8_t, 8> bytes;
    const auto value = static_cast<Word>(values[i]);
    for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<std::uint8_t>(value >> (8 * k));
    return hash_up_to_16(bytes.data(), bytes.size());
  });
}

void city_hash64_rows(std::span<const std::uint8_t> bytes, std::span<const std::int64_t> row_splits,
                      std::span<std::int64_t> out, TextDictionary* texts) {
  check_row_splits(row_splits, bytes.size());
  check_out(out.size(), row_splits.size() - 1);
  hash_all(out, [&](std::size_t row) {
    const auto begin = static_cast<std::size_t>(row_splits[row]);
    const auto text = bytes.subspan(begin, static_cast<std::size_t>(row_splits[row + 1]) - begin);
    const std::uint64_t hash = city_hash64(text);
    if (texts != nullptr) texts->note(hash, text);
    return hash;
  });
}

std::vector<std::int64_t> city_hash64_prefixed(std::span<const std::uint8_t> bytes) {
  std::vector<std::int64_t> ids;
  constexpr std::size_t kPrefix = 4;
  while (!bytes.empty()) {
    std::size_t size = 0;
    for (std::size_t k = 0; k < std::min(kPrefix, bytes.size()); ++k) size |= std::size_t{bytes[k]} << (8 * k);
    if (bytes.size() < kPrefix || bytes.size() - kPrefix < size) {
      throw std::invalid_argument("the bytes end inside text " + std::to_string(ids.size()) +
                                  "; each text follows its length in bytes, as four little-endian bytes");
    }
    ids.push_back(static_cast<std::int64_t>(city_hash64(bytes.subspan(kPrefix, size))));
    bytes = bytes.subspan(kPrefix + size);
  }
  return ids;
}

}  // namespace monolith
