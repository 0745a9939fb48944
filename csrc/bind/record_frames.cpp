#include "io/record_frames.h"

#include "bind/arrays.h"
#include "bind/module.h"
#include "io/record_stream.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

using BytesIn = Array<const std::uint8_t>;
using BytesOut = Array<std::uint8_t>;

std::span<const std::byte> bytes_of(const BytesIn& array) { return std::as_bytes(as_span(array)); }

FrameRead read(int file, BytesOut buffer, std::size_t begin, std::size_t end, const FrameLayout& layout,
               std::size_t max_frames, BytesOut payloads, std::size_t payload_bytes, IdsOut row_splits,
               std::size_t num_records, IdsOut headers) {
  return read_frames(file, {.buffer = std::as_writable_bytes(as_span(buffer)), .begin = begin, .end = end}, layout,
                     max_frames,
                     {.payloads = std::as_writable_bytes(as_span(payloads)),
                      .payload_bytes = payload_bytes,
                      .row_splits = as_span(row_splits),
                      .num_records = num_records,
                      .headers = as_span(headers)});
}

void encode(BytesIn payloads, IdsIn row_splits, IdsIn headers, const FrameLayout& layout, BytesOut out) {
  encode_frames(bytes_of(payloads), as_span(row_splits), as_span(headers), layout,
                std::as_writable_bytes(as_span(out)));
}

FrameLayout make_layout(bool tf_record, bool lagrangex_header, bool sort_id, bool kafka_dump, bool kafka_dump_prefix,
                        std::uint64_t max_record_bytes) {
  return {.tf_record = tf_record,
          .lagrangex_header = lagrangex_header,
          .sort_id = sort_id,
          .kafka_dump = kafka_dump,
          .kafka_dump_prefix = kafka_dump_prefix,
          .max_record_bytes = max_record_bytes};
}

void bind_types(nb::module_& m) {
  nb::class_<FrameLayout>(m, "FrameLayout")
      .def(
          "__init__",
          [](FrameLayout* self, bool tf_record, bool lagrangex_header, bool sort_id, bool kafka_dump,
             bool kafka_dump_prefix, std::uint64_t max_record_bytes) {
            new (self) FrameLayout(
                make_layout(tf_record, lagrangex_header, sort_id, kafka_dump, kafka_dump_prefix, max_record_bytes));
          },
          nb::kw_only(), "tf_record"_a = false, "lagrangex_header"_a = false, "sort_id"_a = false,
          "kafka_dump"_a = false, "kafka_dump_prefix"_a = false, "max_record_bytes"_a = std::uint64_t{1} << 30)
      .def_ro("max_record_bytes", &FrameLayout::max_record_bytes)
      .def_prop_ro("overhead", &frame_overhead, "Bytes that a written frame has beside its payload.");
  nb::enum_<FrameStop>(m, "FrameStop")
      .value("ENOUGH", FrameStop::kEnough)
      .value("INPUT", FrameStop::kInput)
      .value("ROOM", FrameStop::kRoom)
      .value("LENGTH_CRC", FrameStop::kLengthCrc)
      .value("TOO_LONG", FrameStop::kTooLong)
      .value("DEAD_BEEF", FrameStop::kDeadBeef);
  nb::class_<FramePass>(m, "FramePass")
      .def_ro("num_frames", &FramePass::num_frames)
      .def_ro("num_bytes", &FramePass::num_bytes)
      .def_ro("stop", &FramePass::stop)
      .def_ro("length", &FramePass::length)
      .def_ro("wanted", &FramePass::wanted)
      .def_ro("num_records", &FramePass::num_records)
      .def_ro("payload_bytes", &FramePass::payload_bytes)
      .def_ro("num_bad", &FramePass::num_bad)
      .def_ro("first_bad", &FramePass::first_bad);
  nb::class_<FrameRead, FramePass>(m, "FrameRead")
      .def_ro("begin", &FrameRead::begin)
      .def_ro("end", &FrameRead::end)
      .def_ro("num_read", &FrameRead::num_read);
}

}  // namespace

void bind_record_frames(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  bind_types(m);
  m.def(
      "skip_frames",
      [](BytesIn input, const FrameLayout& layout, std::size_t max_frames) {
        return skip_frames(bytes_of(input), layout, max_frames);
      },
      "input"_a.noconvert(), "layout"_a, "max_frames"_a, Release());
  m.def(
      "decode_frames",
      [](BytesIn input, const FrameLayout& layout, BytesOut payloads, IdsOut row_splits) {
        const FrameOutput output{.payloads = std::as_writable_bytes(as_span(payloads)),
                                 .row_splits = as_span(row_splits)};
        const std::size_t room = as_span(row_splits).empty() ? 0 : as_span(row_splits).size() - 1;
        return decode_frames(bytes_of(input), layout, room, output);
      },
      "input"_a.noconvert(), "layout"_a, "payloads"_a.noconvert(), "row_splits"_a.noconvert(), Release());
  m.def("read_frames", &read, "file"_a, "buffer"_a.noconvert(), "begin"_a, "end"_a, "layout"_a, "max_frames"_a,
        "payloads"_a.noconvert(), "payload_bytes"_a, "row_splits"_a.noconvert(), "num_records"_a,
        "headers"_a.noconvert(), Release());
  m.def("encode_frames", &encode, "payloads"_a.noconvert(), "row_splits"_a.noconvert(), "headers"_a.noconvert(),
        "layout"_a, "out"_a.noconvert(), Release());
}

}  // namespace monolith::bind
