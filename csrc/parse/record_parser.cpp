#include "parse/record_parser.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "ops/parallel_for.h"
#include "ops/ragged.h"
#include "parse/column_store.h"

namespace monolith::parse {

namespace {

constexpr std::size_t kChunksPerThread = 4;

struct RowChunk {
  RowReader rows;
  std::vector<BadRecord> bad;
};

std::size_t rows_per_chunk(const Records& records) {
  const auto threads = static_cast<std::size_t>(num_threads());
  if (threads == 1 || records.data.size() < kMinParallelBytes) return std::max<std::size_t>(records.size(), 1);
  return records.size() / (threads * kChunksPerThread) + 1;
}

Bytes record_at(const Records& records, std::size_t i) {
  const std::uint8_t* const data = records.data.data();
  return {data + records.splits[i], data + records.splits[i + 1], data + records.data.size()};
}

void read_row(const RowFormat& format, const Records& records, std::size_t record, RowChunk& chunk) {
  const Bytes bytes = record_at(records, record);
  for (ColumnSink& sink : chunk.rows.sinks) sink.begin_row(record);
  chunk.rows.hints.begin_record();
  try {
    format.read(bytes, chunk.rows);
    for (ColumnSink& sink : chunk.rows.sinks) sink.end_row();
  } catch (WireError& error) {
    for (ColumnSink& sink : chunk.rows.sinks) sink.drop_row();
    chunk.bad.push_back({record, static_cast<std::size_t>(error.at - bytes.begin), std::move(error.text)});
  }
}

std::vector<std::size_t> good_rows(std::size_t num_rows, const std::vector<BadRecord>& bad) {
  std::vector<std::size_t> kept;
  kept.reserve(num_rows - bad.size());
  auto next_bad = bad.begin();
  for (std::size_t row = 0; row < num_rows; ++row) {
    if (next_bad != bad.end() && next_bad->record == row) {
      ++next_bad;
    } else {
      kept.push_back(row);
    }
  }
  return kept;
}

}  // namespace

Format format_from_name(std::string_view name) {
  if (name == "tf_example") return Format::kTfExample;
  if (name == "example") return Format::kExample;
  if (name == "example_batch") return Format::kExampleBatch;
  if (name == "instance") return Format::kInstance;
  if (name == "csv") return Format::kCsv;
  throw std::invalid_argument("a format of records is tf_example, example, example_batch, instance or csv, got " +
                              std::string(name));
}

RecordParser::RecordParser(Format format, std::vector<ColumnSpec> specs, const CsvShape& csv)
    : format_(format), specs_(std::move(specs)) {
  for (const ColumnSpec& spec : specs_) {
    if (spec.type != ValueType::kBytes && spec.width != kRagged && spec.width < 1) {
      throw std::invalid_argument("column '" + spec.name + "': a width must be positive, got " +
                                  std::to_string(spec.width));
    }
    const bool is_number = spec.source == Source::kLabel || spec.source == Source::kInstanceWeight;
    if (is_number && spec.type != ValueType::kFloat32) {
      throw std::invalid_argument("column '" + spec.name + "': labels and weights are float32");
    }
    if (spec.source == Source::kInstanceWeight && spec.width != 1) {
      throw std::invalid_argument("column '" + spec.name + "': a record has one weight");
    }
  }
  switch (format) {
    case Format::kTfExample:
      rows_ = make_tf_example_format(specs_);
      break;
    case Format::kExample:
      rows_ = make_example_format(specs_);
      break;
    case Format::kInstance:
      rows_ = make_instance_format(specs_);
      break;
    case Format::kCsv:
      rows_ = make_csv_format(specs_, csv);
      break;
    case Format::kExampleBatch:
      check_example_batch(specs_);
      break;
  }
}

ParsedBatch RecordParser::parse(const Records& records, TextDictionary* texts) const {
  check_row_splits(records.splits, records.data.size());
  return rows_ != nullptr ? parse_rows(*rows_, specs_, records, texts) : parse_example_batches(specs_, records, texts);
}

ParsedBatch parse_rows(const RowFormat& format, std::span<const ColumnSpec> specs, const Records& records,
                       TextDictionary* texts) {
  const std::size_t num_records = records.size();
  ParsedBatch batch;
  std::vector<ColumnStore> stores = make_stores(specs, num_records, batch.fixed);

  const std::size_t step = rows_per_chunk(records);
  std::vector<RowChunk> chunks;
  for (std::size_t first = 0; first < num_records || chunks.empty(); first += step) {
    chunks.push_back({RowReader{{}, NameHints(format.names())}, {}});
  }
  parallel_for(chunks.size(), [&](std::size_t i) {
    RowChunk& chunk = chunks[i];
    const std::size_t first = i * step;
    const std::size_t last = std::min(num_records, first + step);
    for (const ColumnStore& store : stores) {
      chunk.rows.sinks.push_back(store.sink());
      chunk.rows.sinks.back().fill_missing(first, last - first);
      chunk.rows.sinks.back().note_texts(texts);
    }
    for (std::size_t record = first; record < last; ++record) read_row(format, records, record, chunk);
  });

  for (RowChunk& chunk : chunks) std::move(chunk.bad.begin(), chunk.bad.end(), std::back_inserter(batch.bad));
  batch.num_rows = num_records - batch.bad.size();
  batch.columns.resize(specs.size());
  const std::vector<std::size_t> kept =
      batch.bad.empty() ? std::vector<std::size_t>() : good_rows(num_records, batch.bad);
  for (std::size_t column = 0; column < specs.size(); ++column) {
    std::vector<ColumnSink*> sinks;
    for (RowChunk& chunk : chunks) sinks.push_back(&chunk.rows.sinks[column]);
    batch.columns[column] = stores[column].finish(sinks, kept, batch.bad.empty());
  }
  return batch;
}

}  // namespace monolith::parse
