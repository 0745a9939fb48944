// Bounds for benchmarks: what plain memory can do, on ordinary and on huge pages.
#include <nanobind/ndarray.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

#include "bind/module.h"
#include "ops/plain_gather.h"
#include "ops/plain_train.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace monolith::bind {

using namespace nb::literals;

namespace {

using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>, nb::c_contig>;

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

void gather(const Rows& rows, const Ids& ids, const Out& out, bool streaming, bool far) {
  if (out.shape(0) != ids.shape(0) || out.shape(1) != rows.shape(1)) {
    throw std::invalid_argument("out is [" + std::to_string(out.shape(0)) + ", " + std::to_string(out.shape(1)) +
                                "], but " + std::to_string(ids.shape(0)) + " ids of rows of " +
                                std::to_string(rows.shape(1)) + " floats need [" + std::to_string(ids.shape(0)) + ", " +
                                std::to_string(rows.shape(1)) + "]");
  }
  plain_gather({rows.data(), rows.size()}, rows.shape(1), {ids.data(), ids.size()}, {out.data(), out.size()},
               streaming ? GatherStores::kStreaming : GatherStores::kCached,
               far ? FetchAhead::kFar : FetchAhead::kNear);
}

void train(const Out& rows, const Ids& ids, const Out& out, const Rows& gradients, float learning_rate,
           std::size_t ids_per_task, bool far) {
  plain_train({rows.data(), rows.size()}, out.shape(1), {ids.data(), ids.size()}, {out.data(), out.size()},
              {gradients.data(), gradients.size()}, learning_rate, ids_per_task,
              far ? FetchAhead::kFar : FetchAhead::kNear);
}

Bytes huge_empty(std::size_t num_bytes) {
  if (num_bytes == 0) throw std::invalid_argument("num_bytes is 0; ask for at least one byte");
  if (num_bytes > SIZE_MAX - kHugePageBytes) throw std::bad_alloc();
  const std::size_t whole_pages = (num_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* memory = std::aligned_alloc(kHugePageBytes, whole_pages);
  if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  // Advice only: a kernel without huge pages leaves ordinary ones, and the array still works.
  madvise(memory, whole_pages, MADV_HUGEPAGE);
#endif
  nb::capsule owner(memory, [](void* pointer) noexcept { std::free(pointer); });
  return Bytes(memory, {num_bytes}, owner);
}

}  // namespace

void bind_bounds(nb::module_& m) {
  m.def("plain_gather", &gather, "rows"_a.noconvert(), "ids"_a.noconvert(), "out"_a.noconvert(), "streaming"_a,
        "far"_a = false, nb::call_guard<nb::gil_scoped_release>(),
        "Writes rows[ids] to out with rows fetched ahead, on all threads: the bound for a table's "
        "lookup.");
  m.def("plain_train", &train, "rows"_a.noconvert(), "ids"_a.noconvert(), "out"_a.noconvert(),
        "gradients"_a.noconvert(), "learning_rate"_a, "ids_per_task"_a, "far"_a = false,
        nb::call_guard<nb::gil_scoped_release>(),
        "Writes the weights of rows[ids] to out, then steps these rows with Adagrad: the bound for a training step.");
  m.def("huge_empty", &huge_empty, "num_bytes"_a,
        "Returns uninitialised bytes on huge pages where the kernel has them, as a NumPy array that owns them.");
}

}  // namespace monolith::bind
