// Values of a JSON document as arrays of one type, without rounding, wrapping or guessing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "parse/json_document.h"

namespace monolith::parse {

// A type of the Open Inference Protocol. Texts (BYTES) become int64 ids, the string hash of their UTF-8;
// a whole number counts as its decimal text.
enum class JsonType { kInt64, kInt32, kFloat32, kFloat64, kBool, kText };

// Throws std::invalid_argument for an unknown name.
JsonType json_type_from_name(std::string_view name);

// What null stands for; where there is none, null is an error.
using JsonMissing = std::optional<std::variant<std::int64_t, double>>;

struct JsonArray {
  JsonType type = JsonType::kInt64;
  std::vector<std::size_t> shape;
  std::vector<std::byte> bytes;  // as C has them, the last dimension first
};

// The members of a list, nested evenly if at all. Throws std::invalid_argument, which names a value that does not fit.
JsonArray list_as_array(const JsonDocument& document, std::size_t list, JsonType type,
                        JsonMissing missing = std::nullopt);

// Lists of any lengths, end to end.
struct JsonLists {
  JsonArray values;  // one dimension
  std::vector<std::int64_t> lengths;
};

// The members of a list, which must be lists of plain values. With `missing`, null in place of a list is an empty one.
JsonLists list_as_lists(const JsonDocument& document, std::size_t list, JsonType type,
                        JsonMissing missing = std::nullopt);

struct JsonColumn {
  std::string name;
  JsonType type;
  bool has_lists = false;  // the values are lists, which may differ in length
  JsonMissing missing = std::nullopt;
};

// A list of objects, all with exactly these members, as an array or lists per member.
std::vector<std::variant<JsonArray, JsonLists>> objects_as_arrays(const JsonDocument& document, std::size_t list,
                                                                  std::span<const JsonColumn> columns);

}  // namespace monolith::parse
