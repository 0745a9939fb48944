// Serialized records in, columns out: the one entry to this folder.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "parse/column.h"
#include "parse/row_format.h"

namespace monolith::parse {

enum class Format { kTfExample, kExample, kExampleBatch, kInstance, kCsv };

// "tf_example", "example", "example_batch", "instance", "csv"; throws std::invalid_argument otherwise.
Format format_from_name(std::string_view name);

// Knows a format and the columns wanted of it. Safe to use from several threads at once.
class RecordParser {
 public:
  // Throws std::invalid_argument for columns that the format cannot have. `csv` is for kCsv.
  RecordParser(Format format, std::vector<ColumnSpec> specs, const CsvShape& csv = {});
  RecordParser(const RecordParser&) = delete;  // the formats point to the specs
  RecordParser& operator=(const RecordParser&) = delete;

  const std::vector<ColumnSpec>& specs() const { return specs_; }

  // Reads all records, on all threads. A damaged record, or one whose values are of another type than asked for, is
  // listed in `bad` and gives no rows. Other records give one row each, those of kExampleBatch batch_size rows.
  // Notes texts that become ids in `texts`, if there is one. Throws std::invalid_argument if the splits do not describe
  // the data.
  ParsedBatch parse(const Records& records, TextDictionary* texts = nullptr) const;

 private:
  Format format_;
  std::vector<ColumnSpec> specs_;
  std::unique_ptr<RowFormat> rows_;  // not for kExampleBatch
};

// Fewer bytes than this are parsed sooner than other threads wake up.
inline constexpr std::size_t kMinParallelBytes = std::size_t{1} << 15;

// The two ways through a batch of records; `splits` were checked.
ParsedBatch parse_rows(const RowFormat& format, std::span<const ColumnSpec> specs, const Records& records,
                       TextDictionary* texts);
ParsedBatch parse_example_batches(std::span<const ColumnSpec> specs, const Records& records, TextDictionary* texts);

// Throws std::invalid_argument for columns that an ExampleBatch cannot have.
void check_example_batch(std::span<const ColumnSpec> specs);

}  // namespace monolith::parse
