#include "bind/module.h"

NB_MODULE(native, m) {
  using namespace monolith::bind;
  m.doc() = "The compiled core of Monolith: tables, row optimizers, filters, ragged and layout primitives.";
  bind_build(m);
  bind_ops(m);
}
