// Each file of this folder binds one part of the core; module.cpp calls them all.
#pragma once

#include <nanobind/nanobind.h>

namespace monolith::bind {

namespace nb = nanobind;

void bind_build(nb::module_& m);
void bind_tables(nb::module_& m);
void bind_table_files(nb::module_& m);
void bind_filters(nb::module_& m);
void bind_optim(nb::module_& m);
void bind_bounds(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_parse(nb::module_& m);
void bind_json(nb::module_& m);
void bind_record_frames(nb::module_& m);
void bind_net(nb::module_& m);

}  // namespace monolith::bind
