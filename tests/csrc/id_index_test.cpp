#include "table/id_index.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check.h"
#include "ops/simd.h"

namespace {

using namespace monolith;
using Model = std::unordered_map<std::uint64_t, std::uint32_t>;

constexpr std::uint64_t kBelowSubTable = (std::uint64_t{1} << (64 - kSubTableBits)) - 1;

std::uint64_t in_sub_table(std::uint32_t sub_table, std::uint64_t below) {
  return (std::uint64_t{sub_table} << (64 - kSubTableBits)) | (below & kBelowSubTable);
}

// A hash of sub-table 0 that stays in line `line` of `1 << log2_lines` lines, however often the index doubles after.
std::uint64_t in_line(std::uint64_t line, int log2_lines, std::uint64_t rest) {
  return (line << (64 - kSubTableBits - log2_lines)) | rest;
}

// Row numbers as a sub-table gives them out: the lowest free one first.
class RowNumbers {
 public:
  std::uint32_t take() {
    if (free_.empty()) return next_++;
    const std::uint32_t row = free_.back();
    free_.pop_back();
    return row;
  }
  void give_back(std::uint32_t row) { free_.push_back(row); }

 private:
  std::uint32_t next_ = 0;
  std::vector<std::uint32_t> free_;
};

Model visited(const IdIndex& index) {
  Model found;
  index.visit_lines(0, index.num_lines(), [&](std::uint64_t hash, std::uint32_t row) {
    CHECK(found.emplace(hash, row).second);  // each entry once
  });
  return found;
}

void check_same(const IdIndex& index, const Model& model) {
  CHECK_EQ(index.size(), model.size());
  CHECK(visited(index) == model);
  std::vector<std::uint64_t> hashes;
  for (const auto& [hash, row] : model) hashes.push_back(hash);
  std::vector<std::uint32_t> rows(hashes.size());
  for (const std::uint64_t hash : hashes) index.prefetch(hash);
  index.find_rows(hashes.data(), hashes.size(), rows.data());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < hashes.size(); ++i) wrong += rows[i] != model.at(hashes[i]);
  CHECK_EQ(wrong, 0U);
}

void test_hash_is_a_bijection() {
  constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> ids{
      0, 1, -1, 2, -2, kLowest, kLowest + 1, kHighest, kHighest - 1, 1LL << 32, (1LL << 48) - 1};
  for (int bit = 0; bit < 64; ++bit) ids.push_back(static_cast<std::int64_t>(std::uint64_t{1} << bit));
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) ids.push_back(static_cast<std::int64_t>(random()));
  std::size_t wrong = 0;
  for (const std::int64_t id : ids) {
    wrong += id_of_hash(hash_id(id)) != id;
    wrong += hash_id(id_of_hash(static_cast<std::uint64_t>(id))) != static_cast<std::uint64_t>(id);
  }
  CHECK_EQ(wrong, 0U);
  static_assert(id_of_hash(hash_id(-1)) == -1);
}

// Files and shards depend on the hash, so it may never change: the figures were computed apart from this code.
void test_hash_figures() {
  CHECK_EQ(hash_id(0), 0U);
  CHECK_EQ(hash_id(1), 0x3B184EB6B4801AC1ULL);
  CHECK_EQ(hash_id(-1), 0xDC31303FE2AB5637ULL);
}

void test_empty() {
  IdIndex index;
  CHECK_EQ(index.size(), 0U);
  CHECK_EQ(index.bytes(), 0U);
  CHECK_EQ(index.find_row(hash_id(1)), kNoRow);
  CHECK(!index.erase(hash_id(1)));
  const std::uint64_t hash = hash_id(1);
  index.prefetch(hash);
  CHECK(visited(index).empty());
  index.clear();
  index.insert(in_sub_table(0, 0), 0);  // all bits zero: still an entry
  CHECK_EQ(index.find_row(0), 0U);
  CHECK_EQ(index.find_row(1), kNoRow);
}

void test_grows_before_it_is_full(std::uint32_t sub_table, std::size_t expected_lines) {
  IdIndex index;
  index.set_sub_table(sub_table);
  std::mt19937_64 random(2);
  for (std::uint32_t row = 0; row < 20000; ++row) {
    const std::size_t before = index.bytes();
    const std::size_t foretold = index.bytes_to_grow_for_one();
    index.insert(in_sub_table(sub_table, random()), row);
    // It may also grow a little earlier, when a line and the fourteen after it are full.
    if (foretold != 0) CHECK_EQ(index.bytes() - before, foretold);
    CHECK(index.bytes() == before + foretold || index.bytes() == 2 * before);
    CHECK(index.size() <= index.num_lines() * 6);
  }
  CHECK_EQ(index.num_lines(), expected_lines);
}

void test_random_against_a_model(std::uint32_t sub_table, std::uint64_t num_hashes, std::uint64_t seed) {
  IdIndex index;
  index.set_sub_table(sub_table);
  Model model;
  RowNumbers rows;
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> hashes(num_hashes);
  // The first hashes crowd in the last and the first line, so that entries are displaced and wrap around.
  constexpr std::uint64_t kCrowd = 100;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const std::uint64_t prefix = i % 2 == 0 ? 0 : 0xFFFULL << 44;
    hashes[i] = in_sub_table(sub_table, i < kCrowd ? prefix | (random() >> (64 - 44)) : random());
  }
  for (int round = 0; round < 40000; ++round) {
    const std::uint64_t hash = hashes[random() % (round % 3 == 0 ? kCrowd : hashes.size())];
    const auto known = model.find(hash);
    CHECK_EQ(index.find_row(hash), known == model.end() ? kNoRow : known->second);
    // Phases of growth and of decline, so that lines fill up and empty again.
    const bool grow = (round / 5000) % 2 == 0 ? random() % 4 != 0 : random() % 4 == 0;
    if (known == model.end() && grow) {
      const std::uint32_t row = rows.take();
      index.insert(hash, row);
      model.emplace(hash, row);
    } else if (!grow) {
      CHECK_EQ(index.erase(hash), known != model.end());
      if (known != model.end()) {
        rows.give_back(known->second);
        model.erase(known);
      }
    }
    if (round % 4000 == 0) check_same(index, model);
  }
  check_same(index, model);
  for (const auto& [hash, row] : Model(model)) CHECK(index.erase(hash));
  check_same(index, {});
  index.clear();
  CHECK_EQ(index.num_lines(), 0U);
}

void test_erase_pulls_displaced_entries_back() {
  constexpr int kLog2Lines = 6;
  IdIndex index;
  Model model;
  const auto insert = [&](std::uint64_t hash) {
    const auto row = static_cast<std::uint32_t>(model.size());
    index.insert(hash, row);
    model.emplace(hash, row);
  };
  std::mt19937_64 random(3);
  while (index.num_lines() < 64) insert(in_sub_table(0, random()));
  for (const auto& [hash, row] : Model(model)) CHECK(index.erase(hash));
  model.clear();
  // 30 entries whose home is the last line: they go on in lines 0, 1 and 2, where 8 more have their home.
  std::vector<std::uint64_t> crowd;
  for (std::uint64_t i = 0; i < 30; ++i) crowd.push_back(in_line(63, kLog2Lines, i * 977));
  for (std::uint64_t i = 0; i < 8; ++i) crowd.push_back(in_line(0, kLog2Lines, i * 1009));
  for (const std::uint64_t hash : crowd) insert(hash);
  CHECK_EQ(index.num_lines(), 64U);
  std::size_t in_last_line = 0;
  index.visit_lines(63, 64, [&](std::uint64_t, std::uint32_t) { ++in_last_line; });
  CHECK_EQ(in_last_line, 8U);
  check_same(index, model);
  std::ranges::shuffle(crowd, random);
  for (const std::uint64_t hash : crowd) {
    CHECK(index.erase(hash));
    CHECK(!index.erase(hash));
    model.erase(hash);
    check_same(index, model);
  }
}

// Ids that share a long hash prefix fill fifteen lines; then the index refuses, and is as it was.
void test_made_up_collisions_are_refused() {
  IdIndex index;
  Model model;
  std::uint32_t row = 0;
  bool refused = false;
  for (std::uint64_t i = 0; i < 1000 && !refused; ++i) {
    const std::int64_t id = id_of_hash(in_sub_table(0, (0xABCDEULL << 36) | i));
    try {
      index.insert(hash_id(id), row);
      model.emplace(hash_id(id), row++);
    } catch (const std::length_error&) {
      refused = true;
    }
  }
  CHECK(refused);
  CHECK_EQ(model.size(), 15U * 8U);
  check_same(index, model);
  CHECK(index.bytes() <= std::size_t{1} << 20);  // an attack may not take memory without end
  CHECK_THROWS(index.insert(in_sub_table(0, (0xABCDEULL << 36) | 5000), row), "refuse their source");
  check_same(index, model);
  // Other ids still find a place, and one that leaves makes room.
  index.insert(in_sub_table(0, 0x1234ULL << 40), row);
  model.emplace(in_sub_table(0, 0x1234ULL << 40), row++);
  const auto [hash, freed] = *model.find(in_sub_table(0, (0xABCDEULL << 36) | 7));
  CHECK(index.erase(hash));
  model.erase(hash);
  index.insert(in_sub_table(0, (0xABCDEULL << 36) | 5000), freed);
  model.emplace(in_sub_table(0, (0xABCDEULL << 36) | 5000), freed);
  check_same(index, model);
}

// Whatever the crowding, an insert either works or throws and changes nothing.
void test_random_crowds() {
  std::mt19937_64 random(4);
  for (int round = 0; round < 60; ++round) {
    IdIndex index;
    Model model;
    std::uint32_t row = 0;
    const std::uint64_t prefixes = 1 + random() % 6;
    const std::uint64_t first = round % 2 == 0 ? random() : 0xFFFE;  // the latter wraps around
    for (int i = 0; i < 900; ++i) {
      const std::uint64_t prefix = (first + random() % prefixes) & 0xFFFF;
      const std::uint64_t hash = in_sub_table(0, (prefix << 40) | (random() >> 40));
      if (model.contains(hash)) continue;
      try {
        index.insert(hash, row);
        model.emplace(hash, row++);
      } catch (const std::length_error&) {
        break;
      }
    }
    CHECK(model.size() >= 120);
    check_same(index, model);
  }
}

}  // namespace

int main() {
  test_hash_is_a_bijection();
  test_hash_figures();
  for (const SimdLevel level : {SimdLevel::kScalar, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level > best_simd_level()) continue;
    set_simd_level(level);
    test_empty();
    // Sub-tables grow one after the other, so that no batch meets many that do.
    test_grows_before_it_is_full(0, 8192);    // 20000 / 4.5 needs more than 4096 lines
    test_grows_before_it_is_full(255, 4096);  // 20000 / 6 needs more than 2048 lines
    test_random_against_a_model(0, 101, 11);
    test_random_against_a_model(255, 700, 12);
    test_random_against_a_model(77, 20000, 13);
    test_erase_pulls_displaced_entries_back();
    test_made_up_collisions_are_refused();
    test_random_crowds();
  }
  return monolith::test::finish();
}
