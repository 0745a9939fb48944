// JSON is read exactly, refused where it is none, and never read beyond its end; numbers come back as they were.
//
// Build with -DMONOLITH_SANITIZE=address: texts fill their buffers to the last byte.
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "ops/city_hash.h"
#include "parse/json_arrays.h"
#include "parse/json_document.h"
#include "parse/json_writer.h"

namespace {

using namespace monolith::parse;

// A text in memory of exactly its size, and the document on it.
struct Parsed {
  explicit Parsed(std::string_view text, const JsonLimits& limits = {})
      : bytes(new char[text.size()]),
        document((std::memcpy(bytes.get(), text.data(), text.size()), std::string_view(bytes.get(), text.size())),
                 limits) {}
  std::unique_ptr<char[]> bytes;
  JsonDocument document;
};

template <typename T>
std::vector<T> values_of(const JsonArray& array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

double real_of(const std::string& text) {
  const Parsed parsed("[" + text + "]");
  return values_of<double>(list_as_array(parsed.document, 0, JsonType::kFloat64))[0];
}

void test_values() {
  const Parsed parsed(R"( {"a": [1, -2, 0], "b": {"c": null}, "a": "last", "\u0041\n": [true, false]} )");
  const JsonDocument& document = parsed.document;
  CHECK_EQ(document[0].size, 4);
  CHECK_EQ(document.text_of(*document.member(0, "a")), "last");
  CHECK(document.member(0, "A\n").has_value());
  CHECK(!document.member(0, "x").has_value());
  CHECK_EQ(document.after(0), document.num_nodes());
  CHECK_EQ(document.shown(*document.member(0, "b")), "an object of 1");
}

void test_texts() {
  const Parsed parsed(R"(["\ud83d\ude00", "é€😀", "\"\\\/\b\f\n\r\t", ""])");
  const JsonDocument& document = parsed.document;
  CHECK_EQ(document.text_of(1), "😀");
  CHECK_EQ(document.text_of(2), "é€😀");
  CHECK_EQ(document.text_of(3), "\"\\/\b\f\n\r\t");
  CHECK_EQ(document.text_of(4), "");
  // Cut between two characters.
  std::string text = "\"";
  for (int i = 0; i < 100; ++i) text += "€";
  const Parsed parsed_long(text + "\"");
  CHECK_EQ(parsed_long.document.shown(0).size(), 13 * 3 + 5);
}

void test_refused() {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "[1",
                           "[1,",
                           "[1,]",
                           "[,1]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "[1 2]",
                           "1 2",
                           "nul",
                           "True",
                           "NaN",
                           "Infinity",
                           "-",
                           "-a",
                           "01",
                           "-01",
                           "1.",
                           ".5",
                           "1e",
                           "1e+",
                           "+1",
                           "0x1",
                           "\"",
                           "\"\\",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u123g\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud800\\n\"",
                           "\"\\ud800\\u0041\"",
                           "\"\n\"",
                           "\"\t\"",
                           "\"\xff\"",
                           "\"\xc0\xaf\"",
                           "\"\xe2\x82\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xf4\x90\x80\x80\"",
                           "\"\x80\"",
                           "'a'",
                           "//1",
                           "\v1"}) {
    CHECK_THROWS(Parsed(text), " at byte ");
  }
}

void test_limits() {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK_EQ(Parsed(nested(64)).document.num_nodes(), 64);
  CHECK_THROWS(Parsed(nested(65)), "nested too deeply");
  CHECK_THROWS(Parsed(std::string(1 << 20, '[')), "nested too deeply");
  CHECK_EQ(Parsed("[1,2,3]", {.max_values = 4}).document.num_nodes(), 4);
  CHECK_THROWS(Parsed("[1,2,3,4]", {.max_values = 4}), "more than 4 values");
}

void test_numbers() {
  CHECK_EQ(real_of("0.1"), 0.1);
  CHECK_EQ(real_of("-1.5e-3"), -1.5e-3);
  CHECK_EQ(real_of("123456789012345678901234567890"), 123456789012345678901234567890.0);
  CHECK_EQ(real_of("1e-400"), 0.0);
  CHECK_EQ(real_of("0." + std::string(400, '0') + "1"), 0.0);
  CHECK_EQ(real_of("0e99999999999999999999"), 0.0);
  CHECK_EQ(real_of("1e-99999999999999999999"), 0.0);
  for (const std::string& text : {std::string("1e400"), std::string("-1e400"), "1" + std::string(400, '0'),
                                  "1" + std::string(400, '0') + ".5", std::string("1e99999999999999999999")}) {
    CHECK_THROWS(real_of(text), "too large for FP64");
  }
  const Parsed edges("[9223372036854775807, -9223372036854775808]");
  CHECK(values_of<std::int64_t>(list_as_array(edges.document, 0, JsonType::kInt64)) ==
        std::vector<std::int64_t>({INT64_MAX, INT64_MIN}));
  CHECK_THROWS(list_as_array(edges.document, 0, JsonType::kInt32), "too large for INT32");
  CHECK_THROWS(list_as_array(Parsed("[9223372036854775808]").document, 0, JsonType::kInt64), "too large for INT64");
  CHECK_THROWS(list_as_array(Parsed("[1e39]").document, 0, JsonType::kFloat32), "too large for FP32");
  CHECK_THROWS(list_as_array(Parsed("[1.0]").document, 0, JsonType::kInt64), "must be INT64 numbers, got 1");
  CHECK_THROWS(list_as_array(Parsed("[1]").document, 0, JsonType::kBool), "must be BOOL values, got 1");
  CHECK_THROWS(list_as_array(Parsed("[null]").document, 0, JsonType::kInt64),
               "got null; send the number that stands in");
  CHECK(values_of<std::int64_t>(list_as_array(Parsed("[1, null]").document, 0, JsonType::kText, INT64_MIN))[1] ==
        INT64_MIN);
  CHECK(values_of<float>(list_as_array(Parsed("[null]").document, 0, JsonType::kFloat32, 0.5))[0] == 0.5F);
}

void test_shapes() {
  const Parsed parsed("[[[1,2],[3,4],[5,6]]]");
  const JsonArray array = list_as_array(parsed.document, 0, JsonType::kInt64);
  CHECK(array.shape == std::vector<std::size_t>({1, 3, 2}));
  CHECK(values_of<std::int64_t>(array) == std::vector<std::int64_t>({1, 2, 3, 4, 5, 6}));
  CHECK(list_as_array(Parsed("[[],[]]").document, 0, JsonType::kInt64).shape == std::vector<std::size_t>({2, 0}));
  for (const char* text : {"[[1],[2,3]]", "[[1],2]", "[1,[2]]", "[[1,2],[3]]", "[[],[1]]", "[[[]],[]]"}) {
    CHECK_THROWS(list_as_array(Parsed(text).document, 0, JsonType::kInt64), "nested evenly");
  }
  // The shape of the first would be far more than there is.
  std::string text = "[[0";
  for (int i = 0; i < 3000; ++i) text += ",0";
  text += "]";
  for (int i = 0; i < 3000; ++i) text += ",0";
  CHECK_THROWS(list_as_array(Parsed(text + "]").document, 0, JsonType::kInt64), "nested evenly");
}

void test_objects() {
  const std::vector<JsonColumn> columns{{"id", JsonType::kInt64}, {"w", JsonType::kFloat32}};
  const Parsed parsed(R"([{"id": 1, "w": [0.5]}, {"w": [2], "i\u0064": 7}])");
  const auto arrays = objects_as_arrays(parsed.document, 0, columns);
  CHECK(values_of<std::int64_t>(std::get<JsonArray>(arrays[0])) == std::vector<std::int64_t>({1, 7}));
  CHECK(values_of<float>(std::get<JsonArray>(arrays[1])) == std::vector<float>({0.5F, 2.0F}));
  CHECK(std::get<JsonArray>(arrays[1]).shape == std::vector<std::size_t>({2, 1}));
  for (const char* text :
       {R"([{"id": 1}])", R"([{"id": 1, "id": 2}])", R"([{"id": 1, "w": 1, "x": 1}])", "[1]", "[{}]"}) {
    CHECK_THROWS(objects_as_arrays(Parsed(text).document, 0, columns), "instance 0 ");
  }
  CHECK_THROWS(objects_as_arrays(Parsed(R"([{"id": 1, "w": 1}, {"id": 1.5, "w": 1}])").document, 0, columns),
               "input 'id': ");
}

void test_lists() {
  const JsonLists lists = list_as_lists(Parsed("[[1,2],[],[3]]").document, 0, JsonType::kInt64);
  CHECK(lists.lengths == std::vector<std::int64_t>({2, 0, 1}));
  CHECK(lists.values.shape == std::vector<std::size_t>({3}));
  CHECK(values_of<std::int64_t>(lists.values) == std::vector<std::int64_t>({1, 2, 3}));
  CHECK(list_as_lists(Parsed("[]").document, 0, JsonType::kInt64).lengths.empty());
  CHECK_THROWS(list_as_lists(Parsed("[[1],2]").document, 0, JsonType::kInt64), "got 2; put a single value in a list");
  CHECK_THROWS(list_as_lists(Parsed("[null]").document, 0, JsonType::kInt64), "got null; an example without values");
  const JsonLists missing = list_as_lists(Parsed("[null,[null]]").document, 0, JsonType::kInt64, std::int64_t{7});
  CHECK(missing.lengths == std::vector<std::int64_t>({0, 1}));
  CHECK(values_of<std::int64_t>(missing.values) == std::vector<std::int64_t>({7}));
  CHECK_THROWS(list_as_lists(Parsed("[[[1]]]").document, 0, JsonType::kInt64), "nested once too often");
  CHECK_THROWS(list_as_lists(Parsed("[[1.5]]").document, 0, JsonType::kInt64), "must be INT64 numbers, got 1.5");
  const std::vector<JsonColumn> columns{{"id", JsonType::kInt64}, {"tags", JsonType::kText, true}};
  const Parsed parsed(R"([{"id": 1, "tags": ["a", "\u0061"]}, {"tags": [], "id": 2}])");
  const auto arrays = objects_as_arrays(parsed.document, 0, columns);
  CHECK(std::get<JsonLists>(arrays[1]).lengths == std::vector<std::int64_t>({2, 0}));
  const auto ids = values_of<std::int64_t>(std::get<JsonLists>(arrays[1]).values);
  CHECK(ids[0] == ids[1]);
  CHECK_THROWS(objects_as_arrays(Parsed(R"([{"id": 1, "tags": "a"}])").document, 0, columns),
               "input 'tags': its data must be a list of texts per example, got \"a\"; put a single value in a list");
}

void test_texts_are_ids() {
  const std::string text = "caf\xc3\xa9";
  const auto hash = monolith::city_hash64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  const Parsed parsed("[\"caf\\u00e9\"]");
  const auto ids = values_of<std::int64_t>(list_as_array(parsed.document, 0, JsonType::kText));
  CHECK_EQ(ids[0], static_cast<std::int64_t>(hash));
  const auto same = values_of<std::int64_t>(list_as_array(Parsed("[-7, \"-7\"]").document, 0, JsonType::kText));
  CHECK(same[0] == same[1]);
  CHECK_THROWS(list_as_array(Parsed("[7.0]").document, 0, JsonType::kText), "must be texts, got 7");
  CHECK_THROWS(list_as_array(Parsed("[null]").document, 0, JsonType::kText), "must be texts, got null; where the");
  CHECK_THROWS(list_as_array(Parsed("[\"7\"]").document, 0, JsonType::kInt64),
               "must be INT64 numbers, got \"7\"; send a number without quotes");
}

void test_written_numbers_read_back() {
  std::mt19937_64 random(3);
  std::vector<float> floats;
  std::vector<double> doubles{0.0, -0.0, 1.0, 1e300, 5e-324, 0.1};
  while (floats.size() < 2000) {
    const auto bits = static_cast<std::uint32_t>(random());
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) floats.push_back(value);
    doubles.push_back(static_cast<double>(random()) / 1e10);
  }
  const std::string text = json_list({JsonType::kFloat32, floats.data(), {floats.size() / 2, 2}});
  const JsonArray read = list_as_array(Parsed(text).document, 0, JsonType::kFloat32);
  CHECK(read.shape == std::vector<std::size_t>({floats.size() / 2, 2}));
  CHECK(values_of<float>(read) == floats);
  const std::string more = json_list({JsonType::kFloat64, doubles.data(), {doubles.size()}});
  CHECK(values_of<double>(list_as_array(Parsed(more).document, 0, JsonType::kFloat64)) == doubles);
  CHECK_EQ(more.substr(0, 14), "[0.0,-0.0,1.0,");
  const std::vector<std::int64_t> ids{INT64_MIN, 0, INT64_MAX};
  CHECK_EQ(json_list({JsonType::kInt64, ids.data(), {3}}), "[-9223372036854775808,0,9223372036854775807]");
  const std::vector<JsonMember> members{{"{\"a\":", {JsonType::kInt64, ids.data(), {3}}},
                                        {",\"b\":", {JsonType::kFloat64, doubles.data(), {3, 1}}}};
  CHECK_EQ(json_objects(members),
           "[{\"a\":-9223372036854775808,\"b\":[0.0]},{\"a\":0,\"b\":[-0.0]},{\"a\":9223372036854775807,\"b\":[1.0]}]");
}

// Damaged texts are read whole or refused: with the address sanitizer nothing is read that is not theirs.
void test_damaged_texts() {
  const std::string whole =
      R"({"id":"7","inputs":[{"name":"u\u00e9\ud83d\ude00","shape":[2],"datatype":"INT64","data":[1,-2e3]},[[[],{}]],null,true]})";
  std::mt19937 random(11);
  int read = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string text = whole.substr(0, 1 + random() % whole.size());
    for (std::uint32_t count = random() % 4; count > 0; --count) {
      text[random() % text.size()] = random() % 2 == 0 ? static_cast<char>(random()) : whole[random() % whole.size()];
    }
    try {
      const Parsed parsed(text);
      ++read;
      for (std::size_t node = 0; node < parsed.document.num_nodes(); ++node) {
        CHECK(parsed.document.shown(node).size() < 64);
        const JsonKind kind = parsed.document[node].kind;
        if (kind == JsonKind::kText) (void)parsed.document.text_of(node);
        if (kind == JsonKind::kObject) (void)parsed.document.member(node, "inputs");
        if (kind == JsonKind::kList) (void)list_as_array(parsed.document, node, JsonType::kFloat32);
        if (kind == JsonKind::kList) (void)list_as_lists(parsed.document, node, JsonType::kText);
      }
    } catch (const std::invalid_argument&) {
      continue;
    }
  }
  CHECK(read > 0);
}

}  // namespace

int main() {
  test_values();
  test_texts();
  test_refused();
  test_limits();
  test_numbers();
  test_shapes();
  test_objects();
  test_lists();
  test_texts_are_ids();
  test_written_numbers_read_back();
  test_damaged_texts();
  return monolith::test::finish();
}
