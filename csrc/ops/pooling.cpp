#include "ops/pooling.h"

#include <stdexcept>
#include <string>

namespace monolith {

namespace {

std::string_view name_of(Pooling pooling) {
  switch (pooling) {
    case Pooling::kSum:
      return "sum";
    case Pooling::kMean:
      return "mean";
    case Pooling::kSqrtn:
      return "sqrtn";
    case Pooling::kFirstN:
      break;
  }
  return "first_n";
}

}  // namespace

Pooling pooling_from_name(std::string_view name, std::initializer_list<Pooling> allowed) {
  std::string names;
  for (const Pooling one : allowed) {
    if (name == name_of(one)) return one;
    names += (names.empty() ? "" : ", ") + std::string(name_of(one));
  }
  throw std::invalid_argument("unknown pooling '" + std::string(name) + "'; choose one of " + names);
}

}  // namespace monolith
