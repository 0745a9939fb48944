#include "parse/line_id.h"

#include <bit>
#include <stdexcept>
#include <string>

namespace monolith::parse {

namespace {

constexpr std::array<LineIdField, 14> kFields{{
    {"uid", 2, LineIdKind::kFixed64, false},
    {"req_time", 3, LineIdKind::kInt64, false},
    {"item_id", 4, LineIdKind::kFixed64, false},
    {"actions", 6, LineIdKind::kInt32, true},
    {"chnid", 19, LineIdKind::kInt64, false},
    {"pre_actions", 23, LineIdKind::kInt32, true},
    {"sample_rate", 27, LineIdKind::kFloat, false},
    {"special_strategies", 39, LineIdKind::kInt32, true},
    {"device_type", 41, LineIdKind::kString, false},
    {"cid", 48, LineIdKind::kString, false},
    {"user_id", 49, LineIdKind::kString, false},
    {"is_draw", 87, LineIdKind::kBool, false},
    {"rank", 145, LineIdKind::kInt32, false},
    {"data_source_name", 235, LineIdKind::kString, false},
}};

WireType wire_type_of(LineIdKind kind) {
  switch (kind) {
    case LineIdKind::kFixed64:
      return kFixed64;
    case LineIdKind::kFloat:
      return kFixed32;
    case LineIdKind::kString:
      return kLength;
    default:
      return kVarint;
  }
}

std::int64_t as_int64(LineIdKind kind, std::uint64_t value) {
  if (kind == LineIdKind::kInt32) return static_cast<std::int32_t>(value);  // protobuf keeps the low 32 bits
  if (kind == LineIdKind::kBool) return value != 0 ? 1 : 0;
  return static_cast<std::int64_t>(value);
}

void read_value(WireReader& reader, const LineIdField& field, ColumnSink& sink) {
  switch (field.kind) {
    case LineIdKind::kFixed64:
      sink.add_int64(static_cast<std::int64_t>(reader.fixed64()));
      break;
    case LineIdKind::kFloat:
      sink.add_float(std::bit_cast<float>(reader.fixed32()));
      break;
    case LineIdKind::kString:
      sink.add_string(reader.bytes());
      break;
    default:
      sink.add_int64(as_int64(field.kind, reader.varint()));
  }
}

}  // namespace

const LineIdField* find_line_id_field(std::string_view name) {
  for (const LineIdField& field : kFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

LineIdReader::LineIdReader(std::span<const ColumnSpec> specs) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].source != Source::kLineId) continue;
    const LineIdField* field = find_line_id_field(specs[i].name);
    if (field == nullptr) throw std::invalid_argument(specs[i].name + " is not in line id, pls check!");
    if (field->type() != specs[i].type) {
      throw std::invalid_argument("column '" + specs[i].name + "' has another type than this field of the line id");
    }
    targets_[field->number] = {static_cast<int>(i), field};
    wanted_ = true;
  }
}

void LineIdReader::read(Bytes line_id, std::span<ColumnSink> sinks) const {
  WireReader reader(line_id);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    const std::uint32_t number = tag >> 3;
    const Target target = number <= kMaxNumber ? targets_[number] : Target{};
    if (target.column < 0) {
      reader.skip(tag);
      continue;
    }
    ColumnSink& sink = sinks[static_cast<std::size_t>(target.column)];
    const bool packed = target.field->repeated && (tag & 7) == kLength;
    if (!packed && (tag & 7) != wire_type_of(target.field->kind)) {
      reader.skip(tag);
      continue;
    }
    if (!target.field->repeated || !sink.in_row()) sink.begin_feature();
    if (!packed) {
      read_value(reader, *target.field, sink);
      continue;
    }
    for (WireReader values(reader.bytes()); !values.done();) read_value(values, *target.field, sink);
  }
}

}  // namespace monolith::parse
