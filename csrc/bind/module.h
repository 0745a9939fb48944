// Each file of this folder binds one part of the core; module.cpp calls them all.
#pragma once

#include <nanobind/nanobind.h>

namespace monolith::bind {

namespace nb = nanobind;

void bind_build(nb::module_& m);
void bind_ops(nb::module_& m);

}  // namespace monolith::bind
