// Formats in which a record is one row: tf.Example, Example, Instance.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parse/column_sink.h"
#include "parse/name_index.h"

namespace monolith::parse {

// What one thread needs to read rows: a sink per column and the order of the last record's names.
struct RowReader {
  std::vector<ColumnSink> sinks;
  NameHints hints;
};

class RowFormat {
 public:
  virtual ~RowFormat() = default;

  // Hands the values of one record to the sinks, whose row has begun. Throws WireError.
  virtual void read(Bytes record, RowReader& rows) const = 0;

  const NameIndex& names() const { return names_; }

 protected:
  NameIndex names_;
};

// Each throws std::invalid_argument if the format has no such source.
std::unique_ptr<RowFormat> make_tf_example_format(std::span<const ColumnSpec> specs);
std::unique_ptr<RowFormat> make_example_format(std::span<const ColumnSpec> specs);
std::unique_ptr<RowFormat> make_instance_format(std::span<const ColumnSpec> specs);

// What the lines of a CSV file have in common.
struct CsvShape {
  std::size_t num_cells = 0;
  std::uint8_t delimiter = ',';
  std::string list_delimiter = "|";
};

// A record is a line, with or without what ends it. A blank one is bad for no reason: its text is empty.
std::unique_ptr<RowFormat> make_csv_format(std::span<const ColumnSpec> specs, const CsvShape& shape);

// What all three do with an entry {name = 1, value = 2}: finds the sink of the name and hands it the value.
// Entries name the value first or repeat a field only in theory, but they may.
template <class ReadValue>
void read_named_value(Bytes entry, RowReader& rows, ReadValue read_value) {
  Bytes name;
  Bytes value{entry.end, entry.end, entry.readable};
  std::size_t num_values = 0;
  for (WireReader reader(entry); !reader.done();) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(1, kLength)) {
      name = reader.bytes();
    } else if (tag == tag_of(2, kLength)) {
      value = reader.bytes();
      ++num_values;
    } else {
      reader.skip(tag);
    }
  }
  const int column = rows.hints.find(name.text());
  if (column == NameIndex::kNone) return;
  ColumnSink& sink = rows.sinks[static_cast<std::size_t>(column)];
  sink.begin_feature();
  if (num_values <= 1) [[likely]] {
    read_value(value, sink);
    return;
  }
  for (WireReader reader(entry); !reader.done();) {
    const std::uint32_t tag = reader.tag();
    if (tag == tag_of(2, kLength)) {
      read_value(reader.bytes(), sink);
    } else {
      reader.skip(tag);
    }
  }
}

}  // namespace monolith::parse
