// Ragged arrays, pooling, id routing and hashing.
#include "bind/ops.h"

namespace monolith::bind {

void bind_ops(nb::module_& m) {
  bind_ragged(m);
  bind_pooling(m);
  bind_routing(m);
  bind_hashing(m);
}

}  // namespace monolith::bind
