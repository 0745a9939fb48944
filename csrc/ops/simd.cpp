#include "ops/simd.h"

#include <atomic>
#include <stdexcept>
#include <string>

namespace monolith {

namespace {

SimdLevel detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // A virtual machine may hide some of what its processor has.
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return SimdLevel::kAvx512;
  }
  if (has_avx2) return SimdLevel::kAvx2;
#endif
  return SimdLevel::kScalar;
}

std::atomic<int> chosen_level{-1};

}  // namespace

SimdLevel best_simd_level() {
  static const SimdLevel best = detect();
  return best;
}

SimdLevel simd_level() {
  const int level = chosen_level.load(std::memory_order_relaxed);
  return level < 0 ? best_simd_level() : static_cast<SimdLevel>(level);
}

void set_simd_level(SimdLevel level) {
  if (level > best_simd_level()) {
    throw std::invalid_argument("this processor has no " + std::string(simd_level_name(level)) +
                                "; the best level here is " + std::string(simd_level_name(best_simd_level())));
  }
  chosen_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

std::string_view simd_level_name(SimdLevel level) {
  switch (level) {
    case SimdLevel::kScalar:
      return "scalar";
    case SimdLevel::kAvx2:
      return "avx2";
    case SimdLevel::kAvx512:
      return "avx512";
  }
  return "unknown";
}

SimdLevel simd_level_from_name(std::string_view name) {
  for (SimdLevel level : {SimdLevel::kScalar, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (name == simd_level_name(level)) return level;
  }
  throw std::invalid_argument("unknown SIMD level '" + std::string(name) + "'; choose scalar, avx2 or avx512");
}

}  // namespace monolith
