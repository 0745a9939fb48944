// Pooling: one output row per bag of value rows, and the gradients.
//
// Sums are taken in the order of the values, element by element, whatever the instruction set or number of threads:
// the result is always the same bits. An empty bag pools to zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/pooling.h"
#include "ops/ragged.h"

namespace monolith {

// The functions below exist for float and double. `dim` is the width of a row; all arrays are row-major. `kind` is not
// kFirstN, which has functions of its own.

// out[r] = pool of values[row_splits[r] .. row_splits[r+1]).
template <class T>
void pool(std::span<const T> values, Int64Span row_splits, std::size_t dim, Pooling kind, std::span<T> out);
template <class T>
void pool_grad(std::span<const T> grad_out, Int64Span row_splits, std::size_t dim, Pooling kind,
               std::span<T> grad_values);

// The same with values[k] = rows[inverse[k]], without making that array. The gradient *adds* to grad_rows, in the
// order of the occurrences.
template <class T>
void pool_unique(std::span<const T> rows, Int64Span inverse, Int64Span row_splits, std::size_t dim, Pooling kind,
                 std::span<T> out);
template <class T>
void pool_unique_grad(std::span<const T> grad_out, Int64Span inverse, Int64Span row_splits, std::size_t dim,
                      Pooling kind, std::span<T> grad_rows);

// out is [bags, length, dim]: the first `length` values of each bag, then zeros.
template <class T>
void first_n(std::span<const T> values, Int64Span row_splits, std::size_t dim, std::size_t length, std::span<T> out);
template <class T>
void first_n_grad(std::span<const T> grad_out, Int64Span row_splits, std::size_t dim, std::size_t length,
                  std::span<T> grad_values);

// out[i] = rows[index[i]]; the gradient adds grad_out[i] to grad_rows[index[i]], in the order of i.
template <class T>
void gather_rows(std::span<const T> rows, Int64Span index, std::size_t dim, std::span<T> out);
template <class T>
void scatter_add_rows(std::span<const T> grad_out, Int64Span index, std::size_t dim, std::span<T> grad_rows);

}  // namespace monolith
