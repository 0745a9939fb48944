#include "parse/column_store.h"

#include <cstring>

namespace monolith::parse {

namespace {

bool is_ragged(const ColumnSpec& spec) { return spec.width == kRagged || spec.type == ValueType::kBytes; }

std::size_t row_bytes(const ColumnSpec& spec) {
  return static_cast<std::size_t>(spec.width) * (spec.type == ValueType::kInt64 ? 8 : 4);
}

ValueBuffer joined(std::span<ColumnSink* const> sinks) {
  if (sinks.size() == 1) return std::move(sinks[0]->values());
  std::size_t size = 0;
  for (ColumnSink* sink : sinks) size += sink->values().size();
  ValueBuffer all(size);
  std::uint8_t* out = all.data();
  for (ColumnSink* sink : sinks) {
    const ValueBuffer& values = sink->values();
    if (values.size() > 0) std::memcpy(out, values.data(), values.size());
    out += values.size();
  }
  return all;
}

}  // namespace

ColumnStore::ColumnStore(const ColumnSpec& spec, std::size_t num_rows, std::uint8_t* fixed)
    : spec_(&spec), num_rows_(num_rows), fixed_(fixed) {
  if (is_ragged(spec)) lengths_ = ValueBuffer((num_rows + 1) * sizeof(std::int64_t));
}

std::vector<ColumnStore> make_stores(std::span<const ColumnSpec> specs, std::size_t num_rows, FixedColumns& fixed) {
  std::size_t int_bytes = 0, float_bytes = 0;
  for (const ColumnSpec& spec : specs) {
    if (is_ragged(spec)) continue;
    (spec.type == ValueType::kInt64 ? int_bytes : float_bytes) += num_rows * row_bytes(spec);
  }
  fixed = {.num_places = num_rows, .ints = ValueBuffer(int_bytes), .floats = ValueBuffer(float_bytes)};
  std::uint8_t* next_int = fixed.ints.data();
  std::uint8_t* next_float = fixed.floats.data();
  std::vector<ColumnStore> stores;
  stores.reserve(specs.size());
  for (const ColumnSpec& spec : specs) {
    std::uint8_t*& next = spec.type == ValueType::kInt64 ? next_int : next_float;
    stores.emplace_back(spec, num_rows, is_ragged(spec) ? nullptr : next);
    if (!is_ragged(spec)) next += num_rows * row_bytes(spec);
  }
  return stores;
}

void ColumnStore::clear_lengths(std::size_t first_row, std::size_t num_rows) {
  if (is_ragged(*spec_)) std::fill_n(lengths_.as<std::int64_t>() + first_row, num_rows, 0);
}

Column ColumnStore::finish(std::span<ColumnSink* const> sinks, std::span<const std::size_t> kept, bool keep_all) {
  Column column;
  for (const ColumnSink* sink : sinks) column.present |= sink->present();
  const std::size_t num_kept = keep_all ? num_rows_ : kept.size();
  if (!is_ragged(*spec_)) {
    const std::size_t size = row_bytes(*spec_);
    for (std::size_t i = 0; !keep_all && i < kept.size(); ++i) {
      std::memmove(fixed_ + i * size, fixed_ + kept[i] * size, size);
    }
    column.fixed = {fixed_, num_kept * size};
    return column;
  }
  column.values = joined(sinks);
  // Lengths become splits in place: kept[i] >= i, so no length is written over before it was read.
  auto* const splits = lengths_.as<std::int64_t>();
  std::int64_t end = 0;
  for (std::size_t i = 0; i < num_kept; ++i) {
    const std::int64_t length = splits[keep_all ? i : kept[i]];
    splits[i] = end;
    end += length;
  }
  splits[num_kept] = end;
  column.row_splits = std::move(lengths_);
  column.row_splits.truncate((num_kept + 1) * sizeof(std::int64_t));
  return column;
}

}  // namespace monolith::parse
