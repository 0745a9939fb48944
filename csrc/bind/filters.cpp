// Admission filters, the touched key set and CRC-32C.
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <system_error>
#include <vector>

#include "bind/module.h"
#include "filter/admission_filter.h"
#include "filter/probabilistic_filter.h"
#include "filter/sliding_hash_filter.h"
#include "filter/touched_key_set.h"
#include "io/crc32c.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const std::int64_t> as_span(const Ids& ids) { return {ids.data(), ids.shape(0)}; }

// Runs without the GIL; what the system refused becomes an OSError of its errno, FileNotFoundError for ENOENT.
template <typename Work>
void with_os_errors(Work&& work) {
  std::error_code code;
  std::string what;
  {
    const nb::gil_scoped_release release;
    try {
      work();
      return;
    } catch (const std::system_error& error) {
      code = error.code();
      what = error.what();
    }
  }
  const nb::object arguments = nb::make_tuple(code.value(), what);
  PyErr_SetObject(PyExc_OSError, arguments.ptr());
  throw nb::python_error();
}

void filter_batch(AdmissionFilter& filter, const SlotThresholds& thresholds, Ids ids, Mask filtered) {
  if (filtered.shape(0) != ids.shape(0)) {
    throw std::invalid_argument("filtered has " + std::to_string(filtered.shape(0)) + " elements for " +
                                std::to_string(ids.shape(0)) + " ids; make them equally long");
  }
  filter_ids(filter, thresholds, as_span(ids), {filtered.data(), filtered.shape(0)});
}

// Hands the vector's memory to Python without a copy.
nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>> to_array(std::unique_ptr<std::vector<std::int64_t>> ids) {
  auto* raw = ids.release();
  const nb::capsule owner(raw, [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
  return {raw->data(), {raw->size()}, owner};
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
      .def(
          "restore", [](AdmissionFilter& f, const std::string& name) { with_os_errors([&] { f.restore(name); }); },
          "basename"_a);

  nb::class_<NoFilter, AdmissionFilter>(m, "NoFilter").def(nb::init<>());

  nb::class_<ProbabilisticFilter, AdmissionFilter>(m, "ProbabilisticFilter")
      .def(nb::init<bool, std::uint64_t>(), "equal_probability"_a = false, "seed"_a = 0)
      .def_prop_ro("equal_probability", &ProbabilisticFilter::equal_probability)
      .def_prop_rw("num_draws", &ProbabilisticFilter::num_draws, &ProbabilisticFilter::set_num_draws);

  nb::class_<SlidingHashFilter, AdmissionFilter>(m, "SlidingHashFilter")
      .def(nb::init<std::size_t, std::size_t>(), "capacity"_a, "split_num"_a)
      .def("add", &SlidingHashFilter::add, "id"_a, "count"_a = 1)
      .def("get", &SlidingHashFilter::get, "id"_a)
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
          "insert", [](TouchedKeySet& set, Ids ids) { return set.insert(as_span(ids)); }, "ids"_a.noconvert(),
          nb::call_guard<nb::gil_scoped_release>())
      .def("steal",
           [](TouchedKeySet& set) {
             auto ids = std::make_unique<std::vector<std::int64_t>>();
             {
               const nb::gil_scoped_release release;
               *ids = set.steal();
             }
             return to_array(std::move(ids));
           })
      .def_prop_ro("capacity", &TouchedKeySet::capacity)
      .def_prop_ro("num_locks", &TouchedKeySet::num_locks)
      .def("__len__", &TouchedKeySet::size);
}

}  // namespace

void bind_filters(nb::module_& m) {
  bind_admission(m);
  bind_touched_keys(m);
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
