// Hashes of values and byte strings.
#include <nanobind/stl/vector.h>

#include "bind/arrays.h"
#include "bind/ops.h"
#include "ops/city_hash.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

std::uint64_t hash_bytes(const nb::bytes& bytes) {
  return city_hash64({reinterpret_cast<const std::uint8_t*>(bytes.c_str()), bytes.size()});
}

}  // namespace

void bind_hashing(nb::module_& m) {
  nb::class_<TextDictionary>(m, "TextDictionary",
                             "Texts that became ids; the way in is monolith.features.kept_strings.")
      .def(nb::init<std::size_t>(), "max_texts"_a)
      .def("__len__", &TextDictionary::size)
      .def(
          "add_known",
          [](TextDictionary& self, Flat<const std::uint8_t> bytes, Ids row_splits) {
            self.add_known(span_of(bytes), span_of(row_splits));
          },
          "bytes"_a.noconvert(), "row_splits"_a.noconvert(), Release(), "Takes texts that are written already.")
      .def(
          "take_new",
          [](TextDictionary& self) {
            const TextDictionary::Texts taken = self.take_new();
            return nb::make_tuple(nb::bytes(taken.bytes.data(), taken.bytes.size()), taken.ends);
          },
          "Returns the texts noted since the last call, end to end, and the places where they end.");
  // One short string: shorter than letting go of the GIL takes.
  m.def("city_hash64", &hash_bytes, "bytes"_a);
  m.def(
      "city_hash64_values",
      [](Ids values, Flat<std::int64_t> out) { city_hash64_values(span_of(values), span_of(out)); },
      "values"_a.noconvert(), "out"_a.noconvert(), Release());
  m.def(
      "city_hash64_rows",
      [](Flat<const std::uint8_t> bytes, Ids row_splits, Flat<std::int64_t> out, TextDictionary* texts) {
        city_hash64_rows(span_of(bytes), span_of(row_splits), span_of(out), texts);
      },
      "bytes"_a.noconvert(), "row_splits"_a.noconvert(), "out"_a.noconvert(), "texts"_a.none() = nb::none(), Release());
  m.def(
      "city_hash64_prefixed",
      [](Flat<const std::uint8_t> bytes) {
        return to_array(without_gil([&] { return city_hash64_prefixed(span_of(bytes)); }));
      },
      "bytes"_a.noconvert(), "Hashes byte strings, each after its length in four little-endian bytes.");
}

}  // namespace monolith::bind
