// Ragged arrays, pooling, id routing, hashing and layouts.
#include "bind/ops.h"

namespace monolith::bind {

void bind_ops(nb::module_& m) {
  bind_ragged(m);
  bind_pooling(m);
  bind_routing(m);
  bind_hashing(m);
  bind_fused_layout(m);
  bind_interaction(m);
}

}  // namespace monolith::bind
