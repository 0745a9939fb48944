// Admission filters, the touched key set and CRC-32C.
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

#include "bind/arrays.h"
#include "bind/module.h"
#include "filter/admission_filter.h"
#include "filter/probabilistic_filter.h"
#include "filter/sliding_hash_filter.h"
#include "filter/touched_key_set.h"
#include "io/crc32c.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

void filter_batch(AdmissionFilter& filter, const SlotThresholds& thresholds, IdsIn ids, BoolsOut filtered) {
  if (filtered.shape(0) != ids.shape(0)) {
    throw std::invalid_argument("filtered has " + std::to_string(filtered.shape(0)) + " elements for " +
                                std::to_string(ids.shape(0)) + " ids; make them equally long");
  }
  filter_ids(filter, thresholds, as_span(ids), {filtered.data(), filtered.shape(0)});
}

void bind_admission(nb::module_& m) {
  nb::class_<SlotThresholds>(m, "SlotThresholds")
      .def(nb::init<std::uint32_t, const std::map<std::int64_t, std::uint32_t>&>(), "default_threshold"_a,
           "by_slot"_a = std::map<std::int64_t, std::uint32_t>{})
      .def("threshold", &SlotThresholds::threshold, "id"_a)
      .def_prop_ro("max", &SlotThresholds::max);

  nb::class_<AdmissionFilter>(m, "AdmissionFilter")
      .def("should_be_filtered", &AdmissionFilter::should_be_filtered, "id"_a, "count"_a, "threshold"_a)
      .def("filter_ids", &filter_batch, "thresholds"_a, "ids"_a.noconvert(), "filtered"_a.noconvert(),
           nb::call_guard<nb::gil_scoped_release>())
      .def("check_thresholds", &check_thresholds, "thresholds"_a)
      .def_prop_ro("max_threshold", &AdmissionFilter::max_threshold)
      .def(
          "save", [](AdmissionFilter& f, const std::string& name) { with_os_errors([&] { f.save(name); }); },
          "basename"_a)
      .def("track_changes", &AdmissionFilter::track_changes, "on"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("freeze", &AdmissionFilter::freeze, "take_changes"_a = false, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "save_frozen_changes",
          [](AdmissionFilter& f, const std::string& name) { with_os_errors([&] { f.save_frozen_changes(name); }); },
          "name"_a)
      .def(
          "save_frozen",
          [](AdmissionFilter& f, const std::string& name) { with_os_errors([&] { f.save_frozen(name); }); },
          "basename"_a)
      .def("drop_frozen", &AdmissionFilter::drop_frozen, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "restore", [](AdmissionFilter& f, const std::string& name) { with_os_errors([&] { f.restore(name); }); },
          "basename"_a);

  nb::class_<NoFilter, AdmissionFilter>(m, "NoFilter").def(nb::init<>());

  nb::class_<ProbabilisticFilter, AdmissionFilter>(m, "ProbabilisticFilter")
      .def(nb::init<bool, std::uint64_t>(), "equal_probability"_a = false, "seed"_a = 0)
      .def_prop_ro("equal_probability", &ProbabilisticFilter::equal_probability)
      .def_prop_rw("num_draws", &ProbabilisticFilter::num_draws, &ProbabilisticFilter::set_num_draws);

  nb::class_<SlidingHashFilter, AdmissionFilter>(m, "SlidingHashFilter")
      .def(
          "__init__",
          [](SlidingHashFilter* self, std::size_t capacity, std::size_t split_num, std::uint32_t shard,
             std::uint32_t num_shards) {
            new (self) SlidingHashFilter(capacity, split_num, HashShard{shard, num_shards});
          },
          "capacity"_a, "split_num"_a, "shard"_a = 0, "num_shards"_a = 1)
      .def(
          "restore_changed",
          [](SlidingHashFilter& f, const std::string& name, const std::vector<std::string>& changes) {
            return with_os_errors([&] { return f.restore(name, changes); });
          },
          "basename"_a, "changes"_a,
          "Returns the version of older files, whose counts are dropped; 0 if there are none.")
      .def("add", &SlidingHashFilter::add, "id"_a, "count"_a = 1)
      .def("get", &SlidingHashFilter::get, "id"_a)
      .def("forget", &SlidingHashFilter::forget, "id"_a,
           "Lets the count of an id go, and those of ids that cannot be told from it; returns whether there was one.")
      .def_prop_ro("capacity", &SlidingHashFilter::capacity)
      .def_prop_ro("split_num", &SlidingHashFilter::split_num)
      .def_prop_ro("head", &SlidingHashFilter::head)
      .def_prop_ro("head_increment", &SlidingHashFilter::head_increment)
      .def_prop_ro("failure_count", &SlidingHashFilter::failure_count)
      .def_prop_ro("estimated_total_element", &SlidingHashFilter::estimated_total_element)
      .def(
          "equals", [](const SlidingHashFilter& a, const SlidingHashFilter& b) { return a == b; }, "other"_a,
          nb::call_guard<nb::gil_scoped_release>());
}

void bind_touched_keys(nb::module_& m) {
  nb::class_<TouchedKeySet>(m, "TouchedKeySet")
      .def(nb::init<std::size_t, std::size_t>(), "capacity"_a, "concurrency_level"_a)
      .def(
          "insert", [](TouchedKeySet& set, IdsIn ids) { return set.insert(as_span(ids)); }, "ids"_a.noconvert(),
          nb::call_guard<nb::gil_scoped_release>())
      .def("steal", [](TouchedKeySet& set) { return to_array(without_gil([&] { return set.steal(); })); })
      .def_prop_ro("capacity", &TouchedKeySet::capacity)
      .def_prop_ro("num_locks", &TouchedKeySet::num_locks)
      .def("__len__", &TouchedKeySet::size);
}

}  // namespace

void bind_filters(nb::module_& m) {
  bind_admission(m);
  bind_touched_keys(m);
  m.def(
      "join_filters",
      [](const std::vector<std::shared_ptr<SlidingHashFilter>>& parts) {
        const nb::gil_scoped_release release;
        std::vector<const SlidingHashFilter*> pointers;
        for (const auto& part : parts) pointers.push_back(part.get());
        return SlidingHashFilter::join(pointers);
      },
      "parts"_a, "The filter of all ids, from its parts in the order of their shards.");
  m.def(
      "crc32c",
      [](nb::bytes data, std::uint32_t initial) {
        const std::span<const std::byte> bytes(static_cast<const std::byte*>(data.data()), data.size());
        const nb::gil_scoped_release release;
        return crc32c(bytes, initial);
      },
      "data"_a, "initial"_a = 0, "The CRC-32C of `data`, continuing from `initial`.");
  m.def("mask_crc", &mask_crc, "crc"_a, "The masked form that TFRecord stores.");
}

}  // namespace monolith::bind
