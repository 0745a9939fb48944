// Labels and the weight that Example and Instance carry beside their features.
#pragma once

#include <bit>

#include "parse/column_sink.h"
#include "parse/wire_reader.h"

namespace monolith::parse {

// Stand for "this value came from the record itself"; larger than any member of a Feature.
inline constexpr std::uint32_t kRecordLabel = 1001;
inline constexpr std::uint32_t kRecordWeight = 1002;

// Reads a label field, packed or single. A feature of the same name wins over the record's own labels.
inline void read_label(std::uint32_t tag, WireReader& reader, ColumnSink& sink) {
  if (sink.in_row() && sink.kind() != kRecordLabel) return reader.skip(tag);
  sink.enter(kRecordLabel);
  if ((tag & 7) == kLength) {
    sink.add_floats(reader.bytes());
  } else if ((tag & 7) == kFixed32) {
    sink.add_float(std::bit_cast<float>(reader.fixed32()));
  } else {
    reader.skip(tag);
  }
}

inline void read_weight(std::uint32_t tag, WireReader& reader, ColumnSink& sink) {
  if ((tag & 7) != kFixed32 || (sink.in_row() && sink.kind() != kRecordWeight)) return reader.skip(tag);
  sink.enter(kRecordWeight, true);
  sink.add_float(std::bit_cast<float>(reader.fixed32()));
}

}  // namespace monolith::parse
