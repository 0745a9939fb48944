// Where the lines of a text end.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "parse/value_buffer.h"

namespace monolith::parse {

// The place behind every line feed, int64.
inline ValueBuffer line_ends(std::span<const std::uint8_t> text) {
  ValueBuffer ends;
  const std::uint8_t* p = text.data();
  const std::uint8_t* const end = p + text.size();
  while (p != end) {
    p = static_cast<const std::uint8_t*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)));
    if (p == nullptr) break;
    ++p;
    *ends.room<std::int64_t>(1) = p - text.data();
    ends.commit<std::int64_t>(1);
  }
  return ends;
}

}  // namespace monolith::parse
