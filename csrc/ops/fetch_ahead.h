// Fetching memory before it is needed.
#pragma once

#include <cstddef>

namespace monolith {

// Which cache random accesses are fetched into. An Intel core waits for at most 16 lines on their way to its first
// cache, and for 48 on their way to its second. AMD's wait for as many in either, and fetch into the first faster.
enum class FetchInto { kFirstCache, kSecondCache };

// The faster one here.
FetchInto fetch_into();

// Inlined always: to GCC a function that only fetches does nothing, and a call of it is left out.
[[gnu::always_inline]] inline void fetch_line(const void* address, FetchInto into) {
  if (into == FetchInto::kSecondCache) {
    __builtin_prefetch(address, 0, 2);
  } else {
    __builtin_prefetch(address);
  }
}

[[gnu::always_inline]] inline void fetch_lines(const void* begin, std::size_t bytes, FetchInto into) {
  const char* const address = static_cast<const char*>(begin);
  for (std::size_t i = 0; i < bytes; i += 64) fetch_line(address + i, into);
}

}  // namespace monolith
