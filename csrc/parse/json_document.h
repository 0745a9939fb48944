// JSON from anybody: read in one pass, with memory that is known before, and without an object per value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace monolith::parse {

enum class JsonKind : std::uint8_t {
  kNull,
  kFalse,
  kTrue,
  kInteger,       // fits 64 bits
  kLargeInteger,  // does not; its value is a double
  kReal,
  kText,
  kList,
  kObject,
};

struct JsonNode {
  JsonKind kind = JsonKind::kNull;
  bool has_escapes = false;  // of a text
  std::uint32_t size = 0;    // of a text its bytes between the quotes, of a list or object its members
  union {
    std::int64_t integer = 0;
    double real;
    std::uint64_t begin;  // of a text: where in the document its first byte is
    std::uint64_t end;    // of a list or object: the node after its last
  };
};
static_assert(sizeof(JsonNode) == 16);

struct JsonLimits {
  std::size_t max_depth = 64;
  std::size_t max_values = std::size_t{1} << 23;  // 128 MiB of nodes
};

// A parsed text. Nodes lie in the order of the text: a list is followed by its members, an object by name, value, name,
// value. The text must outlive the document.
class JsonDocument {
 public:
  // Throws std::invalid_argument, which says what is wrong at which byte, for anything but one JSON value in UTF-8.
  JsonDocument(std::string_view text, const JsonLimits& limits);

  const JsonNode& operator[](std::size_t node) const { return nodes_[node]; }
  std::size_t num_nodes() const { return nodes_.size(); }

  // The node after this one and all that is in it.
  std::size_t after(std::size_t node) const {
    const JsonNode& found = nodes_[node];
    return found.kind >= JsonKind::kList ? found.end : node + 1;
  }

  // The value of an object's member; of two with one name the last.
  std::optional<std::size_t> member(std::size_t object, std::string_view name) const;

  // The characters of a text, which is valid UTF-8.
  std::string text_of(std::size_t node) const;
  bool equals(std::size_t node, std::string_view text) const;

  // A value for an error message: never more than a few words.
  std::string shown(std::size_t node) const;

 private:
  std::string_view source_of(const JsonNode& text) const { return text_.substr(text.begin, text.size); }

  std::string_view text_;
  std::vector<JsonNode> nodes_;
};

}  // namespace monolith::parse
