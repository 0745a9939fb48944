// Damaged records of all formats: the parser must neither leave their bytes nor let them touch the rows beside them.
//
//   parse_fuzz_test [--seconds N] [--seed S]     without arguments a short run that is always the same
//
// Build with -DMONOLITH_SANITIZE=address: the records of a batch fill their buffer to the last byte.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "parse/record_parser.h"
#include "parse/tf_example_conversion.h"
#include "record_bytes.h"

namespace {

using monolith::parse::BadRecord;
using monolith::parse::Column;
using monolith::parse::ColumnSpec;
using monolith::parse::Format;
using monolith::parse::kRagged;
using monolith::parse::ParsedBatch;
using monolith::parse::RecordParser;
using monolith::parse::Source;
using monolith::parse::ValueType;
using monolith::test::Message;
using monolith::test::named;
using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) { return random() % bound; }

std::vector<std::uint64_t> some_ints(Random& random) {
  std::vector<std::uint64_t> values(below(random, 5));
  for (std::uint64_t& value : values) value = random() >> below(random, 64);
  return values;
}

std::vector<float> some_floats(Random& random) { return std::vector<float>(below(random, 5), 0.5F); }

Message line_id(Random& random) {
  return Message()
      .fixed64(2, random())
      .varint(3, random())
      .packed_varints(6, some_ints(random))
      .fixed32(27, 0.5F)
      .varint(39, 7)
      .bytes(49, "user");
}

Message tf_example(Random& random) {
  Message features;
  features.message(1, named("ids", 3, Message().packed_varints(1, some_ints(random))));
  features.message(1, named("dense", 2, Message().packed(1, some_floats(random))));
  features.message(1, named("text", 1, Message().bytes(1, "words")));
  features.message(1, named("unused", 3, Message().packed_varints(1, some_ints(random))));
  return Message().message(1, features);
}

Message example(Random& random) {
  Message record;
  record.message(1, named("ids", 1, Message().packed(1, some_ints(random))));
  record.message(1, named("more", 2, Message().packed(1, some_ints(random))));
  record.message(1, named("dense", 3, Message().packed(1, some_floats(random))));
  record.message(1, named("text", 6, Message().bytes(1, "words")));
  return record.message(100, line_id(random)).packed(101, some_floats(random)).fixed32(102, -1);
}

Message example_batch(Random& random) {
  const std::size_t rows = 1 + below(random, 4);
  Message ids;
  Message line_ids;
  Message labels;
  ids.bytes(1, "ids");
  line_ids.bytes(1, "__LINE_ID__");
  labels.bytes(1, "__LABEL__");
  for (std::size_t i = 0; i < rows; ++i) {
    ids.message(2, Message().message(1, Message().packed(1, some_ints(random))));
    line_ids.message(2, Message().message(6, Message().message(1, line_id(random))));
    labels.message(2, Message().message(3, Message().packed(1, some_floats(random))));
  }
  Message shared;
  shared.bytes(1, "more").message(2, Message().message(2, Message().packed(1, some_ints(random)))).varint(3, 1);
  return Message().message(1, ids).message(1, shared).message(1, line_ids).message(1, labels).varint(3, rows);
}

Message instance(Random& random) {
  std::vector<std::uint64_t> fids = some_ints(random);
  for (std::uint64_t& fid : fids) fid = std::uint64_t{5} << 54 | fid >> 10;
  Message record;
  record.packed(1, fids).packed(3, some_floats(random)).fixed32(4, 2).message(5, line_id(random));
  record.message(9, Message().bytes(1, "ids").packed(2, some_ints(random)));
  record.message(9, Message().bytes(1, "dense").packed(3, some_floats(random)));
  record.message(9, Message().bytes(1, "text").bytes(5, "words"));
  return record;
}

template <Message (*make)(Random&)>
std::string bytes_of(Random& random) {
  return make(random).str();
}

std::string csv_line(Random& random) {
  std::string line;
  for (std::size_t n = below(random, 4); n > 0; --n) line += std::string(below(random, 20), 'a') + (n > 1 ? "|" : "");
  line += "," + std::to_string(below(random, 1000)) + "|-0.5,";
  line += below(random, 2) == 0 ? "\"a \"\"quote\"\", b\"" : std::string(below(random, 70), 'x');
  return line + "," + std::to_string(random()).substr(0, 18) + (below(random, 2) == 0 ? "\n" : "\r\n");
}

struct Subject {
  Format format;
  std::string (*make)(Random&);
  RecordParser parser;
};

std::vector<ColumnSpec> specs_of(Format format) {
  std::vector<ColumnSpec> specs{
      {.name = "ids", .source = Source::kFeature, .type = ValueType::kInt64, .width = kRagged},
      {.name = "dense", .source = Source::kFeature, .type = ValueType::kFloat32, .width = 3},
      {.name = "text", .source = Source::kFeature, .type = ValueType::kBytes, .width = kRagged},
      {.name = "more", .source = Source::kFeature, .type = ValueType::kInt64, .width = 2},
  };
  if (format == Format::kCsv) {
    return {{.name = "ids", .source = Source::kCell, .number = 0, .hashed = true, .is_list = true},
            {.name = "dense",
             .source = Source::kCell,
             .type = ValueType::kFloat32,
             .width = 2,
             .number = 1,
             .is_list = true},
            {.name = "text", .source = Source::kCell, .type = ValueType::kBytes, .number = 2},
            {.name = "more", .source = Source::kCell, .width = 1, .number = 3}};
  }
  if (format == Format::kTfExample) return specs;
  specs.push_back({.name = "label", .source = Source::kLabel, .type = ValueType::kFloat32, .width = 2});
  specs.push_back({.name = "weight", .source = Source::kInstanceWeight, .type = ValueType::kFloat32, .width = 1});
  specs.push_back({.name = "uid", .source = Source::kLineId, .type = ValueType::kInt64, .width = 1});
  specs.push_back({.name = "actions", .source = Source::kLineId, .type = ValueType::kInt64, .width = kRagged});
  specs.push_back({.name = "user_id", .source = Source::kLineId, .type = ValueType::kBytes, .width = kRagged});
  if (format == Format::kInstance) {
    specs.push_back({.name = "slot_5", .source = Source::kSlot, .type = ValueType::kInt64, .number = 5});
  }
  return specs;
}

// Changes a record in one of the ways in which bytes go bad.
void damage(std::string& record, Random& random) {
  const auto place = [&] { return record.empty() ? 0 : below(random, record.size()); };
  switch (below(random, 8)) {
    case 0:
      if (!record.empty()) record[place()] ^= static_cast<char>(1U << below(random, 8));
      break;
    case 1:
      if (!record.empty()) record[place()] = static_cast<char>(random());
      break;
    case 2:
      record.resize(place());
      break;
    case 3:  // a huge length or number
      record.replace(place(), 1,
                     below(random, 2) != 0 ? "\xff\xff\xff\xff\x07" : "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
      break;
    case 4:  // a part once more
      record.insert(place(), record.substr(place(), below(random, 20)));
      break;
    case 5:
      record.erase(place(), below(random, 8));
      break;
    case 6:  // groups inside each other
      record.insert(place(), std::string(below(random, 300), '\x0b'));
      break;
    default:  // nothing but noise
      record.assign(below(random, 60), '\0');
      for (char& byte : record) byte = static_cast<char>(random());
  }
}

ParsedBatch parse(const RecordParser& parser, const std::vector<std::string>& records) {
  std::string joined;
  std::vector<std::int64_t> splits{0};
  for (const std::string& record : records) splits.push_back(static_cast<std::int64_t>((joined += record).size()));
  // A heap block of exactly this size, so that the sanitizer sees the first byte too many.
  const std::unique_ptr<std::uint8_t[]> data(new std::uint8_t[joined.size()]);
  std::memcpy(data.get(), joined.data(), joined.size());
  return parser.parse({{data.get(), joined.size()}, splits});
}

std::size_t item_size(const ColumnSpec& spec) {
  return spec.type == ValueType::kInt64 ? 8 : spec.type == ValueType::kFloat32 ? 4 : 1;
}

bool is_ragged(const ColumnSpec& spec) { return spec.width == kRagged || spec.type == ValueType::kBytes; }

// The bytes of rows [first, last) of a column.
std::string rows_of(const ColumnSpec& spec, const Column& column, std::size_t first, std::size_t last) {
  std::size_t begin = first * static_cast<std::size_t>(spec.width);
  std::size_t end = last * static_cast<std::size_t>(spec.width);
  if (is_ragged(spec)) {
    begin = static_cast<std::size_t>(column.row_splits.as<std::int64_t>()[first]);
    end = static_cast<std::size_t>(column.row_splits.as<std::int64_t>()[last]);
  }
  const std::size_t size = item_size(spec);
  const std::uint8_t* const values = is_ragged(spec) ? column.values.data() : column.fixed.data();
  return {reinterpret_cast<const char*>(values) + begin * size, (end - begin) * size};
}

void check_shapes(const RecordParser& parser, const ParsedBatch& batch) {
  for (std::size_t i = 0; i < parser.specs().size(); ++i) {
    const ColumnSpec& spec = parser.specs()[i];
    const Column& column = batch.columns[i];
    if (!is_ragged(spec)) {
      CHECK_EQ(column.fixed.size(), batch.num_rows * static_cast<std::size_t>(spec.width) * item_size(spec));
      continue;
    }
    CHECK_EQ(column.row_splits.size(), (batch.num_rows + 1) * 8);
    const auto* splits = column.row_splits.as<std::int64_t>();
    CHECK_EQ(splits[0], 0);
    for (std::size_t row = 0; row < batch.num_rows; ++row) CHECK(splits[row] <= splits[row + 1]);
    CHECK_EQ(static_cast<std::size_t>(splits[batch.num_rows]) * item_size(spec), column.values.size());
  }
}

// A damaged record between two good ones: whatever becomes of it, the good ones read as if it were not there.
// Returns whether it was found to be bad.
bool try_once(const Subject& subject, Random& random) {
  const std::string first = subject.make(random);
  const std::string last = subject.make(random);
  std::string middle = subject.make(random);
  for (std::size_t n = 1 + below(random, 3); n > 0; --n) damage(middle, random);
  const ParsedBatch alone = parse(subject.parser, {first, last});
  const ParsedBatch batch = parse(subject.parser, {first, middle, last});
  CHECK_EQ(alone.bad.size(), 0);
  check_shapes(subject.parser, batch);
  for (const BadRecord& bad : batch.bad) {
    CHECK_EQ(bad.record, 1);
    CHECK(bad.offset <= middle.size());
    CHECK(!bad.text.empty() || subject.format == Format::kCsv);  // a blank line is bad for no reason
  }
  const std::size_t rows_of_first = parse(subject.parser, {first}).num_rows;
  const std::size_t rows_of_last = alone.num_rows - rows_of_first;
  for (std::size_t i = 0; i < subject.parser.specs().size(); ++i) {
    const ColumnSpec& spec = subject.parser.specs()[i];
    CHECK(rows_of(spec, alone.columns[i], 0, rows_of_first) == rows_of(spec, batch.columns[i], 0, rows_of_first));
    CHECK(rows_of(spec, alone.columns[i], rows_of_first, alone.num_rows) ==
          rows_of(spec, batch.columns[i], batch.num_rows - rows_of_last, batch.num_rows));
  }
  return !batch.bad.empty();
}

std::vector<std::string> converted(const monolith::parse::TfExampleConverter& converter,
                                   const std::vector<std::string>& records) {
  std::string data;
  std::vector<std::int64_t> splits{0};
  for (const std::string& record : records) {
    data += record;
    splits.push_back(static_cast<std::int64_t>(data.size()));
  }
  const monolith::parse::ConvertedRecords result =
      converter.convert({{reinterpret_cast<const std::uint8_t*>(data.data()), data.size()}, splits});
  CHECK_EQ(result.splits.size() / 8, records.size() + 1 - result.bad.size());
  std::vector<std::string> all;
  for (std::size_t i = 0; i + 1 < result.splits.size() / 8; ++i) {
    const std::int64_t* const split = result.splits.as<std::int64_t>() + i;
    all.emplace_back(reinterpret_cast<const char*>(result.data.data()) + split[0],
                     static_cast<std::size_t>(split[1] - split[0]));
  }
  return all;
}

// The same of a conversion, whose results are records that can be read.
void try_conversion(const Subject& tf_examples, const RecordParser& examples, Random& random) {
  using monolith::parse::FeatureRole;
  std::vector<monolith::parse::ConvertedFeature> features;
  constexpr FeatureRole kRoles[] = {FeatureRole::kSparse, FeatureRole::kDense, FeatureRole::kLabel,
                                    FeatureRole::kWeight};
  for (const ColumnSpec& spec : tf_examples.parser.specs()) {
    const auto slot = static_cast<std::uint32_t>(features.size() + 1);
    features.push_back({spec.name, kRoles[below(random, 4)], slot});
  }
  const monolith::parse::TfExampleConverter converter(features);
  const std::string first = tf_examples.make(random);
  std::string middle = tf_examples.make(random);
  const std::string last = tf_examples.make(random);
  for (std::size_t n = 1 + below(random, 3); n > 0; --n) damage(middle, random);
  const std::vector<std::string> good = converted(converter, {first, last});
  const std::vector<std::string> all = converted(converter, {first, middle, last});
  if (good.size() == 2) {
    CHECK(all.size() >= 2 && all.front() == good.front() && all.back() == good.back());
  }
  CHECK_EQ(parse(examples, all).bad.size(), 0);
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--seconds") seconds = std::strtod(argv[i + 1], nullptr);
    if (std::string(argv[i]) == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  const Subject subjects[] = {
      {Format::kTfExample, &bytes_of<tf_example>, {Format::kTfExample, specs_of(Format::kTfExample)}},
      {Format::kExample, &bytes_of<example>, {Format::kExample, specs_of(Format::kExample)}},
      {Format::kExampleBatch, &bytes_of<example_batch>, {Format::kExampleBatch, specs_of(Format::kExampleBatch)}},
      {Format::kInstance, &bytes_of<instance>, {Format::kInstance, specs_of(Format::kInstance)}},
      {Format::kCsv, &csv_line, {Format::kCsv, specs_of(Format::kCsv), {.num_cells = 4}}},
  };
  const RecordParser any_example(Format::kExample, {});
  Random random(seed);
  const auto begin = std::chrono::steady_clock::now();
  std::size_t tries = 0;
  std::size_t bad = 0;
  const auto more = [&] {
    if (seconds == 0) return tries < 20'000;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds;
  };
  while (more() && monolith::test::num_failures == 0) {
    for (const Subject& subject : subjects) {
      bad += try_once(subject, random) ? 1 : 0;
      ++tries;
    }
    try_conversion(subjects[0], any_example, random);
  }
  std::cout << tries << " damaged records, " << bad << " found to be bad, seed " << seed << std::endl;
  // Both must happen: damage that is noticed, and damage that leaves a readable record.
  CHECK(bad > tries / 4);
  CHECK(bad < tries);
  return monolith::test::finish();
}
