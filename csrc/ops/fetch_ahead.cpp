#include "ops/fetch_ahead.h"

namespace monolith {

FetchInto fetch_into() {
#if defined(__x86_64__)
  static const bool is_intel = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("intel") != 0;
  }();
  if (is_intel) return FetchInto::kSecondCache;
#endif
  return FetchInto::kFirstCache;
}

}  // namespace monolith
