// Arrays as JSON, with as few digits as read back to the same value.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "parse/json_arrays.h"

namespace monolith::parse {

// Memory of somebody else's; numbers in it must be finite.
struct JsonValues {
  JsonType type;
  const void* data;
  std::vector<std::size_t> shape;
};

// A list, nested as the shape says.
std::string json_list(const JsonValues& values);

struct JsonMember {
  std::string prefix;  // what comes before the value of each example: `{"name":` or `,"name":`
  JsonValues values;
};

// A list of objects: the i-th has the i-th row of every member. All must have the same first dimension.
std::string json_objects(std::span<const JsonMember> members);

}  // namespace monolith::parse
