// JSON requests and answers of a server: read and written without the interpreter lock.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bind/arrays.h"
#include "bind/module.h"
#include "parse/json_arrays.h"
#include "parse/json_document.h"
#include "parse/json_writer.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

using Document = std::shared_ptr<const parse::JsonDocument>;

// One value of a document; it keeps the whole document.
class JsonValue {
 public:
  JsonValue(Document document, std::size_t node) : document_(std::move(document)), node_(node) {}

  const char* kind() const {
    switch (value().kind) {
      case parse::JsonKind::kNull:
        return "null";
      case parse::JsonKind::kFalse:
      case parse::JsonKind::kTrue:
        return "bool";
      case parse::JsonKind::kText:
        return "text";
      case parse::JsonKind::kList:
        return "list";
      case parse::JsonKind::kObject:
        return "object";
      default:
        return "number";
    }
  }

  std::size_t size() const { return value().kind >= parse::JsonKind::kList ? value().size : 0; }
  std::string shown() const { return document_->shown(node_); }
  bool is_true() const { return value().kind == parse::JsonKind::kTrue; }

  std::int64_t integer() const {
    require(parse::JsonKind::kInteger, "an integer");
    return value().integer;
  }

  std::string text() const {
    require(parse::JsonKind::kText, "a text");
    return document_->text_of(node_);
  }

  std::optional<JsonValue> member(std::string_view name) const {
    require(parse::JsonKind::kObject, "an object");
    const auto found = document_->member(node_, name);
    return found ? std::optional(JsonValue(document_, *found)) : std::nullopt;
  }

  std::vector<std::string> names(std::size_t limit) const {
    require(parse::JsonKind::kObject, "an object");
    std::vector<std::string> names;
    for (std::size_t node = node_ + 1; node < value().end && names.size() < limit; node = document_->after(node + 1)) {
      names.push_back(document_->text_of(node));
    }
    return names;
  }

  std::vector<JsonValue> items(std::size_t limit) const {
    require(parse::JsonKind::kList, "a list");
    std::vector<JsonValue> items;
    for (std::size_t node = node_ + 1; node < value().end && items.size() < limit; node = document_->after(node)) {
      items.emplace_back(document_, node);
    }
    return items;
  }

  nb::object array(std::string_view datatype, parse::JsonMissing missing) const {
    require(parse::JsonKind::kList, "a list");
    const parse::JsonType type = parse::json_type_from_name(datatype);
    return to_numpy(without_gil([&] { return parse::list_as_array(*document_, node_, type, missing); }));
  }

  nb::object lists(std::string_view datatype, parse::JsonMissing missing) const {
    require(parse::JsonKind::kList, "a list");
    const parse::JsonType type = parse::json_type_from_name(datatype);
    return to_numpy(without_gil([&] { return parse::list_as_lists(*document_, node_, type, missing); }));
  }

  nb::list columns(const std::vector<std::tuple<std::string, std::string, bool, parse::JsonMissing>>& columns) const {
    require(parse::JsonKind::kList, "a list");
    std::vector<parse::JsonColumn> wanted;
    for (const auto& [name, datatype, has_lists, missing] : columns) {
      wanted.push_back({name, parse::json_type_from_name(datatype), has_lists, missing});
    }
    auto arrays = without_gil([&] { return parse::objects_as_arrays(*document_, node_, wanted); });
    nb::list result;
    for (auto& array : arrays) {
      std::visit([&](auto& one) { result.append(to_numpy(std::move(one))); }, array);
    }
    return result;
  }

 private:
  const parse::JsonNode& value() const { return (*document_)[node_]; }

  void require(parse::JsonKind kind, const char* name) const {
    if (value().kind != kind) throw std::invalid_argument(std::string("expected ") + name + ", got " + shown());
  }

  template <typename T>
  static nb::object as_numpy(parse::JsonArray&& array) {
    auto* owned = new std::vector<std::byte>(std::move(array.bytes));
    const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<std::byte>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), array.shape.size(), array.shape.data(), owner));
  }

  static nb::object to_numpy(parse::JsonLists&& lists) {
    return nb::make_tuple(to_numpy(std::move(lists.values)), to_array(std::move(lists.lengths)));
  }

  static nb::object to_numpy(parse::JsonArray&& array) {
    switch (array.type) {
      case parse::JsonType::kText:
      case parse::JsonType::kInt64:
        return as_numpy<std::int64_t>(std::move(array));
      case parse::JsonType::kInt32:
        return as_numpy<std::int32_t>(std::move(array));
      case parse::JsonType::kFloat32:
        return as_numpy<float>(std::move(array));
      case parse::JsonType::kFloat64:
        return as_numpy<double>(std::move(array));
      default:
        return as_numpy<bool>(std::move(array));
    }
  }

  Document document_;
  std::size_t node_;
};

// The document keeps the bytes object that it points into.
JsonValue parse_json(const nb::bytes& text, std::size_t offset, std::size_t size, std::size_t max_depth,
                     std::size_t max_values) {
  if (offset > text.size() || size > text.size() - offset) throw std::invalid_argument("the bytes end before");
  const std::string_view view(text.c_str() + offset, size);
  auto parsed = without_gil(
      [&] { return std::make_unique<parse::JsonDocument>(view, parse::JsonLimits{max_depth, max_values}); });
  // Values may be the last to go in a thread without the lock: dropping the bytes takes it.
  auto kept = std::make_unique<nb::bytes>(text);
  return {Document(parsed.release(),
                   [kept = kept.release()](const parse::JsonDocument* document) {
                     delete document;
                     const nb::gil_scoped_acquire acquire;
                     delete kept;
                   }),
          0};
}

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

parse::JsonValues values_of(const AnyArray& array) {
  parse::JsonType type = parse::JsonType::kInt64;
  if (array.dtype() == nb::dtype<std::int32_t>()) {
    type = parse::JsonType::kInt32;
  } else if (array.dtype() == nb::dtype<float>()) {
    type = parse::JsonType::kFloat32;
  } else if (array.dtype() == nb::dtype<double>()) {
    type = parse::JsonType::kFloat64;
  } else if (array.dtype() == nb::dtype<bool>()) {
    type = parse::JsonType::kBool;
  } else if (array.dtype() != nb::dtype<std::int64_t>()) {
    throw std::invalid_argument("arrays of int32, int64, float32, float64 and bool become JSON");
  }
  return {type, array.data(), {array.shape_ptr(), array.shape_ptr() + array.ndim()}};
}

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

nb::bytes json_list(const AnyArray& array) {
  const parse::JsonValues values = values_of(array);
  return bytes_of(without_gil([&] { return parse::json_list(values); }));
}

nb::bytes json_objects(const std::vector<std::pair<std::string, AnyArray>>& members) {
  std::vector<parse::JsonMember> all;
  for (const auto& [prefix, array] : members) all.push_back({prefix, values_of(array)});
  return bytes_of(without_gil([&] { return parse::json_objects(all); }));
}

}  // namespace

void bind_json(nb::module_& m) {
  nb::class_<JsonValue>(m, "JsonValue", "A value of a JSON text; see monolith.serving.forms.json_values.")
      .def_prop_ro("kind", &JsonValue::kind, "null, bool, number, text, list or object.")
      .def_prop_ro("is_true", &JsonValue::is_true)
      .def("__len__", &JsonValue::size)
      .def("shown", &JsonValue::shown, "A few words for an error message.")
      .def("text", &JsonValue::text)
      .def("integer", &JsonValue::integer)
      .def("member", &JsonValue::member, "name"_a, "The last member of this name, or None.")
      .def("names", &JsonValue::names, "limit"_a, "Names of an object's first members.")
      .def("items", &JsonValue::items, "limit"_a, "The first members of a list.")
      .def("array", &JsonValue::array, "datatype"_a, "missing"_a = nb::none(),
           "A list, nested evenly if at all, as an array; null reads as `missing`.")
      .def("lists", &JsonValue::lists, "datatype"_a, "missing"_a = nb::none(),
           "A list of lists as (values end to end, length of each list); with `missing`, null is an empty list.")
      .def("columns", &JsonValue::columns, "columns"_a,
           "Objects with exactly these (name, datatype, whether a list, what null means), as an array or lists each.");
  m.def("parse_json", &parse_json, "text"_a, "offset"_a, "size"_a, "max_depth"_a, "max_values"_a,
        "Reads a part of a text without the interpreter lock; a ValueError says what is wrong at which byte.");
  m.def("json_list", &json_list, "values"_a.noconvert(), "Finite numbers as a JSON list, nested as they are.");
  m.def("json_objects", &json_objects, "members"_a,
        "(prefix, values) as a JSON list of objects; a prefix is '{\"name\":' or ',\"name\":'.");
}

}  // namespace monolith::bind
