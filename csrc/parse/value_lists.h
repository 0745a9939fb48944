// The messages {repeated T value = 1} that hold a feature's values; packed and single values may alternate.
#pragma once

#include <bit>

#include "parse/column_sink.h"
#include "parse/wire_reader.h"

namespace monolith::parse {

inline constexpr std::uint32_t kPackedTag = tag_of(1, kLength);

inline void read_int64_list(Bytes list, ColumnSink& sink) {
  WireReader reader(list);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kPackedTag) {
      sink.add_varints(reader.bytes());
    } else if (tag == tag_of(1, kVarint)) {
      sink.add_int64(static_cast<std::int64_t>(reader.varint()));
    } else {
      reader.skip(tag);
    }
  }
}

inline void read_float_list(Bytes list, ColumnSink& sink) {
  sink.expect_scalar();
  WireReader reader(list);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kPackedTag) {
      sink.add_floats(reader.bytes());
    } else if (tag == tag_of(1, kFixed32)) {
      sink.add_float(std::bit_cast<float>(reader.fixed32()));
    } else {
      reader.skip(tag);
    }
  }
}

inline void read_double_list(Bytes list, ColumnSink& sink) {
  sink.expect_scalar();
  WireReader reader(list);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kPackedTag) {
      sink.add_doubles(reader.bytes());
    } else if (tag == tag_of(1, kFixed64)) {
      sink.add_float(static_cast<float>(std::bit_cast<double>(reader.fixed64())));
    } else {
      reader.skip(tag);
    }
  }
}

inline void read_fid_list(Bytes list, ColumnSink& sink, bool to_v2) {
  WireReader reader(list);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kPackedTag) {
      sink.add_fids(reader.bytes(), to_v2);
    } else if (tag == tag_of(1, kFixed64)) {
      const std::uint64_t fid = reader.fixed64();
      sink.add_int64(to_v2 ? fid_v1_to_v2(fid) : static_cast<std::int64_t>(fid));
    } else {
      reader.skip(tag);
    }
  }
}

inline void read_bytes_list(Bytes list, ColumnSink& sink) {
  WireReader reader(list);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kPackedTag) {
      sink.add_string(reader.bytes());
    } else {
      reader.skip(tag);
    }
  }
}

}  // namespace monolith::parse
