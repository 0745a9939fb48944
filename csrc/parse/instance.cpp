// parser.proto.Instance: ids of layout v1 in one flat list, named features, a line id, labels and a weight.
#include <array>
#include <stdexcept>

#include "parse/line_id.h"
#include "parse/record_fields.h"
#include "parse/row_format.h"
#include "parse/value_lists.h"

namespace monolith::parse {

namespace {

enum InstanceField : std::uint32_t { kFid = 1, kLabel = 3, kInstanceWeight = 4, kLineIdField = 5, kFeature = 9 };
enum FeatureField : std::uint32_t { kName = 1, kFids = 2, kFloats = 3, kInts = 4, kStrings = 5, kLastList = 9 };

constexpr std::size_t kNumSlots = 1024;

// One field of a feature; the feature is a set of lists of which one is in use.
void read_feature_field(std::uint32_t tag, WireReader& reader, ColumnSink& sink) {
  const std::uint32_t number = tag >> 3;
  const bool packed = (tag & 7) == kLength;
  const Bytes here{reader.at(), reader.at(), nullptr};
  if (number == kFids && (packed || (tag & 7) == kFixed64)) {
    if (!sink.takes(ValueType::kInt64, here, "fids")) return reader.skip(tag);
    if (packed) return sink.add_fids(reader.bytes(), false);
    sink.add_int64(static_cast<std::int64_t>(reader.fixed64()));
  } else if (number == kFloats && (packed || (tag & 7) == kFixed32)) {
    if (!sink.takes(ValueType::kFloat32, here, "a float_value")) return reader.skip(tag);
    if (packed) return sink.add_floats(reader.bytes());
    sink.add_float(std::bit_cast<float>(reader.fixed32()));
  } else if (number == kInts && (packed || (tag & 7) == kVarint)) {
    if (!sink.takes(ValueType::kInt64, here, "an int64_value")) return reader.skip(tag);
    if (packed) return sink.add_varints(reader.bytes());
    sink.add_int64(static_cast<std::int64_t>(reader.varint()));
  } else if (number == kStrings && packed) {
    if (!sink.takes(ValueType::kBytes, here, "a bytes_value")) return reader.skip(tag);
    sink.add_string(reader.bytes());
  } else {
    if (number > kStrings && number <= kLastList && packed) sink.refuse(here, "lists of lists");
    reader.skip(tag);
  }
}

void read_feature(Bytes feature, RowReader& rows) {
  Bytes name;
  for (WireReader reader(feature); !reader.done();) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(kName, kLength)) {
      name = reader.bytes();
    } else {
      reader.skip(tag);
    }
  }
  const int column = rows.hints.find(name.text());
  if (column == NameIndex::kNone) return;
  ColumnSink& sink = rows.sinks[static_cast<std::size_t>(column)];
  sink.begin_feature();
  for (WireReader reader(feature); !reader.done();) read_feature_field(reader.tag(), reader, sink);
}

class InstanceFormat final : public RowFormat {
 public:
  explicit InstanceFormat(std::span<const ColumnSpec> specs) : line_id_(specs) {
    slots_.fill(-1);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const int column = static_cast<int>(i);
      const ColumnSpec& spec = specs[i];
      if (spec.source == Source::kFeature) names_.add(spec.name, column);
      if (spec.source == Source::kLabel) label_ = column;
      if (spec.source == Source::kInstanceWeight) weight_ = column;
      if (spec.source != Source::kSlot) continue;
      if (spec.number >= kNumSlots) {
        throw std::invalid_argument("slot should be less than 1024, while got " + std::to_string(spec.number));
      }
      if (slots_[spec.number] >= 0) {
        throw std::invalid_argument("slot " + std::to_string(spec.number) + " is asked for twice");
      }
      slots_[spec.number] = static_cast<std::int16_t>(column);
      wants_slots_ = true;
    }
  }

  void read(Bytes record, RowReader& rows) const override {
    WireReader reader(record);
    while (!reader.done()) {
      const std::uint32_t tag = reader.tag();
      const std::uint32_t number = tag >> 3;
      if (tag == tag_of(kFeature, kLength)) {
        read_feature(reader.bytes(), rows);
      } else if (number == kLabel && label_ >= 0) {
        read_label(tag, reader, rows.sinks[static_cast<std::size_t>(label_)]);
      } else if (number == kInstanceWeight && weight_ >= 0) {
        read_weight(tag, reader, rows.sinks[static_cast<std::size_t>(weight_)]);
      } else if (tag == tag_of(kLineIdField, kLength) && line_id_.wanted()) {
        line_id_.read(reader.bytes(), rows.sinks);
      } else if (tag == tag_of(kFid, kLength) && wants_slots_) {
        split_by_slot(reader.bytes(), rows);
      } else if (tag == tag_of(kFid, kFixed64) && wants_slots_) {
        add_to_slot(reader.fixed64(), rows);
      } else {
        reader.skip(tag);
      }
    }
  }

 private:
  void split_by_slot(Bytes fids, RowReader& rows) const {
    if (fids.size() % 8 != 0) fail(fids.begin, "expected a packed list of 8-byte ids");
    for (const std::uint8_t* p = fids.begin; p != fids.end; p += 8) add_to_slot(load_u64(p), rows);
  }

  void add_to_slot(std::uint64_t fid, RowReader& rows) const {
    const int column = slots_[fid >> 54];
    if (column < 0) return;
    ColumnSink& sink = rows.sinks[static_cast<std::size_t>(column)];
    sink.enter(kFid);
    sink.add_int64(sink.spec().to_v2 ? fid_v1_to_v2(fid) : static_cast<std::int64_t>(fid));
  }

  LineIdReader line_id_;
  std::array<std::int16_t, kNumSlots> slots_;
  bool wants_slots_ = false;
  int label_ = -1;
  int weight_ = -1;
};

}  // namespace

std::unique_ptr<RowFormat> make_instance_format(std::span<const ColumnSpec> specs) {
  return std::make_unique<InstanceFormat>(specs);
}

}  // namespace monolith::parse
