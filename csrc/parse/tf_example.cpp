// tensorflow.Example {features = 1 {feature = 1 map<string, Feature>}}; Feature is a oneof of three lists.
#include <stdexcept>

#include "parse/row_format.h"
#include "parse/value_lists.h"

namespace monolith::parse {

namespace {

enum FeatureKind : std::uint32_t { kBytesList = 1, kFloatList = 2, kInt64List = 3 };

void read_feature(Bytes feature, ColumnSink& sink) {
  WireReader reader(feature);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(kInt64List, kLength)) {
      sink.enter(kInt64List);
      const Bytes list = reader.bytes();
      if (sink.takes(ValueType::kInt64, list, "an int64_list")) read_int64_list(list, sink);
    } else if (tag == tag_of(kFloatList, kLength)) {
      sink.enter(kFloatList);
      const Bytes list = reader.bytes();
      if (sink.takes(ValueType::kFloat32, list, "a float_list")) read_float_list(list, sink);
    } else if (tag == tag_of(kBytesList, kLength)) {
      sink.enter(kBytesList);
      const Bytes list = reader.bytes();
      if (sink.takes(ValueType::kBytes, list, "a bytes_list")) read_bytes_list(list, sink);
    } else {
      reader.skip(tag);
    }
  }
}

void read_features(Bytes features, RowReader& rows) {
  WireReader reader(features);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(1, kLength)) {
      read_named_value(reader.bytes(), rows, read_feature);
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
