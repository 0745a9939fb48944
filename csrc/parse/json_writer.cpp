#include "parse/json_writer.h"

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <type_traits>

namespace monolith::parse {

namespace {

constexpr std::size_t kMostCharacters = 32;  // of one number
constexpr std::size_t kUsualCharacters = 12;

template <typename T>
void append(std::string& out, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else {
    char text[kMostCharacters];
    const std::string_view digits(text, std::to_chars(text, text + sizeof text, value).ptr - text);
    out += digits;
    // 1.0 stays a real number for readers that tell them from integers.
    if (std::is_floating_point_v<T> && digits.find_first_of(".e") == std::string_view::npos) out += ".0";
  }
}

// Writes the next values of an array, row by row.
class RowWriter {
 public:
  explicit RowWriter(const JsonValues& values) : values_(values) {}

  // A single value if `depth` is the number of dimensions, else a list.
  void write(std::string& out, std::size_t depth) {
    switch (values_.type) {
      case JsonType::kInt64:
      case JsonType::kText:  // as ids
        return write_as<std::int64_t>(out, depth);
      case JsonType::kInt32:
        return write_as<std::int32_t>(out, depth);
      case JsonType::kFloat32:
        return write_as<float>(out, depth);
      case JsonType::kFloat64:
        return write_as<double>(out, depth);
      case JsonType::kBool:
        return write_as<bool>(out, depth);
    }
  }

 private:
  template <typename T>
  void write_as(std::string& out, std::size_t depth) {
    if (depth == values_.shape.size()) return append(out, static_cast<const T*>(values_.data)[next_++]);
    out += '[';
    for (std::size_t i = 0; i < values_.shape[depth]; ++i) {
      if (i > 0) out += ',';
      write_as<T>(out, depth + 1);
    }
    out += ']';
  }

  const JsonValues& values_;
  std::size_t next_ = 0;
};

std::size_t size_of(const JsonValues& values) {
  std::size_t size = 1;
  for (const std::size_t one : values.shape) size *= one;
  return size;
}

}  // namespace

std::string json_list(const JsonValues& values) {
  std::string out;
  out.reserve(size_of(values) * kUsualCharacters + 2);
  RowWriter(values).write(out, 0);
  return out;
}

std::string json_objects(std::span<const JsonMember> members) {
  std::vector<RowWriter> writers;
  const std::size_t num_rows = members.empty() ? 0 : members[0].values.shape.at(0);
  for (const JsonMember& member : members) {
    if (member.values.shape.at(0) != num_rows) throw std::invalid_argument("outputs differ in their number of rows");
    writers.emplace_back(member.values);
  }
  std::string out = "[";
  for (std::size_t i = 0; i < num_rows; ++i) {
    if (i > 0) out += ',';
    for (std::size_t j = 0; j < members.size(); ++j) {
      out += members[j].prefix;
      writers[j].write(out, 1);
    }
    out += '}';
  }
  return out += ']';
}

}  // namespace monolith::parse
