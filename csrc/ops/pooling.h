// How the rows of a bag of ids become one row, or a sequence.
#pragma once

#include <initializer_list>
#include <string_view>

namespace monolith {

enum class Pooling {
  kSum,
  kMean,    // sum / count
  kSqrtn,   // sum / sqrt(count)
  kFirstN,  // the first rows one after the other, then zeros
};

// Reads "sum", "mean", "sqrtn" or "first_n". Throws std::invalid_argument unless it is one of `allowed`.
Pooling pooling_from_name(std::string_view name, std::initializer_list<Pooling> allowed);

}  // namespace monolith
