// The parts of the record parser: varints, the reader's bounds, names, and records small enough to check by hand.
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "ops/parallel_for.h"
#include "parse/name_index.h"
#include "parse/record_parser.h"
#include "parse/varint.h"
#include "parse/wire_reader.h"
#include "record_bytes.h"

namespace {

using monolith::parse::Bytes;
using monolith::parse::ColumnSpec;
using monolith::parse::decode_varint;
using monolith::parse::Format;
using monolith::parse::kRagged;
using monolith::parse::NameHints;
using monolith::parse::NameIndex;
using monolith::parse::ParsedBatch;
using monolith::parse::RecordParser;
using monolith::parse::Source;
using monolith::parse::ValueType;
using monolith::parse::WireError;
using monolith::parse::WireReader;
using monolith::test::Message;
using monolith::test::named;

// Every bit length, with bytes behind the varint to look at and without.
void test_varints() {
  for (unsigned bits = 0; bits <= 64; ++bits) {
    const std::uint64_t value = bits == 0 ? 0 : std::numeric_limits<std::uint64_t>::max() >> (64 - bits);
    std::vector<std::uint8_t> bytes;
    for (std::uint64_t rest = value;; rest >>= 7) {
      bytes.push_back(static_cast<std::uint8_t>(rest < 0x80 ? rest : rest | 0x80));
      if (rest < 0x80) break;
    }
    const std::size_t size = bytes.size();
    for (const std::size_t behind : {0, 1, 20}) {
      bytes.resize(size + behind, 0xff);
      const std::uint8_t* const begin = bytes.data();
      std::uint64_t read = ~value;
      CHECK(decode_varint(begin, begin + size, begin + bytes.size(), read) == begin + size);
      CHECK_EQ(read, value);
      CHECK(decode_varint(begin, begin + size - 1, begin + bytes.size(), read) == nullptr);
    }
  }
  const std::vector<std::uint8_t> endless(20, 0x80);
  std::uint64_t read = 0;
  for (const std::size_t size : {9, 10, 11, 20}) {
    CHECK(decode_varint(endless.data(), endless.data() + size, endless.data() + size, read) == nullptr);
  }
}

std::string error_of(const std::string& message) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(message.data());
  try {
    WireReader reader(Bytes{begin, begin + message.size(), begin + message.size()});
    while (!reader.done()) reader.skip(reader.tag());
  } catch (const WireError& error) {
    return std::to_string(error.at - begin) + ": " + error.text;
  }
  return "";
}

void test_reader_stays_inside() {
  CHECK_EQ(error_of(Message().varint(1, 300).fixed32(2, 1).fixed64(3, 1).bytes(4, "abc").str()), std::string());
  CHECK_EQ(error_of(std::string("\x0d\x01\x02\x03")), std::string("1: expected 4 bytes"));
  CHECK_EQ(error_of(std::string("\x09\x01\x02\x03")), std::string("1: expected 8 bytes"));
  CHECK_EQ(error_of(std::string("\x0a\x05"
                                "ab")),
           std::string("1: expected 5 bytes of content, 2 are left"));
  CHECK_EQ(error_of(std::string("\x0c")),
           std::string("1: expected a field, found the end of a group or an unknown wire type"));
  CHECK_EQ(error_of(std::string("\x0b\x13\x14\x0c")), std::string());
}

void test_names() {
  NameIndex index;
  std::vector<std::string> names;
  for (int i = 0; i < 500; ++i) names.push_back(std::string(static_cast<std::size_t>(i % 40), 'n') + std::to_string(i));
  CHECK_EQ(index.find("absent"), NameIndex::kNone);
  for (int i = 0; i < 500; ++i) index.add(names[static_cast<std::size_t>(i)], i);
  index.add(names[7], 1000);
  NameHints hints(index);
  for (int round = 0; round < 3; ++round) {
    hints.begin_record();
    for (int i = 0; i < 500; ++i) CHECK_EQ(hints.find(names[static_cast<std::size_t>(i)]), i);
    CHECK_EQ(hints.find("absent"), NameIndex::kNone);
    hints.begin_record();
    for (int i = 499; i >= 0; --i) CHECK_EQ(hints.find(names[static_cast<std::size_t>(i)]), i);
  }
  CHECK_EQ(index.find(""), NameIndex::kNone);
}

// A batch that is split among threads comes together in order, damaged records left out.
void test_many_threads() {
  const RecordParser parser(Format::kTfExample,
                            {
                                {.name = "a", .source = Source::kFeature, .type = ValueType::kInt64, .width = 1},
                                {.name = "b", .source = Source::kFeature, .type = ValueType::kInt64, .width = kRagged},
                            });
  std::string data;
  std::vector<std::int64_t> splits{0};
  constexpr std::size_t kNumRecords = 3000;
  for (std::size_t i = 0; i < kNumRecords; ++i) {
    const std::vector<std::uint64_t> values(i % 4, i);
    Message features;
    features.message(1, named("a", 3, Message().packed_varints(1, {i})));
    features.message(1, named("b", 3, Message().packed_varints(1, values)));
    data += Message().message(1, features).str();
    if (i % 100 == 99) data += '\xff';
    splits.push_back(static_cast<std::int64_t>(data.size()));
  }
  for (const int threads : {1, 4}) {
    monolith::set_num_threads(threads);
    const ParsedBatch batch = parser.parse({{reinterpret_cast<const std::uint8_t*>(data.data()), data.size()}, splits});
    CHECK_EQ(batch.num_rows, kNumRecords - 30);
    CHECK_EQ(batch.bad.size(), 30);
    const auto* a = reinterpret_cast<const std::int64_t*>(batch.columns[0].fixed.data());
    const auto* b = batch.columns[1].values.as<std::int64_t>();
    const auto* b_splits = batch.columns[1].row_splits.as<std::int64_t>();
    for (std::size_t i = 0, row = 0; i < kNumRecords; ++i) {
      if (i % 100 == 99) {
        CHECK_EQ(batch.bad[i / 100].record, i);
        continue;
      }
      CHECK_EQ(a[row], i);
      CHECK_EQ(b_splits[row + 1] - b_splits[row], i % 4);
      if (i % 4 != 0) CHECK_EQ(b[b_splits[row]], i);
      ++row;
    }
  }
  monolith::set_num_threads(0);
}

}  // namespace

int main() {
  test_varints();
  test_reader_stays_inside();
  test_names();
  test_many_threads();
  return monolith::test::finish();
}
