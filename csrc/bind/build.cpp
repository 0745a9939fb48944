// What this build is, and the switches that concern all of it.
#include <nanobind/stl/string.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "bind/module.h"
#include "ops/parallel_for.h"
#include "ops/simd.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

void release_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace

void bind_build(nb::module_& m) {
  m.def("simd_level", [] { return std::string(simd_level_name(simd_level())); });
  m.def("best_simd_level", [] { return std::string(simd_level_name(best_simd_level())); });
  m.def(
      "set_simd_level", [](const std::string& name) { set_simd_level(simd_level_from_name(name)); }, "name"_a,
      "Forces scalar, avx2 or avx512 for tables and ops made from now on.");
  m.def("num_threads", &num_threads);
  m.def(
      "work_alone", [] { work_alone(); },
      "The calling thread uses one core from now on; for threads in the background.");
  m.def("set_num_threads", &set_num_threads, "count"_a, "0 follows OpenMP's setting, which torch shares.");
  m.def("release_free_memory", &release_free_memory, nb::call_guard<nb::gil_scoped_release>(),
        "Gives back to the system what this process has freed: glibc keeps it, in every thread that needed it.");
}

}  // namespace monolith::bind
