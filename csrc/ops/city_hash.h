// CityHash64 (version 1.1): the 64-bit hash of byte strings that feature ids are made with.
//
// Ids made by other programs with the same hash must be met bit for bit, so this function never changes. It is not
// meant against adversaries: a person who chooses the bytes can make two strings meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/text_dictionary.h"

namespace monolith {

std::uint64_t city_hash64(std::span<const std::uint8_t> bytes);

// Hashes each value as its 8 little-endian bytes; out has one entry per value.
void city_hash64_values(std::span<const std::int64_t> values, std::span<std::int64_t> out);

// Hashes each row of a ragged column of bytes; out has one entry per row. The bits of the hash are kept, so half of
// the results are negative. Notes the rows in `texts`, if there is one. Throws std::invalid_argument unless row_splits
// fits the bytes.
void city_hash64_rows(std::span<const std::uint8_t> bytes, std::span<const std::int64_t> row_splits,
                      std::span<std::int64_t> out, TextDictionary* texts = nullptr);

// Hashes byte strings of which each follows its length, four little-endian bytes: the binary form of BYTES tensors.
// Throws std::invalid_argument if the bytes end inside a string.
std::vector<std::int64_t> city_hash64_prefixed(std::span<const std::uint8_t> bytes);

}  // namespace monolith
