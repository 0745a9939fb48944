// Parsing of serialized records.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bind/ops.h"
#include "parse/line_id.h"
#include "parse/record_parser.h"
#include "parse/tf_example_conversion.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

// (name, source, type, width, number, missing, empty, to_v2), see parse::ColumnSpec.
using Spec = std::tuple<std::string, std::string, std::string, std::int64_t, std::uint32_t, float, float, bool>;

parse::Source source_from_name(const std::string& name) {
  if (name == "feature") return parse::Source::kFeature;
  if (name == "slot") return parse::Source::kSlot;
  if (name == "line_id") return parse::Source::kLineId;
  if (name == "label") return parse::Source::kLabel;
  if (name == "instance_weight") return parse::Source::kInstanceWeight;
  throw std::invalid_argument("a source is feature, slot, line_id, label or instance_weight, got " + name);
}

parse::ValueType type_from_name(const std::string& name) {
  if (name == "int64") return parse::ValueType::kInt64;
  if (name == "float32") return parse::ValueType::kFloat32;
  if (name == "bytes") return parse::ValueType::kBytes;
  throw std::invalid_argument("a type of values is int64, float32 or bytes, got " + name);
}

std::vector<parse::ColumnSpec> specs_from(const std::vector<Spec>& specs) {
  std::vector<parse::ColumnSpec> result;
  for (const auto& [name, source, type, width, number, missing, empty, to_v2] : specs) {
    result.push_back({name, source_from_name(source), type_from_name(type), width, number, missing, empty, to_v2});
  }
  return result;
}

// Hands a buffer to torch without copying it.
template <class T>
nb::object tensor_of(parse::ValueBuffer&& buffer, std::size_t num_rows, std::int64_t width) {
  const std::size_t size = buffer.size() / sizeof(T);
  void* const memory = size > 0 ? buffer.release() : std::malloc(1);  // a capsule must own something
  auto* const data = static_cast<T*>(memory);
  const nb::capsule owner(memory, [](void* p) noexcept { std::free(p); });
  if (width == parse::kRagged) {
    return nb::cast(nb::ndarray<nb::pytorch, T, nb::ndim<1>>(data, {size}, owner));
  }
  return nb::cast(nb::ndarray<nb::pytorch, T, nb::ndim<2>>(data, {num_rows, static_cast<std::size_t>(width)}, owner));
}

nb::object values_of(const parse::ColumnSpec& spec, parse::ValueBuffer&& values, std::size_t num_rows) {
  switch (spec.type) {
    case parse::ValueType::kInt64:
      return tensor_of<std::int64_t>(std::move(values), num_rows, spec.width);
    case parse::ValueType::kFloat32:
      return tensor_of<float>(std::move(values), num_rows, spec.width);
    default:
      return tensor_of<std::uint8_t>(std::move(values), num_rows, parse::kRagged);
  }
}

nb::list list_of(const std::vector<parse::BadRecord>& records) {
  nb::list bad;
  for (const parse::BadRecord& record : records) {
    bad.append(nb::make_tuple(record.record, record.offset, record.text));
  }
  return bad;
}

nb::tuple parse_records(const parse::RecordParser& parser, Flat<const std::uint8_t> data, Ids row_splits) {
  parse::ParsedBatch batch;
  {
    const nb::gil_scoped_release release;
    batch = parser.parse({span_of(data), span_of(row_splits)});
  }
  nb::list columns;
  for (std::size_t i = 0; i < batch.columns.size(); ++i) {
    parse::Column& column = batch.columns[i];
    const bool ragged = column.row_splits.size() > 0;
    nb::object values = values_of(parser.specs()[i], std::move(column.values), batch.num_rows);
    nb::object splits =
        ragged ? tensor_of<std::int64_t>(std::move(column.row_splits), 0, parse::kRagged) : nb::object(nb::none());
    columns.append(nb::make_tuple(values, splits, column.present));
  }
  return nb::make_tuple(batch.num_rows, columns, list_of(batch.bad));
}

// (name, role, slot), see parse::ConvertedFeature.
using Conversion = std::tuple<std::string, std::string, std::uint32_t>;

parse::FeatureRole role_from_name(const std::string& name) {
  if (name == "label") return parse::FeatureRole::kLabel;
  if (name == "instance_weight") return parse::FeatureRole::kWeight;
  if (name == "sparse") return parse::FeatureRole::kSparse;
  if (name == "dense") return parse::FeatureRole::kDense;
  throw std::invalid_argument("a feature becomes label, instance_weight, sparse or dense, got " + name);
}

std::vector<parse::ConvertedFeature> features_from(const std::vector<Conversion>& conversions) {
  std::vector<parse::ConvertedFeature> result;
  for (const auto& [name, role, slot] : conversions) result.push_back({name, role_from_name(role), slot});
  return result;
}

nb::tuple convert_records(const parse::TfExampleConverter& converter, Flat<const std::uint8_t> data, Ids row_splits) {
  parse::ConvertedRecords converted;
  {
    const nb::gil_scoped_release release;
    converted = converter.convert({span_of(data), span_of(row_splits)});
  }
  return nb::make_tuple(tensor_of<std::uint8_t>(std::move(converted.data), 0, parse::kRagged),
                        tensor_of<std::int64_t>(std::move(converted.splits), 0, parse::kRagged),
                        list_of(converted.bad));
}

}  // namespace

void bind_parse(nb::module_& m) {
  nb::class_<parse::RecordParser>(
      m, "RecordParser", "Turns serialized records of one format into columns; the way in is monolith.data.parse.")
      .def(
          "__init__",
          [](parse::RecordParser* self, std::string_view format, const std::vector<Spec>& specs) {
            new (self) parse::RecordParser(parse::format_from_name(format), specs_from(specs));
          },
          "format"_a, "columns"_a)
      .def("parse", &parse_records, "data"_a.noconvert(), "row_splits"_a.noconvert(),
           "Returns the number of rows, (values, splits, present) per column, (record, offset, text) per bad record.");
  nb::class_<parse::TfExampleConverter>(m, "TfExampleConverter",
                                        "Turns tf.Examples into Examples; see monolith.data.parse.")
      .def(
          "__init__",
          [](parse::TfExampleConverter* self, const std::vector<Conversion>& features) {
            new (self) parse::TfExampleConverter(features_from(features));
          },
          "features"_a)
      .def("convert", &convert_records, "data"_a.noconvert(), "row_splits"_a.noconvert(),
           "Returns the records, their row splits, and (record, offset, text) per bad record.");
}

}  // namespace monolith::bind
