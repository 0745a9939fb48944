// monolith.io.proto.Example: named features, a line id, labels and a weight.
#include <stdexcept>

#include "parse/example_feature.h"
#include "parse/line_id.h"
#include "parse/record_fields.h"
#include "parse/row_format.h"

namespace monolith::parse {

namespace {

constexpr std::uint32_t kNamedFeature = 1;
constexpr std::uint32_t kLineId = 100;
constexpr std::uint32_t kLabel = 101;
constexpr std::uint32_t kInstanceWeight = 102;

class ExampleFormat final : public RowFormat {
 public:
  explicit ExampleFormat(std::span<const ColumnSpec> specs) : line_id_(specs) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const int column = static_cast<int>(i);
      const Source source = specs[i].source;
      if (source == Source::kSlot) {
        throw std::invalid_argument("column '" + specs[i].name + "': ids of an Example are found by name, not by slot");
      }
      if (source == Source::kLineId) continue;
      names_.add(specs[i].name, column);
      if (source == Source::kLabel) label_ = column;
      if (source == Source::kInstanceWeight) weight_ = column;
    }
  }

  void read(Bytes record, RowReader& rows) const override {
    WireReader reader(record);
    while (!reader.done()) {
      const std::uint32_t tag = reader.tag();
      const std::uint32_t number = tag >> 3;
      if (tag == tag_of(kNamedFeature, kLength)) {
        read_named_value(reader.bytes(), rows, read_example_feature);
      } else if (number == kLabel && label_ >= 0) {
        read_label(tag, reader, rows.sinks[static_cast<std::size_t>(label_)]);
      } else if (number == kInstanceWeight && weight_ >= 0) {
        read_weight(tag, reader, rows.sinks[static_cast<std::size_t>(weight_)]);
      } else if (tag == tag_of(kLineId, kLength) && line_id_.wanted()) {
        line_id_.read(reader.bytes(), rows.sinks);
      } else {
        reader.skip(tag);
      }
    }
  }

 private:
  LineIdReader line_id_;
  int label_ = -1;
  int weight_ = -1;
};

}  // namespace

std::unique_ptr<RowFormat> make_example_format(std::span<const ColumnSpec> specs) {
  return std::make_unique<ExampleFormat>(specs);
}

}  // namespace monolith::parse
