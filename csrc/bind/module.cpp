#include "bind/module.h"

NB_MODULE(native, m) {
  using namespace monolith::bind;
  m.doc() = "The compiled core of Monolith: tables, row optimizers, filters, ragged and layout primitives.";
  // Objects that outlive the interpreter are no leak worth a message to users.
  nb::set_leak_warnings(false);
  bind_build(m);
  bind_filters(m);
  bind_tables(m);
  bind_table_files(m);
  bind_optim(m);
  bind_bounds(m);
  bind_ops(m);
  bind_parse(m);
  bind_json(m);
  bind_record_frames(m);
  bind_net(m);
}
