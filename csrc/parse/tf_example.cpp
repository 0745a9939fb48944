// tensorflow.Example {features = 1 {feature = 1 map<string, Feature>}}; Feature is a oneof of three lists.
#include <stdexcept>

#include "parse/row_format.h"
#include "parse/value_lists.h"

namespace monolith::parse {

namespace {

enum FeatureKind : std::uint32_t { kBytesList = 1, kFloatList = 2, kInt64List = 3 };
constexpr const char* kKindNames[] = {"", "a bytes_list", "a float_list", "an int64_list"};

void read_feature(Bytes feature, ColumnSink& sink) {
  WireReader reader(feature);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(kInt64List, kLength)) {
      sink.enter(kInt64List);
      const Bytes list = reader.bytes();
      if (sink.takes(ValueType::kInt64, list, kKindNames[kInt64List])) read_int64_list(list, sink);
    } else if (tag == tag_of(kFloatList, kLength)) {
      sink.enter(kFloatList);
      const Bytes list = reader.bytes();
      if (sink.takes(ValueType::kFloat32, list, kKindNames[kFloatList])) read_float_list(list, sink);
    } else if (tag == tag_of(kBytesList, kLength)) {
      sink.enter(kBytesList);
      const Bytes list = reader.bytes();
      if (sink.takes_strings(list, kKindNames[kBytesList])) read_bytes_list(list, sink);
    } else {
      reader.skip(tag);
    }
  }
}

// Reads an entry that is written the way almost all are: name, then a feature of one packed list (or one string), all
// of them shorter than 128 bytes, and nothing else. Returns false, with nothing read, if it is not.
bool read_plain_entry(Bytes entry, RowReader& rows) {
  constexpr std::size_t kHeaders = 8;  // tags and lengths of name, feature, list and values
  const std::uint8_t* const p = entry.begin;
  const std::size_t size = entry.size();
  if (size < kHeaders || size >= 128 || p[0] != tag_of(1, kLength) || p[1] > size - kHeaders) return false;
  const std::uint8_t* const feature = p + 2 + p[1];
  const auto left = static_cast<std::size_t>(entry.end - feature);
  if (feature[0] != tag_of(2, kLength) || feature[1] != left - 2 || feature[3] != left - 4 ||
      feature[4] != kPackedTag || feature[5] != left - 6) {
    return false;
  }
  const std::uint32_t tag = feature[2];
  const Bytes values{feature + 6, entry.end, entry.readable};
  if (tag != tag_of(kInt64List, kLength) && tag != tag_of(kFloatList, kLength) && tag != tag_of(kBytesList, kLength)) {
    return false;
  }
  const int column = rows.hints.find({reinterpret_cast<const char*>(p + 2), p[1]});
  if (column == NameIndex::kNone) return true;
  ColumnSink& sink = rows.sinks[static_cast<std::size_t>(column)];
  sink.begin_feature();
  sink.enter(tag >> 3);
  if (tag == tag_of(kInt64List, kLength)) {
    if (sink.takes(ValueType::kInt64, values, kKindNames[kInt64List])) sink.add_varints(values);
  } else if (tag == tag_of(kFloatList, kLength)) {
    if (!sink.takes(ValueType::kFloat32, values, kKindNames[kFloatList])) return true;
    sink.expect_scalar();
    sink.add_floats(values);
  } else {
    if (sink.takes_strings(values, kKindNames[kBytesList])) sink.add_string(values);
  }
  return true;
}

void read_features(Bytes features, RowReader& rows) {
  WireReader reader(features);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(1, kLength)) [[likely]] {
      const Bytes entry = reader.bytes();
      if (!read_plain_entry(entry, rows)) read_named_value(entry, rows, read_feature);
    } else {
      reader.skip(tag);
    }
  }
}

class TfExampleFormat final : public RowFormat {
 public:
  explicit TfExampleFormat(std::span<const ColumnSpec> specs) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].source == Source::kSlot || specs[i].source == Source::kLineId) {
        throw std::invalid_argument("column '" + specs[i].name + "': a tf.Example has neither slots nor a line id");
      }
      names_.add(specs[i].name, static_cast<int>(i));
    }
  }

  void read(Bytes record, RowReader& rows) const override {
    WireReader reader(record);
    while (!reader.done()) {
      const std::uint32_t tag = reader.tag();
      if (tag == tag_of(1, kLength)) {
        read_features(reader.bytes(), rows);
      } else {
        reader.skip(tag);
      }
    }
  }
};

}  // namespace

std::unique_ptr<RowFormat> make_tf_example_format(std::span<const ColumnSpec> specs) {
  return std::make_unique<TfExampleFormat>(specs);
}

}  // namespace monolith::parse
