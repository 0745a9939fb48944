// Numbers of a JSON document as arrays of one type, without rounding, wrapping or guessing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parse/json_document.h"

namespace monolith::parse {

// A type of the Open Inference Protocol.
enum class JsonType { kInt64, kInt32, kFloat32, kFloat64, kBool };

// Throws std::invalid_argument for an unknown name.
JsonType json_type_from_name(std::string_view name);

struct JsonArray {
  JsonType type = JsonType::kInt64;
  std::vector<std::size_t> shape;
  std::vector<std::byte> bytes;  // as C has them, the last dimension first
};

// The members of a list, nested evenly if at all. Throws std::invalid_argument, which names a value that does not fit.
JsonArray list_as_array(const JsonDocument& document, std::size_t list, JsonType type);

struct JsonColumn {
  std::string name;
  JsonType type;
};

// A list of objects, all with exactly these members, as an array per member.
std::vector<JsonArray> objects_as_arrays(const JsonDocument& document, std::size_t list,
                                         std::span<const JsonColumn> columns);

}  // namespace monolith::parse
