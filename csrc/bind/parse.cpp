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
#include "parse/line_ends.h"
#include "parse/line_id.h"
#include "parse/record_parser.h"
#include "parse/tf_example_conversion.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

// (name, source, type, width, number, missing, empty, to_v2, missing_id, is_list, optional), see parse::ColumnSpec. The
// type "hash" is int64, hashed.
using Spec = std::tuple<std::string, std::string, std::string, std::int64_t, std::uint32_t, float, float, bool,
                        std::int64_t, bool, bool>;

// (num_cells, delimiter, list_delimiter), see parse::CsvShape.
using Csv = std::tuple<std::size_t, std::uint8_t, std::string>;

parse::Source source_from_name(const std::string& name) {
  if (name == "feature") return parse::Source::kFeature;
  if (name == "slot") return parse::Source::kSlot;
  if (name == "line_id") return parse::Source::kLineId;
  if (name == "label") return parse::Source::kLabel;
  if (name == "instance_weight") return parse::Source::kInstanceWeight;
  if (name == "cell") return parse::Source::kCell;
  throw std::invalid_argument("a source is feature, slot, line_id, label, instance_weight or cell, got " + name);
}

parse::ValueType type_from_name(const std::string& name) {
  if (name == "int64" || name == "hash") return parse::ValueType::kInt64;
  if (name == "float32") return parse::ValueType::kFloat32;
  if (name == "bytes") return parse::ValueType::kBytes;
  throw std::invalid_argument("a type of values is int64, hash, float32 or bytes, got " + name);
}

std::vector<parse::ColumnSpec> specs_from(const std::vector<Spec>& specs) {
  std::vector<parse::ColumnSpec> result;
  for (const auto& [name, source, type, width, number, missing, empty, to_v2, missing_id, is_list, optional] : specs) {
    result.push_back({.name = name,
                      .source = source_from_name(source),
                      .type = type_from_name(type),
                      .width = width,
                      .number = number,
                      .missing = missing,
                      .empty = empty,
                      .to_v2 = to_v2,
                      .hashed = type == "hash",
                      .missing_id = missing_id,
                      .is_list = is_list,
                      .optional = optional});
  }
  return result;
}

// Hands a buffer to torch without copying it.
template <class T>
nb::object tensor_of(parse::ValueBuffer&& buffer) {
  const std::size_t size = buffer.size() / sizeof(T);
  void* const memory = size > 0 ? buffer.release() : std::malloc(1);  // a capsule must own something
  const nb::capsule owner(memory, [](void* p) noexcept { std::free(p); });
  return nb::cast(nb::ndarray<nb::pytorch, T, nb::ndim<1>>(static_cast<T*>(memory), {size}, owner));
}

nb::object values_of(const parse::ColumnSpec& spec, parse::ValueBuffer&& values) {
  switch (spec.type) {
    case parse::ValueType::kInt64:
      return tensor_of<std::int64_t>(std::move(values));
    case parse::ValueType::kFloat32:
      return tensor_of<float>(std::move(values));
    default:
      return tensor_of<std::uint8_t>(std::move(values));
  }
}

// Values and splits of a ragged column; None for others.
nb::object ragged_of(const parse::ColumnSpec& spec, parse::Column&& column) {
  if (column.row_splits.size() == 0) return nb::none();
  return nb::make_tuple(values_of(spec, std::move(column.values)),
                        tensor_of<std::int64_t>(std::move(column.row_splits)));
}

nb::list list_of(const std::vector<parse::BadRecord>& records) {
  nb::list bad;
  for (const parse::BadRecord& record : records) {
    bad.append(nb::make_tuple(record.record, record.offset, record.text));
  }
  return bad;
}

// The rows there are and the places for them; the values of all columns of a fixed width, by type; (values, splits) of
// each ragged column and None for others; the columns that no record has; (record, offset, text) of each bad record.
nb::tuple parse_records(const parse::RecordParser& parser, Flat<const std::uint8_t> data, Ids row_splits,
                        TextDictionary* texts) {
  parse::ParsedBatch batch;
  {
    const nb::gil_scoped_release release;
    batch = parser.parse({span_of(data), span_of(row_splits)}, texts);
  }
  nb::list ragged, absent;
  for (std::size_t i = 0; i < batch.columns.size(); ++i) {
    if (!batch.columns[i].present) absent.append(i);
    ragged.append(ragged_of(parser.specs()[i], std::move(batch.columns[i])));
  }
  return nb::make_tuple(batch.num_rows, batch.fixed.num_places, tensor_of<std::int64_t>(std::move(batch.fixed.ints)),
                        tensor_of<float>(std::move(batch.fixed.floats)), ragged, absent, list_of(batch.bad));
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
  return nb::make_tuple(tensor_of<std::uint8_t>(std::move(converted.data)),
                        tensor_of<std::int64_t>(std::move(converted.splits)), list_of(converted.bad));
}

nb::object line_ends(Flat<const std::uint8_t> text) {
  parse::ValueBuffer ends;
  {
    const nb::gil_scoped_release release;
    ends = parse::line_ends(span_of(text));
  }
  return tensor_of<std::int64_t>(std::move(ends));
}

}  // namespace

void bind_parse(nb::module_& m) {
  nb::class_<parse::RecordParser>(
      m, "RecordParser", "Turns serialized records of one format into columns; the way in is monolith.data.parse.")
      .def(
          "__init__",
          [](parse::RecordParser* self, std::string_view format, const std::vector<Spec>& specs, const Csv& csv) {
            const auto& [num_cells, delimiter, list_delimiter] = csv;
            new (self) parse::RecordParser(parse::format_from_name(format), specs_from(specs),
                                           {num_cells, delimiter, list_delimiter});
          },
          "format"_a, "columns"_a, "csv"_a = Csv{0, ',', "|"})
      .def("parse", &parse_records, "data"_a.noconvert(), "row_splits"_a.noconvert(), "texts"_a.none() = nb::none(),
           "Returns num_rows, num_places, ints, floats, ragged columns, absent columns, bad records.");
  m.def("line_ends", &line_ends, "text"_a.noconvert(), "Returns the place behind every line feed.");
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
