// LineId: where a record comes from and what happened to it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "parse/column_sink.h"

namespace monolith::parse {

enum class LineIdKind { kInt64, kInt32, kBool, kFixed64, kFloat, kString };

struct LineIdField {
  std::string_view name;
  std::uint32_t number;
  LineIdKind kind;
  bool repeated;

  ValueType type() const {
    return kind == LineIdKind::kFloat    ? ValueType::kFloat32
           : kind == LineIdKind::kString ? ValueType::kBytes
                                         : ValueType::kInt64;
  }
};

// nullptr if there is no such field.
const LineIdField* find_line_id_field(std::string_view name);

// Reads the fields that columns ask for.
class LineIdReader {
 public:
  // Takes the specs of source kLineId; throws std::invalid_argument for an unknown field or another type than its own.
  explicit LineIdReader(std::span<const ColumnSpec> specs);

  bool wanted() const { return wanted_; }
  void read(Bytes line_id, std::span<ColumnSink> sinks) const;

 private:
  static constexpr std::uint32_t kMaxNumber = 235;

  struct Target {
    int column = -1;
    const LineIdField* field = nullptr;
  };

  std::array<Target, kMaxNumber + 1> targets_{};
  bool wanted_ = false;
};

}  // namespace monolith::parse
