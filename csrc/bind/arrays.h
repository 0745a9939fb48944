// Arrays in and out of Python: checked, never copied.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "table/id_hash.h"

namespace monolith::bind {

namespace nb = nanobind;

template <typename T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Array2d = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

using IdsIn = Array<const std::int64_t>;
using IdsOut = Array<std::int64_t>;
using Int32sOut = Array<std::int32_t>;
using UInt32sIn = Array<const std::uint32_t>;
using BoolsOut = Array<bool>;
using FloatsIn = Array<const float>;
using FloatsOut = Array<float>;
using FloatsIn2d = Array2d<const float>;
using FloatsOut2d = Array2d<float>;
using BytesIn2d = Array2d<const std::uint8_t>;

template <typename T>
std::span<T> as_span(const Array<T>& array) {
  return {array.data(), array.shape(0)};
}

// The array as a span, once it has the size it must have.
template <typename T>
std::span<T> sized(const Array<T>& array, std::size_t size) {
  if (array.shape(0) != size) {
    throw std::invalid_argument("an array of " + std::to_string(size) + " elements is wanted here, got " +
                                std::to_string(array.shape(0)));
  }
  return as_span(array);
}

inline void check_sub_table(std::uint32_t sub_table) {
  if (sub_table >= kNumSubTables) {
    throw std::invalid_argument("sub-tables are 0 to " + std::to_string(kNumSubTables - 1) + ", got " +
                                std::to_string(sub_table));
  }
}

template <typename T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> to_array(std::vector<T>&& values) {
  auto* owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return {owned->data(), {owned->size()}, owner};
}

inline nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<2>> to_array_2d(std::vector<std::byte>&& bytes, std::size_t rows,
                                                                     std::size_t columns) {
  auto* owned = new std::vector<std::byte>(std::move(bytes));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<std::byte>*>(p); });
  return {reinterpret_cast<std::uint8_t*>(owned->data()), {rows, columns}, owner};
}

template <typename Work>
auto without_gil(Work&& work) {
  const nb::gil_scoped_release release;
  return work();
}

// Runs without the GIL; what the system refused becomes the OSError of its number.
template <typename Work>
auto with_os_errors(Work&& work) {
  try {
    return without_gil(work);
  } catch (const std::system_error& error) {
    const nb::object arguments = nb::make_tuple(error.code().value(), error.what());
    PyErr_SetObject(PyExc_OSError, arguments.ptr());
    throw nb::python_error();
  }
}

}  // namespace monolith::bind
