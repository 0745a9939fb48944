#include "parse/tf_example_conversion.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "ops/city_hash.h"
#include "ops/parallel_for.h"
#include "ops/ragged.h"
#include "parse/record_parser.h"
#include "parse/wire_reader.h"
#include "parse/wire_writer.h"

namespace monolith::parse {

namespace {

constexpr std::uint64_t kPayloadMask = (std::uint64_t{1} << 48) - 1;
constexpr std::size_t kChunksPerThread = 4;

// The members of a tf.Example's Feature.
enum Kind : std::uint32_t { kNoKind = 0, kBytesList = 1, kFloatList = 2, kInt64List = 3 };

// Field numbers of what is written: NamedFeature, Feature and Example.
enum NamedFeatureField : std::uint32_t { kName = 1, kFeature = 2, kId = 3 };
enum FeatureField : std::uint32_t { kFidV2List = 2, kFloats = 3, kInt64s = 5, kStrings = 6 };
enum ExampleField : std::uint32_t { kNamedFeature = 1, kLabel = 101, kInstanceWeight = 102 };

// The values of one feature of the present record.
struct Found {
  bool present = false;
  std::uint32_t kind = kNoKind;
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string_view> strings;
  const std::uint8_t* at = nullptr;

  // Of a oneof the last member stands, and only that one goes on where it was.
  void enter(std::uint32_t member) {
    if (member == kind) return;
    kind = member;
    ints.clear();
    floats.clear();
    strings.clear();
  }

  void begin(const std::uint8_t* where) {
    present = true;
    at = where;
    enter(kNoKind);
  }
};

void read_ints(Bytes list, std::vector<std::int64_t>& out) {
  for (WireReader reader(list); !reader.done();) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(1, kLength)) {
      for (WireReader packed(reader.bytes()); !packed.done();) {
        out.push_back(static_cast<std::int64_t>(packed.varint()));
      }
    } else if (tag == tag_of(1, kVarint)) {
      out.push_back(static_cast<std::int64_t>(reader.varint()));
    } else {
      reader.skip(tag);
    }
  }
}

void read_floats(Bytes list, std::vector<float>& out) {
  for (WireReader reader(list); !reader.done();) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(1, kLength)) {
      for (WireReader packed(reader.bytes()); !packed.done();) out.push_back(std::bit_cast<float>(packed.fixed32()));
    } else if (tag == tag_of(1, kFixed32)) {
      out.push_back(std::bit_cast<float>(reader.fixed32()));
    } else {
      reader.skip(tag);
    }
  }
}

void read_strings(Bytes list, std::vector<std::string_view>& out) {
  for (WireReader reader(list); !reader.done();) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(1, kLength)) {
      out.push_back(reader.bytes().text());
    } else {
      reader.skip(tag);
    }
  }
}

void read_feature(Bytes feature, Found& found) {
  for (WireReader reader(feature); !reader.done();) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(kInt64List, kLength)) {
      found.enter(kInt64List);
      read_ints(reader.bytes(), found.ints);
    } else if (tag == tag_of(kFloatList, kLength)) {
      found.enter(kFloatList);
      read_floats(reader.bytes(), found.floats);
    } else if (tag == tag_of(kBytesList, kLength)) {
      found.enter(kBytesList);
      read_strings(reader.bytes(), found.strings);
    } else {
      reader.skip(tag);
    }
  }
}

std::uint64_t fid_of(std::uint32_t slot, std::uint64_t payload) {
  return std::uint64_t{slot} << 48 | (payload & kPayloadMask);
}

std::uint64_t payload_of(float value, const std::uint8_t* at) {
  if (!std::isfinite(value)) fail(at, "expected a finite number to make an id of");
  return static_cast<std::uint64_t>(std::log2(std::fabs(static_cast<double>(value)) + 1.0));
}

// What one thread needs to convert records one after the other.
class Conversion {
 public:
  Conversion(std::span<const ConvertedFeature> features, const NameIndex& names)
      : features_(features), hints_(names), found_(features.size()) {}

  // Appends the record to `out`. Throws WireError, with nothing written.
  void convert(Bytes record, ValueBuffer& out) {
    for (Found& found : found_) found.present = false;
    hints_.begin_record();
    for (WireReader reader(record); !reader.done();) {
      const std::uint32_t tag = reader.tag();
      if (tag == tag_of(1, kLength)) {
        read_features(reader.bytes());
      } else {
        reader.skip(tag);
      }
    }
    write_example();
    out.append(example_.bytes().data(), example_.size());
  }

 private:
  void read_features(Bytes features) {
    for (WireReader reader(features); !reader.done();) {
      const std::uint32_t tag = reader.tag();
      if (tag == tag_of(1, kLength)) {
        read_entry(reader.bytes());
      } else {
        reader.skip(tag);
      }
    }
  }

  // An entry {name = 1, feature = 2}; the feature may stand first, or in pieces.
  void read_entry(Bytes entry) {
    Bytes name;
    pieces_.clear();
    for (WireReader reader(entry); !reader.done();) {
      const std::uint32_t tag = reader.tag();
      if (tag == tag_of(1, kLength)) {
        name = reader.bytes();
      } else if (tag == tag_of(2, kLength)) {
        pieces_.push_back(reader.bytes());
      } else {
        reader.skip(tag);
      }
    }
    const int number = hints_.find(name.text());
    Found& found = number == NameIndex::kNone ? dropped_ : found_[static_cast<std::size_t>(number)];
    found.begin(entry.begin);
    for (const Bytes piece : pieces_) read_feature(piece, found);
  }

  void write_example() {
    example_.clear();
    const Found* labels = nullptr;
    float weight = 1;
    for (std::size_t i = 0; i < features_.size(); ++i) {
      const Found& found = found_[i];
      if (!found.present) continue;
      switch (features_[i].role) {
        case FeatureRole::kLabel:
          labels = &found;
          break;
        case FeatureRole::kWeight:
          if (found.floats.size() == 1) weight = found.floats[0];
          break;
        default:
          write_named(features_[i], found);
      }
    }
    if (labels != nullptr) example_.packed_field<float>(kLabel, labels->floats);
    // A number without presence is not written if all its bits are zero.
    if (std::bit_cast<std::uint32_t>(weight) != 0) example_.float_field(kInstanceWeight, weight);
  }

  void write_named(const ConvertedFeature& wanted, const Found& found) {
    named_.clear();
    if (!wanted.name.empty()) named_.string_field(kName, wanted.name);
    feature_.clear();
    list_.clear();
    if (wanted.role == FeatureRole::kSparse) {
      write_fids(wanted.slot, found);
      feature_.message_field(kFidV2List, list_);
      named_.message_field(kFeature, feature_);
      named_.varint_field(kId, wanted.slot);
    } else if (found.kind != kNoKind) {
      feature_.message_field(write_dense(found), list_);
      named_.message_field(kFeature, feature_);
    }
    example_.message_field(kNamedFeature, named_);
  }

  void write_fids(std::uint32_t slot, const Found& found) {
    fids_.clear();
    for (const std::int64_t value : found.ints) fids_.push_back(fid_of(slot, static_cast<std::uint64_t>(value)));
    for (const float value : found.floats) fids_.push_back(fid_of(slot, payload_of(value, found.at)));
    for (const std::string_view text : found.strings) {
      fids_.push_back(fid_of(slot, city_hash64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()})));
    }
    list_.packed_field<std::uint64_t>(1, fids_);
  }

  // Returns the member of Feature that the list is.
  std::uint32_t write_dense(const Found& found) {
    if (found.kind == kFloatList) {
      list_.packed_field<float>(1, found.floats);
      return kFloats;
    }
    if (found.kind == kBytesList) {
      for (const std::string_view text : found.strings) list_.string_field(1, text);
      return kStrings;
    }
    packed_.clear();
    for (const std::int64_t value : found.ints) packed_.varint(static_cast<std::uint64_t>(value));
    if (packed_.size() > 0) list_.message_field(1, packed_);
    return kInt64s;
  }

  std::span<const ConvertedFeature> features_;
  NameHints hints_;
  std::vector<Found> found_;
  Found dropped_;  // Read like the others, so that damage is found wherever it is.
  std::vector<Bytes> pieces_;
  std::vector<std::uint64_t> fids_;
  WireWriter example_, named_, feature_, list_, packed_;
};

struct Chunk {
  ValueBuffer data;
  std::vector<std::size_t> sizes;
  std::vector<BadRecord> bad;
};

void convert_chunk(const Records& records, std::size_t first, std::size_t last, Conversion conversion, Chunk& chunk) {
  const std::uint8_t* const data = records.data.data();
  for (std::size_t record = first; record < last; ++record) {
    const Bytes bytes{data + records.splits[record], data + records.splits[record + 1], data + records.data.size()};
    const std::size_t before = chunk.data.size();
    try {
      conversion.convert(bytes, chunk.data);
      chunk.sizes.push_back(chunk.data.size() - before);
    } catch (WireError& error) {
      chunk.bad.push_back({record, static_cast<std::size_t>(error.at - bytes.begin), std::move(error.text)});
    }
  }
}

ConvertedRecords joined(std::vector<Chunk> chunks) {
  ConvertedRecords result;
  std::size_t num_bytes = 0, num_records = 0;
  for (Chunk& chunk : chunks) {
    num_bytes += chunk.data.size();
    num_records += chunk.sizes.size();
    std::move(chunk.bad.begin(), chunk.bad.end(), std::back_inserter(result.bad));
  }
  result.data.room<std::uint8_t>(num_bytes);
  result.splits = ValueBuffer((num_records + 1) * sizeof(std::int64_t));
  auto* split = result.splits.as<std::int64_t>();
  *split = 0;
  for (const Chunk& chunk : chunks) {
    result.data.append(chunk.data.data(), chunk.data.size());
    for (const std::size_t size : chunk.sizes) {
      split[1] = split[0] + static_cast<std::int64_t>(size);
      ++split;
    }
  }
  return result;
}

}  // namespace

TfExampleConverter::TfExampleConverter(std::vector<ConvertedFeature> features) : features_(std::move(features)) {
  const auto by_name = [](const ConvertedFeature& a, const ConvertedFeature& b) { return a.name < b.name; };
  std::sort(features_.begin(), features_.end(), by_name);
  for (std::size_t i = 0; i < features_.size(); ++i) {
    if (i > 0 && features_[i].name == features_[i - 1].name) {
      throw std::invalid_argument("feature '" + features_[i].name + "' is there twice");
    }
    names_.add(features_[i].name, static_cast<int>(i));
  }
}

ConvertedRecords TfExampleConverter::convert(const Records& records) const {
  check_row_splits(records.splits, records.data.size());
  const auto threads = static_cast<std::size_t>(num_threads());
  const bool is_small = threads == 1 || records.data.size() < kMinParallelBytes;
  const std::size_t step =
      is_small ? std::max<std::size_t>(records.size(), 1) : records.size() / (threads * kChunksPerThread) + 1;
  std::vector<Chunk> chunks((records.size() + step - 1) / step);
  parallel_for(chunks.size(), [&](std::size_t i) {
    const std::size_t first = i * step;
    convert_chunk(records, first, std::min(records.size(), first + step), Conversion(features_, names_), chunks[i]);
  });
  return joined(std::move(chunks));
}

}  // namespace monolith::parse
