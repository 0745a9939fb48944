// CityHash64 against figures of the reference implementation, on buffers without a byte to spare; rows copied about.
#include "ops/city_hash.h"

#include <cstdint>
#include <vector>

#include "check.h"
#include "ops/ragged_rows.h"

namespace {

// Byte i of a string of n bytes is 7 i^2 + 3 i + n, modulo 256. The buffer ends with the string, so that the address
// sanitizer sees a read beyond it.
std::uint64_t hash_of(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(7 * i * i + 3 * i + size);
  return monolith::city_hash64(bytes);
}

void test_figures() {
  CHECK_EQ(hash_of(0), 0x9ae16a3b2f90404fU);
  CHECK_EQ(hash_of(3), 0xb85d3afa43628b54U);
  CHECK_EQ(hash_of(7), 0xa7fda9664fb80bbfU);
  CHECK_EQ(hash_of(8), 0xf7284c15f506526aU);
  CHECK_EQ(hash_of(17), 0x0b3aaa92493af2bcU);
  CHECK_EQ(hash_of(33), 0x1da231641cb4639eU);
  CHECK_EQ(hash_of(64), 0x67cfd62b28c6af8cU);
  CHECK_EQ(hash_of(65), 0x9dae155d907502d4U);
  CHECK_EQ(hash_of(129), 0xe72aec0e11b23074U);
}

void test_all_lengths_stay_inside() {
  std::uint64_t all = 0;
  for (std::size_t size = 0; size < 300; ++size) all ^= hash_of(size);
  CHECK(all != 0);
}

void test_rows() {
  const std::vector<std::int64_t> values(40000, 185);
  std::vector<std::int64_t> out(values.size());
  monolith::city_hash64_values(values, out);
  CHECK(out.front() == out.back());
  CHECK_EQ(static_cast<std::uint64_t>(out.front()), 13054836967692514592U);
  const std::vector<std::uint8_t> bytes{1, 2, 3};
  const std::vector<std::int64_t> splits{0, 0, 3};
  CHECK_THROWS(monolith::city_hash64_rows(bytes, splits, out), "there are 2 strings");
}

void test_prefixed_strings() {
  const std::vector<std::uint8_t> bytes{2, 0, 0, 0, 'h', 'i', 0, 0, 0, 0};
  const std::vector<std::uint8_t> hi{'h', 'i'};
  const auto ids = monolith::city_hash64_prefixed(bytes);
  CHECK_EQ(ids.size(), 2);
  CHECK_EQ(static_cast<std::uint64_t>(ids[0]), monolith::city_hash64(hi));
  CHECK_EQ(static_cast<std::uint64_t>(ids[1]), monolith::city_hash64({}));
  CHECK(monolith::city_hash64_prefixed({}).empty());
  for (const std::size_t size : {1, 3, 4, 5, 7, 9}) {
    CHECK_THROWS(monolith::city_hash64_prefixed(std::span(bytes).first(size)), "the bytes end inside text ");
  }
}

void test_copied_rows() {
  const std::vector<std::uint8_t> values{1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> splits{0, 1, 3};
  const std::vector<std::int64_t> indices{1, 0, 1};
  std::vector<std::int64_t> out_splits(4);
  monolith::chosen_row_splits(splits, indices, out_splits);
  CHECK(out_splits == (std::vector<std::int64_t>{0, 2, 3, 5}));
  std::vector<std::uint8_t> out(10);
  monolith::copy_rows(values, 2, splits, indices, out_splits, out);
  CHECK(out == (std::vector<std::uint8_t>{3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
  CHECK_THROWS(monolith::copy_rows(values, 2, splits, indices, out_splits, std::span(out).first(8)), "out_splits");
}

}  // namespace

int main() {
  test_figures();
  test_all_lengths_stay_inside();
  test_rows();
  test_prefixed_strings();
  test_copied_rows();
  return monolith::test::finish();
}
