// Memory for indexes and rows: zeroed, aligned to a cache line, on huge pages where it is large enough to matter.
//
// A random access to a table of gigabytes misses the address cache (TLB) with 4 KiB pages; 2 MiB pages made lookups a
// third faster (docs/decisions.md).
#pragma once

#include <cstddef>

namespace monolith {

// Throws std::bad_alloc. Free with the same size.
void* huge_allocate(std::size_t bytes);
void huge_free(void* memory, std::size_t bytes);

}  // namespace monolith
