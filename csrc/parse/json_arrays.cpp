#include "parse/json_arrays.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "ops/city_hash.h"

namespace monolith::parse {

namespace {

struct TypeName {
  std::string_view name;
  JsonType type;
  std::size_t bytes;
};
constexpr TypeName kTypes[] = {{"INT64", JsonType::kInt64, 8},  {"INT32", JsonType::kInt32, 4},
                               {"FP32", JsonType::kFloat32, 4}, {"FP64", JsonType::kFloat64, 8},
                               {"BOOL", JsonType::kBool, 1},    {"BYTES", JsonType::kText, 8}};

const TypeName& described(JsonType type) { return kTypes[static_cast<int>(type)]; }

std::string wanted(JsonType type) {
  if (type == JsonType::kText) return "texts";
  return std::string(described(type).name) + (type == JsonType::kBool ? " values" : " numbers");
}

// What the sender can do about it; nothing for most values.
const char* way_out(JsonKind got, JsonType type) {
  if (type == JsonType::kText) {
    if (got == JsonKind::kNull) return "; where the training data had no text, send \"\"";
    return got == JsonKind::kReal || got == JsonKind::kLargeInteger ? "; put it in quotes" : "";
  }
  if (got == JsonKind::kNull) {
    return "; send the number that stands in for a missing value in training. To send null, name that number in "
           "fill_missing where the data is read, and export again";
  }
  if (got == JsonKind::kText && type != JsonType::kBool) {
    return "; send a number without quotes. To send texts, give the column the type hash where the data is read, and "
           "train and export again";
  }
  return "";
}

[[noreturn]] void refuse(const JsonDocument& document, std::size_t node, JsonType type) {
  throw std::invalid_argument("its data must be " + wanted(type) + ", got " + document.shown(node) +
                              way_out(document[node].kind, type));
}

[[noreturn]] void too_large(JsonType type) {
  throw std::invalid_argument("a value is too large for " + std::string(described(type).name));
}

[[noreturn]] void uneven() {
  throw std::invalid_argument("its data must be a list of values, nested evenly if at all");
}

template <JsonType kType, typename T>
T converted(const JsonDocument& document, std::size_t number, const JsonMissing& missing) {
  const JsonNode& node = document[number];
  if (missing && node.kind == JsonKind::kNull) {
    return std::visit([](auto value) { return static_cast<T>(value); }, *missing);
  }
  if constexpr (kType == JsonType::kBool) {
    if (node.kind != JsonKind::kTrue && node.kind != JsonKind::kFalse) refuse(document, number, kType);
    return node.kind == JsonKind::kTrue;
  } else if constexpr (kType == JsonType::kText) {
    if (node.kind != JsonKind::kText && node.kind != JsonKind::kInteger) refuse(document, number, kType);
    // A whole number counts as its decimal text, as it does in data.
    const std::string text = node.kind == JsonKind::kText ? document.text_of(number) : std::to_string(node.integer);
    return static_cast<T>(city_hash64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}));
  } else if constexpr (std::numeric_limits<T>::is_integer) {
    if (node.kind == JsonKind::kLargeInteger) too_large(kType);
    if (node.kind != JsonKind::kInteger) refuse(document, number, kType);
    if (node.integer < std::numeric_limits<T>::min() || node.integer > std::numeric_limits<T>::max()) too_large(kType);
    return static_cast<T>(node.integer);
  } else {
    if (node.kind == JsonKind::kInteger) return static_cast<T>(node.integer);
    if (node.kind != JsonKind::kReal && node.kind != JsonKind::kLargeInteger) refuse(document, number, kType);
    const T value = static_cast<T>(node.real);
    if (!std::isfinite(value)) too_large(kType);
    return value;
  }
}

// Calls `function` with the type as a constant, and what a value of it is in C++.
template <typename Function>
void for_type(JsonType type, const Function& function) {
  switch (type) {
    case JsonType::kInt64:
      return function.template operator()<JsonType::kInt64, std::int64_t>();
    case JsonType::kInt32:
      return function.template operator()<JsonType::kInt32, std::int32_t>();
    case JsonType::kFloat32:
      return function.template operator()<JsonType::kFloat32, float>();
    case JsonType::kFloat64:
      return function.template operator()<JsonType::kFloat64, double>();
    case JsonType::kBool:
      return function.template operator()<JsonType::kBool, bool>();
    case JsonType::kText:
      return function.template operator()<JsonType::kText, std::int64_t>();
  }
}

// Fills an array from values that all have the shape of the first.
class Filler {
 public:
  Filler(const JsonDocument& document, JsonType type, std::size_t num_values, JsonMissing missing)
      : document_(document), missing_(missing) {
    array_.type = type;
    array_.shape.push_back(num_values);
  }

  JsonArray take() && { return std::move(array_); }

  // To be called once, with the first value: all others must have its shape.
  void shape_of(std::size_t node) {
    while (document_[node].kind == JsonKind::kList) {
      array_.shape.push_back(document_[node].size);
      if (document_[node].size == 0) break;
      ++node;
    }
    // Not multiplied out beyond what is there: a document has at least as many nodes as values.
    std::size_t size = 1;
    for (const std::size_t one : array_.shape) {
      if (one != 0 && size > document_.num_nodes() / one) uneven();
      size *= one;
    }
    array_.bytes.resize(size * described(array_.type).bytes);
  }

  void add(std::size_t node) {
    for_type(array_.type, [&]<JsonType kType, typename T>() { add_as<kType, T>(node, 1); });
  }

 private:
  template <JsonType kType, typename T>
  void add_as(std::size_t node, std::size_t depth) {
    const bool is_list = document_[node].kind == JsonKind::kList;
    if (is_list != (depth < array_.shape.size())) uneven();
    if (!is_list) {
      const T value = converted<kType, T>(document_, node, missing_);
      std::memcpy(array_.bytes.data() + written_, &value, sizeof value);
      written_ += sizeof value;
      return;
    }
    if (document_[node].size != array_.shape[depth]) uneven();
    const std::size_t end = document_[node].end;
    for (std::size_t member = node + 1; member < end; member = document_.after(member)) {
      add_as<kType, T>(member, depth + 1);
    }
  }

  const JsonDocument& document_;
  JsonMissing missing_;
  JsonArray array_;
  std::size_t written_ = 0;
};

// Puts lists of plain values end to end.
class ListFiller {
 public:
  ListFiller(const JsonDocument& document, JsonType type, std::size_t num_lists, JsonMissing missing)
      : document_(document), missing_(missing) {
    lists_.values.type = type;
    lists_.lengths.reserve(num_lists);
  }

  JsonLists take() && {
    lists_.values.shape.push_back(lists_.values.bytes.size() / described(lists_.values.type).bytes);
    return std::move(lists_);
  }

  void add(std::size_t list) {
    if (document_[list].kind != JsonKind::kList) {
      const bool is_null = document_[list].kind == JsonKind::kNull;
      if (is_null && missing_) {
        lists_.lengths.push_back(0);
        return;
      }
      refuse_list(list,
                  is_null ? "; an example without values has an empty list, []" : "; put a single value in a list");
    }
    lists_.lengths.push_back(document_[list].size);
    for_type(lists_.values.type, [&]<JsonType kType, typename T>() { add_members<kType, T>(list); });
  }

 private:
  template <JsonType kType, typename T>
  void add_members(std::size_t list) {
    std::vector<std::byte>& bytes = lists_.values.bytes;
    const std::size_t end = document_[list].end;
    for (std::size_t member = list + 1; member < end; member = document_.after(member)) {
      if (document_[member].kind == JsonKind::kList) {
        refuse_list(member, " inside the list of an example; its lists are nested once too often");
      }
      const T value = converted<kType, T>(document_, member, missing_);
      const auto* begin = reinterpret_cast<const std::byte*>(&value);
      bytes.insert(bytes.end(), begin, begin + sizeof value);
    }
  }

  [[noreturn]] void refuse_list(std::size_t node, const char* why) const {
    throw std::invalid_argument("its data must be a list of " + wanted(lists_.values.type) + " per example, got " +
                                document_.shown(node) + why);
  }

  const JsonDocument& document_;
  JsonMissing missing_;
  JsonLists lists_;
};

// Where the wanted members of one object are; false if it has others, or lacks one.
bool find_members(const JsonDocument& document, std::size_t object, std::span<const JsonColumn> columns,
                  std::vector<std::size_t>& found) {
  if (document[object].size != columns.size()) return false;
  found.assign(columns.size(), 0);
  std::size_t node = object + 1;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    // Most senders keep to the order of the signature.
    std::size_t place = i;
    if (!document.equals(node, columns[i].name)) {
      place = 0;
      while (place < columns.size() && !document.equals(node, columns[place].name)) ++place;
    }
    if (place == columns.size() || found[place] != 0) return false;
    found[place] = node + 1;
    node = document.after(node + 1);
  }
  return true;
}

[[noreturn]] void refuse_members(const JsonDocument& document, std::size_t object, std::size_t number,
                                 std::span<const JsonColumn> columns) {
  std::string text = "instance " + std::to_string(number);
  if (document[object].kind != JsonKind::kObject) {
    throw std::invalid_argument(text + " must be an object of inputs, got " + document.shown(object));
  }
  constexpr std::uint32_t kShown = 4;
  text += " has the inputs ";
  std::size_t node = object + 1;
  for (std::uint32_t i = 0; i < document[object].size && i < kShown; ++i) {
    text += (i > 0 ? ", " : "") + document.shown(node);
    node = document.after(node + 1);
  }
  text += document[object].size == 0       ? "none; they must be "
          : document[object].size > kShown ? ", ...; they must be "
                                           : "; they must be ";
  for (std::size_t i = 0; i < columns.size(); ++i) text += (i > 0 ? ", " : "") + columns[i].name;
  throw std::invalid_argument(text);
}

}  // namespace

JsonType json_type_from_name(std::string_view name) {
  for (const TypeName& one : kTypes) {
    if (one.name == name) return one.type;
  }
  throw std::invalid_argument("unknown datatype " + std::string(name.substr(0, 40)));
}

JsonArray list_as_array(const JsonDocument& document, std::size_t list, JsonType type, JsonMissing missing) {
  Filler filler(document, type, document[list].size, missing);
  const std::size_t end = document[list].end;
  for (std::size_t node = list + 1; node < end; node = document.after(node)) {
    if (node == list + 1) filler.shape_of(node);
    filler.add(node);
  }
  return std::move(filler).take();
}

JsonLists list_as_lists(const JsonDocument& document, std::size_t list, JsonType type, JsonMissing missing) {
  ListFiller filler(document, type, document[list].size, missing);
  const std::size_t end = document[list].end;
  for (std::size_t node = list + 1; node < end; node = document.after(node)) filler.add(node);
  return std::move(filler).take();
}

std::vector<std::variant<JsonArray, JsonLists>> objects_as_arrays(const JsonDocument& document, std::size_t list,
                                                                  std::span<const JsonColumn> columns) {
  std::vector<std::variant<Filler, ListFiller>> fillers;
  for (const JsonColumn& column : columns) {
    if (column.has_lists) {
      fillers.emplace_back(std::in_place_type<ListFiller>, document, column.type, document[list].size, column.missing);
    } else {
      fillers.emplace_back(std::in_place_type<Filler>, document, column.type, document[list].size, column.missing);
    }
  }
  std::vector<std::size_t> members;
  std::size_t number = 0;
  const std::size_t end = document[list].end;
  for (std::size_t node = list + 1; node < end; node = document.after(node), ++number) {
    if (document[node].kind != JsonKind::kObject || !find_members(document, node, columns, members)) {
      refuse_members(document, node, number, columns);
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      try {
        if (auto* filler = std::get_if<Filler>(&fillers[i]); filler != nullptr && number == 0) {
          filler->shape_of(members[i]);
        }
        std::visit([&](auto& filler) { filler.add(members[i]); }, fillers[i]);
      } catch (const std::invalid_argument& error) {
        throw std::invalid_argument("input '" + columns[i].name + "': " + error.what());
      }
    }
  }
  std::vector<std::variant<JsonArray, JsonLists>> arrays;
  for (auto& filler : fillers) {
    std::visit([&](auto& one) { arrays.emplace_back(std::move(one).take()); }, filler);
  }
  return arrays;
}

}  // namespace monolith::parse
