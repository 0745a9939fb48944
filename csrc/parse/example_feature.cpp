#include "parse/example_feature.h"

#include <bit>

#include "parse/value_lists.h"

namespace monolith::parse {

namespace {

enum FeatureKind : std::uint32_t {
  kFidV1List = 1,
  kFidV2List = 2,
  kFloatList = 3,
  kDoubleList = 4,
  kInt64List = 5,
  kBytesList = 6,
  kFidV2Lists = 7,
  kFloatLists = 8,
  kDoubleLists = 9,
  kInt64Lists = 10,
  kBytesLists = 11,
  kInt64Value = 12,
  kFloatValue = 13,
  kDoubleValue = 14,
  kBytesValue = 15,
  kFidV1Lists = 16,
};

void read_list(std::uint32_t kind, Bytes list, ColumnSink& sink) {
  switch (kind) {
    case kFidV1List:
      if (sink.takes(ValueType::kInt64, list, "a fid_v1_list")) read_fid_list(list, sink, true);
      break;
    case kFidV2List:
      if (sink.takes(ValueType::kInt64, list, "a fid_v2_list")) read_fid_list(list, sink, false);
      break;
    case kFloatList:
      if (sink.takes(ValueType::kFloat32, list, "a float_list")) read_float_list(list, sink);
      break;
    case kDoubleList:
      if (sink.takes(ValueType::kFloat32, list, "a double_list")) read_double_list(list, sink);
      break;
    case kInt64List:
      if (sink.takes(ValueType::kInt64, list, "an int64_list")) read_int64_list(list, sink);
      break;
    case kBytesList:
      if (sink.takes_hashed_strings(list, "a bytes_list")) read_bytes_list(list, sink);
      break;
    case kBytesValue:
      if (sink.takes_hashed_strings(list, "a bytes_value")) sink.add_string(list);
      break;
    default:
      sink.refuse(list, "lists of lists");
  }
}

bool is_list(std::uint32_t tag) {
  const std::uint32_t kind = tag >> 3;
  return (tag & 7) == kLength && kind <= kFidV1Lists && (kind < kInt64Value || kind > kDoubleValue);
}

}  // namespace

void read_example_feature(Bytes feature, ColumnSink& sink) {
  WireReader reader(feature);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (is_list(tag)) {
      sink.enter(tag >> 3, tag >> 3 == kBytesValue);
      read_list(tag >> 3, reader.bytes(), sink);
      continue;
    }
    const Bytes here{reader.at(), feature.end, feature.readable};
    switch (tag) {
      case tag_of(kInt64Value, kVarint): {
        const auto value = static_cast<std::int64_t>(reader.varint());
        sink.enter(tag >> 3, true);
        if (sink.takes(ValueType::kInt64, here, "an int64_value")) sink.add_int64(value);
        break;
      }
      case tag_of(kFloatValue, kFixed32): {
        const auto value = std::bit_cast<float>(reader.fixed32());
        sink.enter(tag >> 3, true);
        if (sink.takes(ValueType::kFloat32, here, "a float_value")) sink.add_float(value);
        break;
      }
      case tag_of(kDoubleValue, kFixed64): {
        const auto value = std::bit_cast<double>(reader.fixed64());
        sink.enter(tag >> 3, true);
        if (sink.takes(ValueType::kFloat32, here, "a double_value")) sink.add_float(static_cast<float>(value));
        break;
      }
      default:
        reader.skip(tag);
    }
  }
}

}  // namespace monolith::parse
