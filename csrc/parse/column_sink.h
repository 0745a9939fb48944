// Takes the values of one column, row after row, out of the wire format into memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/city_hash.h"
#include "ops/text_dictionary.h"
#include "parse/column.h"
#include "parse/wire_reader.h"

namespace monolith::parse {

// Writes a range of rows of a column. Values of a fixed width and the lengths of rows go straight to their place in
// the whole batch; ragged values are collected here until all ranges are done.
//
// A row is begin_row, any number of add_..., end_row. Values that do not fit a fixed width are read and dropped.
class ColumnSink {
 public:
  // `fixed`: the whole column of a fixed width, else nullptr. `lengths`: one per row of the batch, for ragged columns.
  ColumnSink(const ColumnSpec& spec, void* fixed, std::int64_t* lengths)
      : spec_(&spec),
        fixed_(fixed),
        lengths_(lengths),
        type_(spec.type),
        width_(fixed == nullptr ? 0 : spec.width),
        is_weight_(spec.source == Source::kInstanceWeight) {}

  // From now on, texts that become ids are noted there too.
  void note_texts(TextDictionary* texts) { texts_ = texts; }

  const ColumnSpec& spec() const { return *spec_; }
  bool is_ragged() const { return fixed_ == nullptr; }
  bool present() const { return present_; }
  bool in_row() const { return touched_; }  // the present row has the feature
  std::uint32_t kind() const { return kind_; }
  ValueBuffer& values() { return values_; }
  std::size_t row_bytes() const { return values_.size() - start_; }  // that the row added to a ragged column

  // Fills rows of a fixed width with what a missing value reads as.
  void fill_missing(std::size_t first_row, std::size_t num_rows);

  void begin_row(std::size_t row) {
    row_ = row;
    start_ = values_.size();
    count_ = 0;
    kind_ = 0;
    touched_ = false;
    numbers_ = false;
    wrong_ = nullptr;
  }

  // The feature occurs in this row. If it did before, the later occurrence counts, as in protobuf.
  void begin_feature() {
    if (touched_) [[unlikely]]
      restart();
    touched_ = true;
  }

  // Member `kind` (not 0) of the feature's oneof is set. Of different members only the last counts; a list adds to one
  // of the same kind, a single value replaces it.
  void enter(std::uint32_t kind, bool single = false) {
    if (kind_ != 0 && (kind_ != kind || single)) [[unlikely]]
      restart();
    touched_ = true;
    kind_ = kind;
  }

  // Ends the row; throws WireError where its values are not what was asked for.
  void end_row() {
    present_ |= touched_;
    if (numbers_) [[unlikely]]
      hash_numbers();
    if (wrong_ != nullptr) [[unlikely]]
      reject_kind();
    if (fixed_ == nullptr) {
      if (type_ == ValueType::kBytes && count_ > 1) [[unlikely]]
        reject_strings();
      lengths_[row_] = static_cast<std::int64_t>((values_.size() - start_) / value_size());
    } else if (is_weight_ && !(floats()[0] > 0)) {
      floats()[0] = 1;
    }
  }

  // Takes back what the row added to a ragged column.
  void drop_row() {
    values_.truncate(start_);
    if (fixed_ == nullptr) lengths_[row_] = 0;
  }

  // A scalar float feature is there: should it turn out to have no value, it reads as spec().empty.
  void expect_scalar() {
    if (count_ == 0 && width_ == 1 && type_ == ValueType::kFloat32) floats()[0] = spec_->empty;
  }

  void add_varints(Bytes packed);           // int64
  void add_int64(std::int64_t value);       // int64
  void add_fids(Bytes packed, bool to_v2);  // int64
  void add_float(float value);              // float32
  void add_floats(Bytes packed);            // float32
  void add_doubles(Bytes packed);           // float32
  void add_string(Bytes bytes);             // bytes; int64 takes the string's city_hash64

  // The id of the row's one text, of a hashed column that is no list.
  void put_text(Bytes text) {
    const std::uint64_t id = city_hash64({text.begin, text.size()});
    if (texts_ != nullptr) [[unlikely]]
      texts_->note(id, {text.begin, text.size()});
    static_cast<std::int64_t*>(fixed_)[row_] = static_cast<std::int64_t>(id);
    touched_ = true;
  }

  // Whether the column takes values of this type; if not, the row fails unless a later occurrence replaces them.
  bool takes(ValueType type, Bytes at, const char* kind) {
    if (type == type_) [[likely]] {
      numbers_ = spec_->hashed && type == ValueType::kInt64;
      return true;
    }
    refuse(at, kind);
    return false;
  }
  // The same of strings, which columns of ids take too: as their hash.
  bool takes_strings(Bytes at, const char* kind) {
    return type_ == ValueType::kInt64 || takes(ValueType::kBytes, at, kind);
  }
  // The same where only columns that ask for ids of texts take strings.
  bool takes_hashed_strings(Bytes at, const char* kind) { return spec_->hashed || takes(ValueType::kBytes, at, kind); }
  void refuse(Bytes at, const char* kind) {
    wrong_ = kind;
    wrong_at_ = at.begin;
  }

 private:
  std::size_t value_size() const { return type_ == ValueType::kInt64 ? 8 : type_ == ValueType::kFloat32 ? 4 : 1; }
  std::int64_t* ints() const { return static_cast<std::int64_t*>(fixed_) + row_ * static_cast<std::size_t>(width_); }
  float* floats() const { return static_cast<float*>(fixed_) + row_ * static_cast<std::size_t>(width_); }

  [[gnu::cold, gnu::noinline]] void restart();
  [[gnu::noinline]] void hash_numbers();
  [[noreturn, gnu::cold, gnu::noinline]] void reject_kind() const;
  [[noreturn, gnu::cold, gnu::noinline]] void reject_strings() const;

  const ColumnSpec* spec_;
  void* fixed_;
  std::int64_t* lengths_;
  ValueType type_;
  std::int64_t width_;  // 0: ragged
  bool is_weight_;
  ValueBuffer values_;
  TextDictionary* texts_ = nullptr;
  bool present_ = false;

  // Of the present row.
  std::size_t row_ = 0;
  std::size_t start_ = 0;   // size of values_ where it began
  std::int64_t count_ = 0;  // values so far
  std::uint32_t kind_ = 0;
  bool touched_ = false;
  bool numbers_ = false;         // the row of a hashed column holds numbers that are not hashed yet
  const char* wrong_ = nullptr;  // a kind of value that the column does not take
  const std::uint8_t* wrong_at_ = nullptr;
};

inline void ColumnSink::add_int64(std::int64_t value) {
  if (is_ragged()) {
    *values_.room<std::int64_t>(1) = value;
    values_.commit<std::int64_t>(1);
  } else if (count_ < width_) {
    ints()[count_] = value;
  }
  ++count_;
}

inline void ColumnSink::add_float(float value) {
  if (is_ragged()) {
    *values_.room<float>(1) = value;
    values_.commit<float>(1);
  } else if (count_ < width_) {
    floats()[count_] = value;
  }
  ++count_;
}

inline void ColumnSink::add_varints(Bytes packed) {
  const std::uint8_t* p = packed.begin;
  std::uint64_t value = 0;
  // A list of one value, the most frequent of all.
  if (p != packed.end && (p = decode_varint(p, packed.end, packed.readable, value)) == packed.end) [[likely]] {
    add_int64(static_cast<std::int64_t>(value));
    return;
  }
  p = packed.begin;
  const std::size_t room = is_ragged() ? count_varints(p, packed.size()) : 0;
  std::int64_t* out = is_ragged() ? values_.room<std::int64_t>(room) : nullptr;
  std::size_t added = 0;
  for (; p != packed.end; ++added) {
    const std::uint8_t* const next = decode_varint(p, packed.end, packed.readable, value);
    if (next == nullptr) fail(p, "expected a varint in a packed list");
    p = next;
    if (out != nullptr) {
      out[added] = static_cast<std::int64_t>(value);
    } else if (count_ + static_cast<std::int64_t>(added) < width_) {
      ints()[count_ + static_cast<std::int64_t>(added)] = static_cast<std::int64_t>(value);
    }
  }
  if (out != nullptr) values_.commit<std::int64_t>(added);
  count_ += static_cast<std::int64_t>(added);
}

inline void ColumnSink::add_floats(Bytes packed) {
  const std::size_t count = packed.size() / 4;
  if (packed.size() % 4 != 0) [[unlikely]]
    fail(packed.begin, "expected a packed list of 4-byte values");
  if (is_ragged()) {
    values_.append(packed.begin, packed.size());
  } else if (count_ < width_ && count > 0) {
    const std::size_t taken = std::min(count, static_cast<std::size_t>(width_ - count_));
    std::memcpy(floats() + count_, packed.begin, 4 * taken);
  }
  count_ += static_cast<std::int64_t>(count);
}

}  // namespace monolith::parse
