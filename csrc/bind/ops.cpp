// Ragged arrays, pooling and id routing.
#include "bind/ops.h"

namespace monolith::bind {

void bind_ops(nb::module_& m) {
  bind_ragged(m);
  bind_pooling(m);
  bind_routing(m);
}

}  // namespace monolith::bind
