// A training step on a plain array of rows by row number: the bound that a table's step is measured against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/plain_gather.h"

namespace monolith {

// Copies the weights of row ids[i] to out[i * dim ...] for all ids, then steps these rows with Adagrad, both with rows
// prefetched ahead and on all threads. A row is `dim` weights and `dim` of state. `out` and `gradients` have `dim`
// floats per id. Threads take `ids_per_task` ids at a time; a row number may occur in one task only, where every
// occurrence is a step of its own. There is no index, no search for repeated ids, no lock and no check of the outcome.
// Throws std::invalid_argument, with nothing changed, if a size does not fit or an id is outside the array.
void plain_train(std::span<float> rows, std::size_t dim, std::span<const std::int64_t> ids, std::span<float> out,
                 std::span<const float> gradients, float learning_rate, std::size_t ids_per_task,
                 FetchAhead ahead = FetchAhead::kNear);

}  // namespace monolith
