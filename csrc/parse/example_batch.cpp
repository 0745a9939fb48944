// monolith.io.proto.ExampleBatch: a record holds many rows, column by column.
//
// First every record is scanned for the lists that are wanted and for its number of rows; then the lists of all
// records are read, several at a time.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "ops/parallel_for.h"
#include "parse/column_store.h"
#include "parse/example_feature.h"
#include "parse/line_id.h"
#include "parse/name_index.h"
#include "parse/record_parser.h"

namespace monolith::parse {

namespace {

enum BatchField : std::uint32_t { kNamedFeatureList = 1, kBatchSize = 3 };
enum ListField : std::uint32_t { kName = 1, kFeature = 2, kType = 3 };

constexpr std::uint64_t kShared = 1;
// A list that all rows share is written out once per row. Damaged bytes must not ask for more memory than there is.
constexpr std::size_t kMaxSharedBytes = std::size_t{1} << 30;

// One NamedFeatureList.
struct FeatureList {
  Bytes bytes;
  bool there = false;
  bool shared = false;
  std::size_t num_features = 0;
};

struct Scan {
  Bytes record;
  std::size_t first_row = 0;
  std::size_t num_rows = 0;
  std::vector<FeatureList> lists;  // by target: one per column, the last for all line ids
  BadRecord bad;                   // with a text, if the record is
};

// What is wanted of each record.
class Targets {
 public:
  explicit Targets(std::span<const ColumnSpec> specs) : specs_(specs), line_id_(specs) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const int column = static_cast<int>(i);
      if (specs[i].source == Source::kLineId) continue;
      if (specs[i].source == Source::kLabel) names_.add("__LABEL__", column);
      names_.add(specs[i].name, column);
    }
    if (line_id_.wanted()) names_.add("__LINE_ID__", static_cast<int>(specs.size()));
  }

  std::size_t size() const { return specs_.size() + 1; }
  std::span<const ColumnSpec> specs() const { return specs_; }
  const LineIdReader& line_id() const { return line_id_; }
  int find(std::string_view name) const { return names_.find(name); }

 private:
  std::span<const ColumnSpec> specs_;
  LineIdReader line_id_;
  NameIndex names_;
};

void scan_list(Bytes bytes, const Targets& targets, Scan& scan) {
  FeatureList list{bytes, true, false, 0};
  Bytes name;
  for (WireReader reader(bytes); !reader.done();) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(kName, kLength)) {
      name = reader.bytes();
    } else if (tag == tag_of(kFeature, kLength)) {
      reader.bytes();
      ++list.num_features;
    } else if (tag == tag_of(kType, kVarint)) {
      list.shared = static_cast<std::uint32_t>(reader.varint()) == kShared;
    } else {
      reader.skip(tag);
    }
  }
  const int target = targets.find(name.text());
  if (target != NameIndex::kNone) scan.lists[static_cast<std::size_t>(target)] = list;
}

void scan_record(const Targets& targets, Scan& scan) {
  std::int32_t batch_size = 0;
  const std::uint8_t* at = scan.record.begin;
  for (WireReader reader(scan.record); !reader.done();) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(kNamedFeatureList, kLength)) {
      scan_list(reader.bytes(), targets, scan);
    } else if (tag == tag_of(kBatchSize, kVarint)) {
      at = reader.at();
      batch_size = static_cast<std::int32_t>(reader.varint());
    } else {
      reader.skip(tag);
    }
  }
  // Every row of a list takes at least two bytes; without this bound a few bytes could ask for 2^31 rows.
  if (batch_size < 0 || static_cast<std::size_t>(batch_size) > scan.record.size()) {
    fail(at, "expected a batch_size that " + std::to_string(scan.record.size()) + " bytes can hold, got " +
                 std::to_string(batch_size));
  }
  scan.num_rows = static_cast<std::size_t>(batch_size);
}

// Calls read_row(row, feature) for every row of a list.
template <class ReadRow>
void for_each_row(const Scan& scan, const FeatureList& list, const std::string& name, ReadRow read_row) {
  const bool fits = list.shared ? list.num_features > 0 : list.num_features == scan.num_rows;
  if (!fits && scan.num_rows > 0) {
    fail(list.bytes.begin, "column '" + name + "' has " + std::to_string(list.num_features) + " features for " +
                               std::to_string(scan.num_rows) + " rows");
  }
  std::size_t row = scan.first_row;
  const std::size_t last = scan.first_row + scan.num_rows;
  for (WireReader reader(list.bytes); !reader.done() && row != last;) {
    const std::uint32_t tag = reader.tag();
    if (tag != tag_of(kFeature, kLength)) {
      reader.skip(tag);
      continue;
    }
    const Bytes feature = reader.bytes();
    do read_row(row++, feature);
    while (list.shared && row != last);
  }
}

void check_shared_size(const Scan& scan, const FeatureList& list, const ColumnSink& sink) {
  const std::size_t bytes = sink.row_bytes();
  if (list.shared && bytes > kMaxSharedBytes / std::max<std::size_t>(scan.num_rows, 1)) {
    fail(list.bytes.begin, "column '" + sink.spec().name + "': " + std::to_string(bytes) + " bytes shared by " +
                               std::to_string(scan.num_rows) + " rows are more than 1 GiB");
  }
}

void read_column(const Scan& scan, const FeatureList& list, ColumnSink& sink) {
  for_each_row(scan, list, sink.spec().name, [&](std::size_t row, Bytes feature) {
    sink.begin_row(row);
    sink.begin_feature();
    read_example_feature(feature, sink);
    if (row == scan.first_row) check_shared_size(scan, list, sink);
    sink.end_row();
  });
}

// The first string of a bytes_list.
Bytes first_string(Bytes feature) {
  constexpr std::uint32_t kBytesList = 6;
  for (WireReader reader(feature); !reader.done();) {
    const std::uint32_t tag = reader.tag();
    if (tag != tag_of(kBytesList, kLength)) {
      reader.skip(tag);
      continue;
    }
    for (WireReader strings(reader.bytes()); !strings.done();) {
      const std::uint32_t string_tag = strings.tag();
      if (string_tag == tag_of(1, kLength)) return strings.bytes();
      strings.skip(string_tag);
    }
  }
  fail(feature.begin, "expected a line id in a bytes_list");
}

void read_line_ids(const Scan& scan, const Targets& targets, std::span<ColumnSink> sinks) {
  const auto wanted = [&](std::size_t i) { return targets.specs()[i].source == Source::kLineId; };
  const auto each = [&](auto&& act) {
    for (std::size_t i = 0; i < sinks.size(); ++i) {
      if (wanted(i)) act(sinks[i]);
    }
  };
  for_each_row(scan, scan.lists.back(), "__LINE_ID__", [&](std::size_t row, Bytes feature) {
    each([&](ColumnSink& sink) { sink.begin_row(row); });
    targets.line_id().read(first_string(feature), sinks);
    if (row == scan.first_row) each([&](ColumnSink& sink) { check_shared_size(scan, scan.lists.back(), sink); });
    each([&](ColumnSink& sink) { sink.end_row(); });
  });
}

void read_target(Scan& scan, const Targets& targets, std::size_t target, std::span<ColumnSink> sinks) {
  const FeatureList& list = scan.lists[target];
  if (!list.there) return;
  if (target == sinks.size()) return read_line_ids(scan, targets, sinks);
  read_column(scan, list, sinks[target]);
}

// Of several errors in a record the first by place counts, whichever thread found it.
void note(std::size_t record, const Bytes& bytes, WireError& error, BadRecord& bad) {
  bad = {record, static_cast<std::size_t>(error.at - bytes.begin), std::move(error.text)};
}

template <class Task>
void for_each_task(const Records& records, std::size_t num_tasks, const Task& task) {
  if (records.data.size() >= kMinParallelBytes) return parallel_for(num_tasks, task);
  for (std::size_t i = 0; i < num_tasks; ++i) task(i);
}

std::vector<Scan> scan_records(const Targets& targets, const Records& records) {
  std::vector<Scan> scans(records.size());
  for_each_task(records, scans.size(), [&](std::size_t i) {
    Scan& scan = scans[i];
    const std::uint8_t* const data = records.data.data();
    scan.record = {data + records.splits[i], data + records.splits[i + 1], data + records.data.size()};
    scan.lists.resize(targets.size());
    try {
      scan_record(targets, scan);
    } catch (WireError& error) {
      note(i, scan.record, error, scan.bad);
      scan.lists.assign(targets.size(), {});
    }
  });
  std::size_t row = 0;
  for (Scan& scan : scans) {
    scan.first_row = row;
    row += scan.num_rows;
  }
  return scans;
}

using Sinks = std::vector<std::vector<ColumnSink>>;  // by record and column

Sinks make_sinks(std::span<const Scan> scans, std::span<ColumnStore> stores, TextDictionary* texts) {
  Sinks sinks(scans.size());
  for (std::size_t i = 0; i < scans.size(); ++i) {
    for (ColumnStore& store : stores) {
      sinks[i].push_back(store.sink());
      sinks[i].back().fill_missing(scans[i].first_row, scans[i].num_rows);
      sinks[i].back().note_texts(texts);
      store.clear_lengths(scans[i].first_row, scans[i].num_rows);
    }
  }
  return sinks;
}

void read_lists(const Records& records, std::span<Scan> scans, const Targets& targets, Sinks& sinks) {
  std::vector<BadRecord> found(scans.size() * targets.size());
  for_each_task(records, found.size(), [&](std::size_t task) {
    const std::size_t record = task / targets.size();
    try {
      read_target(scans[record], targets, task % targets.size(), sinks[record]);
    } catch (WireError& error) {
      note(record, scans[record].record, error, found[task]);
    }
  });
  for (BadRecord& bad : found) {
    BadRecord& first = scans[bad.record].bad;
    if (!bad.text.empty() && (first.text.empty() || bad.offset < first.offset)) first = std::move(bad);
  }
}

// Takes back the rows of damaged records; returns the others.
std::vector<std::size_t> drop_bad_rows(std::span<const Scan> scans, std::span<ColumnStore> stores, Sinks& sinks) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < scans.size(); ++i) {
    const Scan& scan = scans[i];
    if (scan.bad.text.empty()) {
      for (std::size_t row = 0; row < scan.num_rows; ++row) kept.push_back(scan.first_row + row);
      continue;
    }
    for (ColumnSink& sink : sinks[i]) sink.values().truncate(0);
    for (ColumnStore& store : stores) store.clear_lengths(scan.first_row, scan.num_rows);
  }
  return kept;
}

}  // namespace

void check_example_batch(std::span<const ColumnSpec> specs) {
  for (const ColumnSpec& spec : specs) {
    if (spec.source == Source::kSlot) {
      throw std::invalid_argument("column '" + spec.name + "': ids of an ExampleBatch are found by name, not by slot");
    }
  }
  const LineIdReader checked(specs);
}

ParsedBatch parse_example_batches(std::span<const ColumnSpec> specs, const Records& records, TextDictionary* texts) {
  const Targets targets(specs);
  std::vector<Scan> scans = scan_records(targets, records);
  const std::size_t num_rows = scans.empty() ? 0 : scans.back().first_row + scans.back().num_rows;
  ParsedBatch batch;
  std::vector<ColumnStore> stores = make_stores(specs, num_rows, batch.fixed);
  Sinks sinks = make_sinks(scans, stores, texts);
  read_lists(records, scans, targets, sinks);
  const std::vector<std::size_t> kept = drop_bad_rows(scans, stores, sinks);

  for (Scan& scan : scans) {
    if (!scan.bad.text.empty()) batch.bad.push_back(std::move(scan.bad));
  }
  batch.num_rows = kept.size();
  for (std::size_t column = 0; column < specs.size(); ++column) {
    std::vector<ColumnSink*> parts;
    for (std::vector<ColumnSink>& record : sinks) parts.push_back(&record[column]);
    batch.columns.push_back(stores[column].finish(parts, kept, kept.size() == num_rows));
  }
  return batch;
}

}  // namespace monolith::parse
