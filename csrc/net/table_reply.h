// How a table server reads the small arrays of a request and says what it did, or why not.
#pragma once

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "net/byte_stream.h"
#include "net/frame.h"

namespace monolith::net {

// A request that is well formed and cannot be carried out.
class Refused : public std::invalid_argument {
 public:
  Refused(const char* code, const std::string& words) : std::invalid_argument(words), code_(code) {}
  const char* code() const { return code_; }

 private:
  const char* code_;
};

[[noreturn]] inline void refuse(const std::string& words) { throw Refused("handler", words); }

inline Header reply_fields(const Header& request, Kind kind) {
  Header fields;
  fields.type = request.type;
  fields.kind = kind;
  fields.request_id = request.request_id;
  fields.plan_hash = request.plan_hash;
  return fields;
}

inline void send_error(const Header& request, std::string_view code, std::string_view words, ByteSink& sink) {
  const FrameLayout layout = lay_out(reply_fields(request, Kind::kError), {}, error_meta(code, words));
  sink.write(layout.head, false);
}

struct SmallArray {
  ArraySpec spec;
  std::span<const std::byte> bytes;
};

inline void send_arrays(const Header& request, std::span<const SmallArray> arrays, ByteSink& sink) {
  std::vector<ArraySpec> specs;
  for (const SmallArray& array : arrays) specs.push_back(array.spec);
  const FrameLayout layout = lay_out(reply_fields(request, Kind::kReply), specs);
  std::vector<std::byte> frame(layout.total_bytes);
  std::ranges::copy(layout.head, frame.begin());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::ranges::copy(arrays[i].bytes, frame.begin() + static_cast<std::ptrdiff_t>(layout.offsets[i]));
  }
  sink.write(frame, false);
}

inline std::int64_t single(const FrameView& request, std::string_view name) {
  const auto values = request.int64s(name);
  if (values.size() != 1) throw CorruptFrame("the array '" + std::string(name) + "' must have one element");
  return values.front();
}

}  // namespace monolith::net
