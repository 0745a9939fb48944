// tf.Example records made into Example records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parse/column.h"
#include "parse/name_index.h"

namespace monolith::parse {

// What becomes of a feature.
enum class FeatureRole {
  kLabel,   // Its floats are the labels.
  kWeight,  // Its float is the weight, if it has exactly one.
  kSparse,  // Its values become ids of layout v2 in `slot`.
  kDense,   // It is taken over as it is.
};

struct ConvertedFeature {
  std::string name;
  FeatureRole role = FeatureRole::kDense;
  std::uint32_t slot = 0;
};

struct ConvertedRecords {
  ValueBuffer data;            // Example records, end to end.
  ValueBuffer splits;          // int64, as of Records.
  std::vector<BadRecord> bad;  // In order; they are left out.
};

// Knows which features are wanted and as what. Safe to use from several threads at once.
class TfExampleConverter {
 public:
  // Throws std::invalid_argument if a name is there twice.
  explicit TfExampleConverter(std::vector<ConvertedFeature> features);

  // Converts all records, on all threads. Features come out in the order of their names, others are dropped; a record
  // without weight weighs 1. In a sparse feature an integer is the id's payload, a string is hashed, and a float x
  // becomes int(log2(|x| + 1)); one that is not finite makes its record bad. As everywhere in protobuf, the last of
  // several features of one name counts. Throws std::invalid_argument if the splits do not describe the data.
  ConvertedRecords convert(const Records& records) const;

 private:
  std::vector<ConvertedFeature> features_;  // By name.
  NameIndex names_;
};

}  // namespace monolith::parse
