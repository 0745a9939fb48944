#include "parse/json_document.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "parse/json_scanner.h"

namespace monolith::parse {

namespace {

constexpr std::size_t kShownBytes = 40;

// No text has more nodes than this: each follows an opening bracket, a comma or a colon, but for the first.
std::size_t most_nodes(std::string_view text) {
  std::size_t count = 1;
  for (const char c : text) count += (c == ',') + (c == ':') + (c == '[') + (c == '{');
  return count;
}

// A list or object whose end has not come yet.
struct Open {
  std::size_t node;
  std::uint32_t num_members;
};

class Parser {
 public:
  Parser(std::string_view text, std::size_t max_depth, std::vector<JsonNode>& nodes)
      : scanner_(text), max_depth_(max_depth), nodes_(nodes) {}

  void run() {
    scanner_.skip_space();
    value();
    while (!open_.empty()) member();
    scanner_.skip_space();
    if (!scanner_.at_end()) scanner_.fail("something follows the value");
  }

 private:
  // Adds a value; of a list or object only its beginning.
  void value() {
    switch (scanner_.peek()) {
      case '{':
        return begin(JsonKind::kObject);
      case '[':
        return begin(JsonKind::kList);
      case '"':
        nodes_.push_back(scanner_.text());
        return;
      case '-':
      case '0':
      case '1':
      case '2':
      case '3':
      case '4':
      case '5':
      case '6':
      case '7':
      case '8':
      case '9':
        nodes_.push_back(scanner_.number());
        return;
      default:
        nodes_.push_back(scanner_.word());
    }
  }

  void begin(JsonKind kind) {
    if (open_.size() == max_depth_) {
      scanner_.fail("nested too deeply: more than " + std::to_string(max_depth_) + " lists and objects in each other");
    }
    scanner_.skip();
    open_.push_back({nodes_.size(), 0});
    JsonNode node;
    node.kind = kind;
    nodes_.push_back(node);
  }

  // Adds the next member of the innermost list or object, or ends it.
  void member() {
    const bool is_object = nodes_[open_.back().node].kind == JsonKind::kObject;
    scanner_.skip_space();
    if (scanner_.take(is_object ? '}' : ']')) return end();
    if (open_.back().num_members > 0) {
      if (!scanner_.take(',')) scanner_.fail(is_object ? "',' or '}' is expected" : "',' or ']' is expected");
      scanner_.skip_space();
    }
    ++open_.back().num_members;
    if (is_object) {
      nodes_.push_back(scanner_.text());
      scanner_.skip_space();
      if (!scanner_.take(':')) scanner_.fail("':' is expected");
      scanner_.skip_space();
    }
    value();
  }

  void end() {
    JsonNode& node = nodes_[open_.back().node];
    node.size = open_.back().num_members;
    node.end = nodes_.size();
    open_.pop_back();
  }

  JsonScanner scanner_;
  std::size_t max_depth_;
  std::vector<JsonNode>& nodes_;
  std::vector<Open> open_;
};

}  // namespace

JsonDocument::JsonDocument(std::string_view text, const JsonLimits& limits) : text_(text) {
  const std::size_t most = most_nodes(text);
  if (most > limits.max_values || text.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument("it has more than " + std::to_string(limits.max_values) + " values");
  }
  nodes_.reserve(most);
  Parser(text, limits.max_depth, nodes_).run();
}

std::optional<std::size_t> JsonDocument::member(std::size_t object, std::string_view name) const {
  std::optional<std::size_t> found;
  std::size_t node = object + 1;
  for (std::uint32_t i = 0; i < nodes_[object].size; ++i) {
    if (equals(node, name)) found = node + 1;
    node = after(node + 1);
  }
  return found;
}

std::string JsonDocument::text_of(std::size_t node) const {
  const std::string_view source = source_of(nodes_[node]);
  return nodes_[node].has_escapes ? unescaped(source) : std::string(source);
}

bool JsonDocument::equals(std::size_t node, std::string_view text) const {
  return nodes_[node].has_escapes ? text_of(node) == text : source_of(nodes_[node]) == text;
}

std::string JsonDocument::shown(std::size_t node) const {
  const JsonNode& value = nodes_[node];
  switch (value.kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kFalse:
      return "false";
    case JsonKind::kTrue:
      return "true";
    case JsonKind::kInteger:
      return std::to_string(value.integer);
    case JsonKind::kLargeInteger:
    case JsonKind::kReal: {
      char text[32];
      return {text, std::to_chars(text, text + sizeof text, value.real).ptr};
    }
    case JsonKind::kText: {
      // As it was sent, so that escapes stay escapes; cut where a character begins.
      std::string_view source = source_of(value);
      const bool is_cut = source.size() > kShownBytes;
      if (is_cut) {
        std::size_t size = kShownBytes;
        while ((static_cast<unsigned char>(source[size]) & 0xC0U) == 0x80) --size;
        source = source.substr(0, size);
      }
      std::string shown = "\"";
      shown += source;
      return shown += is_cut ? "...\"" : "\"";
    }
    case JsonKind::kList:
      return "a list of " + std::to_string(value.size);
    default:
      return "an object of " + std::to_string(value.size);
  }
}

}  // namespace monolith::parse
