// A run of buckets of ids: what one of several processes holds.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "table/id_hash.h"

namespace monolith {

struct BucketRange {
  std::uint32_t first = 0;
  std::uint32_t last = kNumBuckets;  // the one after its last

  bool is_all() const { return first == 0 && last == kNumBuckets; }
  std::uint32_t size() const { return last - first; }
  friend bool operator==(const BucketRange&, const BucketRange&) = default;

  void check() const {
    if (first < last && last <= kNumBuckets) return;
    throw std::invalid_argument("buckets " + std::to_string(first) + " to " + std::to_string(last) +
                                " are no range; they are numbered from 0 to " + std::to_string(kNumBuckets));
  }
};

}  // namespace monolith
