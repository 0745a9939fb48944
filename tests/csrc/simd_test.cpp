// Every instruction set that this processor has gives the same bits: optimizers, compressors, halves, the search of an
// index.
#include "ops/simd.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "optim/compressor.h"
#include "optim/half.h"
#include "optim/halves.h"
#include "optim/optimizer.h"
#include "table/id_index.h"

namespace {

using monolith::SimdLevel;

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> found;
  for (const SimdLevel level : {SimdLevel::kScalar, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level <= monolith::best_simd_level()) found.push_back(level);
  }
  return found;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Weights and state after a few steps, as one vector of floats.
std::vector<float> train(const monolith::OptimizerKind& kind, std::size_t dim, SimdLevel level) {
  monolith::set_simd_level(level);
  monolith::OptimizerConfig config;
  config.kind = kind.name;
  const monolith::RowOptimizer optimizer(config, dim);
  std::mt19937 random(static_cast<unsigned>(dim));
  std::normal_distribution<float> normal;
  std::vector<float> row(dim + optimizer.state_floats());
  for (std::size_t i = 0; i < dim; ++i) row[i] = normal(random);
  optimizer.init_state(row.data() + dim);
  std::vector<float> gradient(dim);
  std::vector<float> before(row.size());
  monolith::StepContext context;
  context.learning_rate = 0.05F;
  for (context.global_step = 1; context.global_step <= 20; ++context.global_step) {
    for (float& value : gradient) value = normal(random);
    const std::vector<float> expected = row;
    CHECK(optimizer.step(row.data(), row.data() + dim, gradient.data(), context, {before.data(), before.data() + dim}));
    CHECK(same_bits(before, expected));
  }
  return row;
}

void test_optimizers() {
  for (const monolith::OptimizerKind& kind : monolith::optimizer_kinds()) {
    for (const std::size_t dim : {1, 7, 8, 15, 16, 31, 32, 64, 100, 128}) {
      if (kind.name == "batch_softmax" && dim != 1) continue;
      const std::vector<float> expected = train(kind, dim, SimdLevel::kScalar);
      for (const SimdLevel level : levels()) {
        const bool equal = same_bits(train(kind, dim, level), expected);
        if (!equal) std::cerr << kind.name << " dim " << dim << " " << monolith::simd_level_name(level) << "\n";
        CHECK(equal);
      }
    }
  }
}

// NaN and infinity anywhere in weights or state are found, at every level; bits of a step number are no such.
void test_not_finite() {
  for (const monolith::OptimizerKind& kind : monolith::optimizer_kinds()) {
    for (const std::size_t dim : {1, 3, 7, 8, 12, 16, 23, 32, 64}) {
      if (kind.name == "batch_softmax" && dim != 1) continue;
      for (const SimdLevel level : levels()) {
        monolith::set_simd_level(level);
        monolith::OptimizerConfig config;
        config.kind = kind.name;
        const monolith::RowOptimizer optimizer(config, dim);
        const std::vector<float> gradient(dim, 1.0F);
        monolith::StepContext context;
        context.learning_rate = 0.05F;
        context.global_step = 0x7F800000;
        for (std::size_t place = 0; place <= dim + optimizer.state_numbers(); ++place) {
          std::vector<float> row(dim + optimizer.state_floats(), 0.5F);
          std::vector<float> before(row.size());
          optimizer.init_state(row.data() + dim);
          const bool is_bad = place < dim + optimizer.state_numbers();
          if (is_bad) row[place] = std::numeric_limits<float>::quiet_NaN();
          // A row that a rule sets to 0 or leaves alone may become finite again; the place is not where it ends.
          const bool said = optimizer.step(row.data(), row.data() + dim, gradient.data(), context,
                                           {before.data(), before.data() + dim});
          const bool is_finite =
              std::all_of(row.begin(), row.begin() + static_cast<long>(dim + optimizer.state_numbers()),
                          [](float value) { return std::isfinite(value); });
          CHECK_EQ(said, is_finite);
          CHECK(is_bad || said);
        }
      }
    }
  }
}

void test_index() {
  monolith::IdIndex index;
  std::vector<std::uint64_t> hashes;
  for (std::int64_t id = 0; hashes.size() < 20000; ++id) {
    const std::uint64_t hash = monolith::hash_id(id);
    if (monolith::sub_table_of_hash(hash) != 0) continue;
    // Every other one stays absent. Row numbers are smaller than the number of entries, as in a table.
    if (hashes.size() % 2 == 0) index.insert(hash, static_cast<std::uint32_t>(hashes.size() / 2));
    hashes.push_back(hash);
  }
  for (const SimdLevel level : levels()) {
    monolith::set_simd_level(level);
    std::vector<std::uint32_t> rows(hashes.size());
    index.find_rows(hashes.data(), hashes.size(), rows.data());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      wrong += rows[i] != (i % 2 == 0 ? static_cast<std::uint32_t>(i / 2) : monolith::kNoRow);
    }
    CHECK_EQ(wrong, 0U);
  }
}

// Every half, and floats of any bits: the borders of the halves' range, subnormals and NaNs of all kinds among them.
void test_halves() {
  std::vector<std::uint16_t> halves(1U << 16);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  std::vector<float> floats{65504.0F, 65519.996F, 65520.0F, -65536.0F, 0x1p-14F, 0x1.FFCp-15F, 0x1p-24F, 0x1p-25F};
  for (const std::uint32_t bits : {0x7F800000U, 0xFF800000U, 0x7F800001U, 0xFFC00000U, 0x7FFFFFFFU, 1U, 0x80000000U}) {
    floats.push_back(std::bit_cast<float>(bits));
  }
  std::mt19937 random(5);
  while (floats.size() < 1'000'003) floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (const std::uint16_t half : halves) floats.push_back(monolith::half_to_float(half));
  for (const SimdLevel level : levels()) {
    monolith::set_simd_level(level);
    std::size_t wrong = 0;
    std::vector<float> read(halves.size());
    monolith::halves_to_floats(halves, read.data());
    for (std::size_t i = 0; i < halves.size(); ++i) {
      wrong +=
          std::bit_cast<std::uint32_t>(read[i]) != std::bit_cast<std::uint32_t>(monolith::half_to_float(halves[i]));
    }
    std::vector<std::uint16_t> plain(floats.size());
    std::vector<std::uint16_t> finite(floats.size());
    monolith::floats_to_halves(floats, plain.data());
    monolith::floats_to_finite_halves(floats, finite.data());
    for (std::size_t i = 0; i < floats.size(); ++i) {
      wrong += plain[i] != monolith::float_to_half(floats[i]);
      wrong += finite[i] != monolith::float_to_half(std::clamp(floats[i], -65504.0F, 65504.0F));
    }
    CHECK_EQ(wrong, 0U);
  }
}

}  // namespace

int main() {
  for (const SimdLevel level : levels()) std::cout << "tested: " << monolith::simd_level_name(level) << "\n";
  test_optimizers();
  test_not_finite();
  test_index();
  test_halves();
  return monolith::test::finish();
}
