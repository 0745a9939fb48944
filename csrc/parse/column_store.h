// The columns of a batch while they are being filled by several threads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "parse/column.h"
#include "parse/column_sink.h"

namespace monolith::parse {

// One column of `num_rows` rows: fixed values or row lengths in place, ragged values in pieces.
class ColumnStore {
 public:
  // `fixed`: where the values of a fixed width go.
  ColumnStore(const ColumnSpec& spec, std::size_t num_rows, std::uint8_t* fixed);

  // A sink for some of the rows. Sinks of different rows may be used at the same time.
  ColumnSink sink() const { return {*spec_, fixed_, lengths_.as<std::int64_t>()}; }

  // Takes the sinks' values, in the order of their rows, and leaves out the rows that are not kept. If all rows are
  // kept, `kept` is empty.
  Column finish(std::span<ColumnSink* const> sinks, std::span<const std::size_t> kept, bool keep_all);

  // The rows of a damaged record give no values.
  void clear_lengths(std::size_t first_row, std::size_t num_rows);

 private:
  const ColumnSpec* spec_;
  std::size_t num_rows_;
  std::uint8_t* fixed_;
  ValueBuffer lengths_;
};

// Returns a store for each column, and takes the memory of columns of a fixed width.
std::vector<ColumnStore> make_stores(std::span<const ColumnSpec> specs, std::size_t num_rows, FixedColumns& fixed);

}  // namespace monolith::parse
