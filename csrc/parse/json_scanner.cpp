#include "parse/json_scanner.h"

#include <charconv>
#include <limits>
#include <stdexcept>
#include <system_error>

namespace monolith::parse {

namespace {

constexpr std::uint32_t kFirstHigh = 0xD800, kFirstLow = 0xDC00, kAfterLow = 0xE000;

std::uint32_t hex_value(std::string_view four) {
  std::uint32_t value = 0;
  std::from_chars(four.data(), four.data() + 4, value, 16);
  return value;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

// What a real number is that no double is near to: from_chars does not say whether it is too large or too small.
double out_of_range(std::string_view number) {
  const bool negative = number.front() == '-';
  if (negative) number.remove_prefix(1);
  const std::size_t mark = number.find_first_of("eE");
  const std::string_view mantissa = number.substr(0, mark);
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  const std::size_t first = mantissa.find_first_of("123456789");
  std::int64_t exponent = 0;
  if (mark != std::string_view::npos) {
    std::string_view digits = number.substr(mark + 1);
    if (digits.front() == '+') digits.remove_prefix(1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (error != std::errc{}) return digits.front() == '-' ? 0.0 : std::numeric_limits<double>::infinity();
  }
  const auto order = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  // Far from zero on either side: where exactly the border is does not matter.
  const double size = exponent > -order ? std::numeric_limits<double>::infinity() : 0.0;
  return negative ? -size : size;
}

}  // namespace

void JsonScanner::fail(std::string_view reason) const {
  throw std::invalid_argument(std::string(reason) + " at byte " + std::to_string(place_));
}

JsonNode JsonScanner::word() {
  for (const auto& [word, kind] :
       {std::pair{std::string_view("null"), JsonKind::kNull}, std::pair{std::string_view("false"), JsonKind::kFalse},
        std::pair{std::string_view("true"), JsonKind::kTrue}}) {
    if (text_.substr(place_, word.size()) == word) {
      place_ += word.size();
      JsonNode node;
      node.kind = kind;
      return node;
    }
  }
  fail("a value is expected");
}

void JsonScanner::digits() {
  if (!is_digit(peek())) fail("a digit is expected");
  while (is_digit(peek())) ++place_;
}

JsonNode JsonScanner::number() {
  const std::size_t begin = place_;
  take('-');
  if (!take('0')) digits();
  if (is_digit(peek())) fail("a number must not begin with 0");
  bool is_real = false;
  if (take('.')) {
    is_real = true;
    digits();
  }
  if (peek() == 'e' || peek() == 'E') {
    is_real = true;
    ++place_;
    if (!take('+')) take('-');
    digits();
  }
  const char* const first = text_.data() + begin;
  const char* const last = text_.data() + place_;
  JsonNode node;
  if (!is_real) {
    node.kind = JsonKind::kInteger;
    if (std::from_chars(first, last, node.integer).ec == std::errc{}) return node;
  }
  node.kind = is_real ? JsonKind::kReal : JsonKind::kLargeInteger;
  double value = 0;
  if (std::from_chars(first, last, value).ec != std::errc{}) value = out_of_range({first, last});
  node.real = value;
  return node;
}

JsonNode JsonScanner::text() {
  if (!take('"')) fail("a text is expected");
  JsonNode node;
  node.kind = JsonKind::kText;
  node.begin = place_;
  while (!at_end()) {
    const auto byte = static_cast<unsigned char>(text_[place_]);
    if (byte == '"') {
      node.size = static_cast<std::uint32_t>(place_ - node.begin);
      ++place_;
      return node;
    }
    if (byte == '\\') {
      node.has_escapes = true;
      escape();
    } else if (byte < 0x20) {
      fail("a text has a control character");
    } else if (byte < 0x80) {
      ++place_;
    } else {
      multi_byte();
    }
  }
  fail("a text does not end");
}

void JsonScanner::escape() {
  ++place_;
  if (std::string_view("\"\\/bfnrt").find(peek()) != std::string_view::npos && !at_end()) {
    ++place_;
    return;
  }
  if (!take('u')) fail("an unknown escape");
  const std::uint32_t unit = code_unit();
  if (unit < kFirstHigh || unit >= kAfterLow) return;
  // Half of a character is no text: it could not be written down again.
  if (unit >= kFirstLow || !take('\\') || !take('u')) fail("half of a surrogate pair");
  const std::uint32_t low = code_unit();
  if (low < kFirstLow || low >= kAfterLow) fail("half of a surrogate pair");
}

std::uint32_t JsonScanner::code_unit() {
  const std::string_view four = text_.substr(place_, 4);
  if (four.size() < 4 || four.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
    fail("four hexadecimal digits are expected");
  }
  place_ += 4;
  return hex_value(four);
}

// One character of two to four bytes, none of them longer than it must be.
void JsonScanner::multi_byte() {
  const auto lead = static_cast<unsigned char>(text_[place_]);
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text_.size() - place_ < size) fail("the text is not UTF-8");
  std::uint32_t code = lead & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text_[place_ + i]);
    if ((byte & 0xC0U) != 0x80) fail("the text is not UTF-8");
    code = code << 6 | (byte & 0x3FU);
  }
  const bool too_long = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  if (too_long || code > 0x10FFFF || (code >= kFirstHigh && code < kAfterLow)) fail("the text is not UTF-8");
  place_ += size;
}

std::string unescaped(std::string_view source) {
  static constexpr std::string_view kNames = "bfnrt", kCharacters = "\b\f\n\r\t";
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\\') {
      out.push_back(source[i]);
      continue;
    }
    const char name = source[++i];
    if (name != 'u') {
      const std::size_t number = kNames.find(name);
      out.push_back(number == std::string_view::npos ? name : kCharacters[number]);
      continue;
    }
    std::uint32_t code = hex_value(source.substr(i + 1, 4));
    i += 4;
    if (code >= kFirstHigh && code < kFirstLow) {
      const std::uint32_t low = hex_value(source.substr(i + 3, 4));
      code = 0x10000 + ((code - kFirstHigh) << 10) + (low - kFirstLow);
      i += 6;
    }
    append_utf8(out, code);
  }
  return out;
}

}  // namespace monolith::parse
