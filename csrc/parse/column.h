// What a caller asks of records, and what it gets: one column per request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parse/value_buffer.h"

namespace monolith::parse {

enum class ValueType { kInt64, kFloat32, kBytes };

// Where in a record a column's values lie.
enum class Source {
  kFeature,         // the feature of the column's name
  kSlot,            // the ids of slot `number` in the flat list of an Instance
  kLineId,          // the field of the column's name in the LineId
  kLabel,           // the record's labels
  kInstanceWeight,  // the record's weight; a weight that is not positive reads as 1
  kCell,            // cell `number` of a CSV line
};

inline constexpr std::int64_t kRagged = -1;

struct ColumnSpec {
  std::string name;
  Source source = Source::kFeature;
  ValueType type = ValueType::kInt64;
  std::int64_t width = kRagged;  // values per row, or kRagged; bytes are always ragged
  std::uint32_t number = 0;
  float missing = 0;            // fills a fixed width where a record has fewer values
  float empty = 0;              // stands for the value of a scalar float feature that is there, but has none
  bool to_v2 = false;           // kSlot: turn ids of layout v1 into layout v2
  bool hashed = false;          // int64: ids of texts; a whole number counts as its decimal text
  std::int64_t missing_id = 0;  // the same as `missing`, for int64
  bool is_list = false;         // kCell: the cell is a list, even if one wide
  bool optional = true;         // kCell: a number may be missing
};

// int64: [rows * width] or ragged; float32 alike; bytes: one string per row, ragged.
struct Column {
  ValueBuffer values;                   // If ragged.
  ValueBuffer row_splits;               // int64 [rows + 1]; empty unless ragged
  std::span<const std::uint8_t> fixed;  // If not: its part of FixedColumns.
  bool present = false;                 // some record has it
};

// All columns of a fixed width, those of one type one after the other in one piece of memory: what makes tensors of
// them then has two pieces to wrap and not one per column. Each takes room for `num_places` rows and begins with the
// rows there are, which are fewer if records were bad.
struct FixedColumns {
  std::size_t num_places = 0;
  ValueBuffer ints;
  ValueBuffer floats;
};

struct BadRecord {
  std::size_t record = 0;
  std::size_t offset = 0;  // of the byte in the record
  std::string text;
};

struct ParsedBatch {
  std::size_t num_rows = 0;
  std::vector<Column> columns;  // in the order of the specs
  FixedColumns fixed;
  std::vector<BadRecord> bad;  // in order; their rows are left out of the columns
};

// Serialized records end to end; record i is data[splits[i] .. splits[i + 1]).
struct Records {
  std::span<const std::uint8_t> data;
  std::span<const std::int64_t> splits;

  std::size_t size() const { return splits.size() - 1; }
};

// An id of layout v1 (slot in the top 10 bits) in layout v2 (slot in bits 48 to 62, 48 bits of payload).
inline std::int64_t fid_v1_to_v2(std::uint64_t fid) {
  return static_cast<std::int64_t>((fid & ((std::uint64_t{1} << 48) - 1)) | (fid >> 54) << 48);
}

}  // namespace monolith::parse
