// Lines of separated values. A value in quotes may hold the delimiter, and "" for a quote; none holds a line feed.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "parse/row_format.h"

namespace monolith::parse {

namespace {

// What a number reads as that is not there: the list of pyarrow.
constexpr std::string_view kNulls[] = {"",     "#N/A", "#N/A N/A", "#NA",     "-1.#IND", "-1.#QNAN",
                                       "-NaN", "-nan", "1.#IND",   "1.#QNAN", "N/A",     "NA",
                                       "NULL", "NaN",  "n/a",      "nan",     "null"};
constexpr std::size_t kLongestNull = 8;
constexpr std::size_t kShownBytes = 40;

bool is_null(std::string_view text) {
  return text.size() <= kLongestNull && std::find(std::begin(kNulls), std::end(kNulls), text) != std::end(kNulls);
}

bool is_space(std::uint8_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(static_cast<std::uint8_t>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && is_space(static_cast<std::uint8_t>(text.back()))) text.remove_suffix(1);
  return text;
}

// For messages, which are text: other bytes than those of ASCII need not be any.
std::string shown(std::string_view text) {
  std::string result(text.substr(0, kShownBytes));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return "'" + result + (text.size() > kShownBytes ? "...'" : "'");
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse(const ColumnSpec& spec, Bytes cell, std::string_view text) {
  const char* const kind = spec.type == ValueType::kInt64 ? "int64" : "float32";
  fail(cell.begin, "column '" + spec.name + "' is " + kind + ", which " + shown(text) + " is not");
}

std::int64_t int64_of(const ColumnSpec& spec, Bytes cell, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse(spec, cell, text);
  return value;
}

float float_of(const ColumnSpec& spec, Bytes cell, std::string_view text) {
  const char* const end = text.data() + text.size();
  float value = 0;
  const auto plain = std::from_chars(text.data(), end, value);
  if (plain.ec == std::errc() && plain.ptr == end) [[likely]]
    return value;
  // What is too small for a float reads as its nearest; what is too large is refused.
  double wide = 0;
  const auto again = std::from_chars(text.data(), end, wide);
  if (plain.ec != std::errc::result_out_of_range || again.ptr != end) refuse(spec, cell, text);
  const bool is_tiny =
      again.ec != std::errc() ? text.find("e-") != text.npos || text.find("E-") != text.npos : std::abs(wide) < 1;
  if (!is_tiny) refuse(spec, cell, text);
  return again.ec != std::errc() ? 0.0F : static_cast<float>(wide);
}

// The first byte in [p, end) that is `wanted`, else end. May look at bytes up to `readable`.
const std::uint8_t* find(const std::uint8_t* p, const std::uint8_t* end, const std::uint8_t* readable,
                         std::uint8_t wanted) {
  if constexpr (std::endian::native == std::endian::little) {
    constexpr std::uint64_t kLow = 0x0101010101010101, kHigh = 0x8080808080808080;
    const std::uint64_t pattern = kLow * wanted;
    for (; p < end && readable - p >= 8; p += 8) {
      std::uint64_t word;
      std::memcpy(&word, p, sizeof word);
      word ^= pattern;
      const std::uint64_t hit = (word - kLow) & ~word & kHigh;  // The lowest bit that is set is that of the first zero.
      if (hit != 0) return std::min(p + std::countr_zero(hit) / 8, end);
    }
  }
  return std::find(std::min(p, end), end, wanted);
}

class CsvFormat final : public RowFormat {
 public:
  CsvFormat(std::span<const ColumnSpec> specs, const CsvShape& shape) : shape_(shape) {
    if (shape.list_delimiter.empty()) throw std::invalid_argument("a list_delimiter must not be empty");
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].source != Source::kCell || specs[i].number >= shape.num_cells) {
        throw std::invalid_argument("column '" + specs[i].name + "': a line has cells 0 to " +
                                    std::to_string(shape.num_cells) + " only");
      }
      wanted_.push_back({specs[i].number, i, specs[i].hashed && !specs[i].is_list});
    }
    std::stable_sort(wanted_.begin(), wanted_.end(), [](Wanted a, Wanted b) { return a.cell < b.cell; });
  }

  void read(Bytes line, RowReader& rows) const override {
    if (line.end != line.begin && line.end[-1] == '\n') --line.end;
    if (line.end != line.begin && line.end[-1] == '\r') --line.end;
    if (std::all_of(line.begin, line.end, is_space)) fail(line.begin, "");
    auto next = wanted_.begin();
    std::size_t num_cells = 0;
    std::string unquoted;
    for (const std::uint8_t* p = line.begin;; ++p) {
      const bool is_wanted = next != wanted_.end() && next->cell == num_cells;
      Bytes cell{p, p, line.readable};
      if (p != line.end && *p == '"') {
        unquoted.clear();
        p = read_quoted(line, p, unquoted);
        const auto* const text = reinterpret_cast<const std::uint8_t*>(unquoted.data());
        cell = {text, text + unquoted.size(), text + unquoted.size()};
      } else {
        p = cell.end = find(p, line.end, line.readable, shape_.delimiter);
      }
      if (is_wanted) {
        try {
          for (; next != wanted_.end() && next->cell == num_cells; ++next) {
            ColumnSink& sink = rows.sinks[next->column];
            if (!next->is_text) {
              take(cell, sink);
            } else if (cell.size() > 0) {
              sink.put_text(cell);
            }
          }
        } catch (WireError& error) {
          error.at = p;  // Of the record: a value in quotes was copied.
          throw;
        }
      }
      ++num_cells;
      if (p == line.end) break;
    }
    if (num_cells != shape_.num_cells) {
      fail(line.begin, "Expected " + std::to_string(shape_.num_cells) + " columns, got " + std::to_string(num_cells));
    }
  }

 private:
  struct Wanted {
    std::size_t cell;
    std::size_t column;
    bool is_text;  // one text, the most frequent of all
  };

  // Appends the value that begins with a quote at `p`; returns where it ends, at a delimiter or the end of the line.
  const std::uint8_t* read_quoted(Bytes line, const std::uint8_t* p, std::string& out) const {
    const std::uint8_t* const begin = p++;
    for (;; ++p) {
      const std::uint8_t* const quote = std::find(p, line.end, '"');
      if (quote == line.end) fail(begin, "a value begins with a quote that never ends");
      out.append(reinterpret_cast<const char*>(p), static_cast<std::size_t>(quote - p));
      p = quote + 1;
      if (p == line.end || *p != '"') break;
      out.push_back('"');
    }
    const std::uint8_t* const end = std::find(p, line.end, shape_.delimiter);
    out.append(reinterpret_cast<const char*>(p), static_cast<std::size_t>(end - p));
    return end;
  }

  void take(Bytes cell, ColumnSink& sink) const {
    const ColumnSpec& spec = sink.spec();
    sink.begin_feature();
    if (spec.is_list) {
      take_list(cell, sink);
    } else if (spec.type == ValueType::kBytes) {
      sink.add_string(cell);
    } else {
      const std::string_view text = trimmed(cell.text());
      if (!is_null(text)) {
        add_number(spec, cell, text, sink);
      } else if (!spec.optional) {
        fail(cell.begin,
             "column '" + spec.name + "' has no value; say what stands in for it with fill_missing={column: value}");
      }
    }
  }

  void take_list(Bytes cell, ColumnSink& sink) const {
    const ColumnSpec& spec = sink.spec();
    const std::string_view text = cell.text();
    std::int64_t count = 0;
    for (std::size_t begin = 0; !text.empty() && begin <= text.size(); ++count) {
      const std::size_t end = std::min(text.find(shape_.list_delimiter, begin), text.size());
      const Bytes item{cell.begin + begin, cell.begin + end, cell.readable};
      if (spec.hashed) {
        sink.add_string(item);
      } else {
        add_number(spec, cell, trimmed(item.text()), sink);
      }
      begin = end + shape_.list_delimiter.size();
    }
    if (spec.width != kRagged && count != spec.width) {
      fail(cell.begin, "column '" + spec.name + "' has " + std::to_string(count) + " values where the schema says " +
                           std::to_string(spec.width));
    }
  }

  static void add_number(const ColumnSpec& spec, Bytes cell, std::string_view text, ColumnSink& sink) {
    if (spec.type == ValueType::kInt64) {
      sink.add_int64(int64_of(spec, cell, text));
    } else {
      sink.add_float(float_of(spec, cell, text));
    }
  }

  CsvShape shape_;
  std::vector<Wanted> wanted_;  // by cell
};

}  // namespace

std::unique_ptr<RowFormat> make_csv_format(std::span<const ColumnSpec> specs, const CsvShape& shape) {
  return std::make_unique<CsvFormat>(specs, shape);
}

}  // namespace monolith::parse
