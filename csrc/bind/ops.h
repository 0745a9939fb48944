// Array types and conversions that the bindings of ops share.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bind/module.h"

namespace monolith::bind {

// A wrong dtype, rank, device or memory layout is a TypeError.
template <class T>
using Flat = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Ids = Flat<const std::int64_t>;

template <class T, class... Args>
std::span<T> span_of(const nb::ndarray<T, Args...>& array) {
  return {array.data(), array.size()};
}

template <class Array>
auto spans_of(const std::vector<Array>& arrays) {
  std::vector<decltype(span_of(arrays[0]))> spans;
  spans.reserve(arrays.size());
  for (const Array& array : arrays) spans.push_back(span_of(array));
  return spans;
}

// Hands a vector to torch without copying it. Needs the GIL.
template <class T>
nb::ndarray<nb::pytorch, T, nb::ndim<1>> to_tensor(std::vector<T> values) {
  auto* owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::pytorch, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner);
}

void bind_ragged(nb::module_& m);
void bind_pooling(nb::module_& m);
void bind_routing(nb::module_& m);
void bind_hashing(nb::module_& m);
void bind_fused_layout(nb::module_& m);
void bind_interaction(nb::module_& m);

}  // namespace monolith::bind
