#include "parse/column_sink.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <string>

#include "ops/city_hash.h"

namespace monolith::parse {

namespace {

const char* name_of(const ColumnSpec& spec) {
  const ValueType type = spec.type;
  return spec.hashed ? "hash" : type == ValueType::kInt64 ? "int64" : type == ValueType::kFloat32 ? "float32" : "bytes";
}

void check_8_bytes(Bytes packed) {
  if (packed.size() % 8 != 0) fail(packed.begin, "expected a packed list of 8-byte values");
}

}  // namespace

void ColumnSink::fill_missing(std::size_t first_row, std::size_t num_rows) {
  if (is_ragged()) return;
  const auto width = static_cast<std::size_t>(width_);
  if (type_ == ValueType::kFloat32) {
    std::fill_n(static_cast<float*>(fixed_) + first_row * width, num_rows * width, spec_->missing);
  } else {
    std::fill_n(static_cast<std::int64_t*>(fixed_) + first_row * width, num_rows * width, spec_->missing_id);
  }
}

void ColumnSink::add_fids(Bytes packed, bool to_v2) {
  check_8_bytes(packed);
  const std::size_t count = packed.size() / 8;
  if (is_ragged() && !to_v2) {
    values_.append(packed.begin, packed.size());
    count_ += static_cast<std::int64_t>(count);
    return;
  }
  for (const std::uint8_t* p = packed.begin; p != packed.end; p += 8) {
    const std::uint64_t fid = load_u64(p);
    add_int64(to_v2 ? fid_v1_to_v2(fid) : static_cast<std::int64_t>(fid));
  }
}

void ColumnSink::add_doubles(Bytes packed) {
  check_8_bytes(packed);
  for (const std::uint8_t* p = packed.begin; p != packed.end; p += 8) {
    add_float(static_cast<float>(std::bit_cast<double>(load_u64(p))));
  }
}

void ColumnSink::add_string(Bytes bytes) {
  if (type_ == ValueType::kInt64) {
    const std::uint64_t id = city_hash64({bytes.begin, bytes.size()});
    if (texts_ != nullptr) texts_->note(id, {bytes.begin, bytes.size()});
    add_int64(static_cast<std::int64_t>(id));
    return;
  }
  if (count_++ == 0) values_.append(bytes.begin, bytes.size());
  wrong_at_ = bytes.begin;
}

void ColumnSink::hash_numbers() {
  const std::size_t count =
      is_ragged() ? row_bytes() / sizeof(std::int64_t) : static_cast<std::size_t>(std::min(count_, width_));
  for (std::size_t i = 0; i < count; ++i) {
    std::uint8_t* const place =
        is_ragged() ? values_.data() + start_ + i * sizeof(std::int64_t) : reinterpret_cast<std::uint8_t*>(ints() + i);
    std::int64_t number;
    std::memcpy(&number, place, sizeof number);
    std::array<char, 24> text;
    const char* const end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
    const auto size = static_cast<std::size_t>(end - text.data());
    const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(text.data()), size);
    const std::uint64_t id = city_hash64(bytes);
    if (texts_ != nullptr) texts_->note(id, bytes);
    std::memcpy(place, &id, sizeof id);
  }
}

void ColumnSink::restart() {
  values_.truncate(start_);
  fill_missing(row_, 1);
  count_ = 0;
  kind_ = 0;
  numbers_ = false;
  wrong_ = nullptr;
}

void ColumnSink::reject_kind() const {
  fail(wrong_at_, "feature '" + spec_->name + "' holds " + wrong_ + ", " + name_of(*spec_) + " was asked for");
}

void ColumnSink::reject_strings() const {
  fail(wrong_at_, "feature '" + spec_->name + "' holds " + std::to_string(count_) + " strings, exactly one is wanted");
}

}  // namespace monolith::parse
