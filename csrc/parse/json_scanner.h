// Reads JSON's texts and numbers; json_document.cpp puts them together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "parse/json_document.h"

namespace monolith::parse {

// Walks over one text. Every function throws std::invalid_argument for what is no JSON.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  bool at_end() const { return place_ == text_.size(); }
  std::size_t place() const { return place_; }
  // The next byte; at the end 0, which is no part of JSON outside texts.
  char peek() const { return place_ < text_.size() ? text_[place_] : '\0'; }
  void skip() { ++place_; }
  void skip_space() {
    while (place_ < text_.size() && is_space(text_[place_])) ++place_;
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++place_;
    return true;
  }

  JsonNode text();
  JsonNode number();
  // null, true or false.
  JsonNode word();

  [[noreturn]] void fail(std::string_view reason) const;

 private:
  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  void digits();
  void escape();
  std::uint32_t code_unit();
  void multi_byte();

  std::string_view text_;
  std::size_t place_ = 0;
};

// The characters of a text that has escapes; it must have been scanned before.
std::string unescaped(std::string_view source);

}  // namespace monolith::parse
