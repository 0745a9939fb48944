// monolith.io.proto.Feature, the oneof of Example and ExampleBatch.
#pragma once

#include "parse/column_sink.h"

namespace monolith::parse {

// Hands the feature's values to the sink; ids of layout v1 become layout v2.
void read_example_feature(Bytes feature, ColumnSink& sink);

}  // namespace monolith::parse
