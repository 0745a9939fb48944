#include "ops/chunks.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "ops/id_numbers.h"
#include "ops/parallel_for.h"

namespace monolith {

namespace {

constexpr std::size_t kElementsPerTask = 32768;

using Int32Span = std::span<const std::int32_t>;

std::size_t task_count(std::size_t elements) {
  return std::clamp<std::size_t>(elements / kElementsPerTask, 1, static_cast<std::size_t>(num_threads()));
}

// The part of [begin, begin + size) inside a task's range of the buffer.
struct Part {
  std::size_t skip;  // elements of the chunk before it
  std::size_t size;
};
Part part_inside(std::size_t begin, std::size_t size, std::size_t low, std::size_t high) {
  const std::size_t from = std::max(begin, low);
  const std::size_t to = std::min(begin + size, high);
  return from < to ? Part{from - begin, to - from} : Part{0, 0};
}

void check_dim(std::int64_t dim) {
  if (dim <= 0) throw std::invalid_argument("dims must be positive, got " + std::to_string(dim));
}

template <class Offset>
void check_offsets(std::span<const Offset> offsets, std::int64_t dim, std::size_t buffer_size) {
  for (const Offset offset : offsets) {
    if (offset < 0 || static_cast<std::size_t>(offset) > buffer_size ||
        static_cast<std::size_t>(dim) > buffer_size - static_cast<std::size_t>(offset)) {
      throw std::invalid_argument("offset " + std::to_string(offset) + " with " + std::to_string(dim) +
                                  " elements is outside a buffer of " + std::to_string(buffer_size));
    }
  }
}

template <class T>
std::size_t check_fused(std::span<const Int32Span> offsets, Int64Span dims, std::span<const std::span<T>> parts,
                        std::size_t fused_size) {
  if (offsets.size() != dims.size() || parts.size() != dims.size()) {
    throw std::invalid_argument("got " + std::to_string(offsets.size()) + " offsets, " + std::to_string(parts.size()) +
                                " tensors and " + std::to_string(dims.size()) +
                                " embedding_dims; give as many of each");
  }
  std::size_t elements = 0;
  for (std::size_t m = 0; m < dims.size(); ++m) {
    check_dim(dims[m]);
    check_offsets(offsets[m], dims[m], fused_size);
    const std::size_t expected = offsets[m].size() * static_cast<std::size_t>(dims[m]);
    if (parts[m].size() != expected) {
      throw std::invalid_argument("tensor " + std::to_string(m) + " has " + std::to_string(parts[m].size()) +
                                  " elements, expected " + std::to_string(expected));
    }
    elements += expected;
  }
  return elements;
}

// Where each chunk of the value begins, after checking that the map, the value and the buffer fit.
struct Chunk {
  std::size_t key;
  std::size_t begin;
  std::size_t dim;
};
std::vector<Chunk> check_map(const OffsetMap& map, std::size_t value_size, std::size_t buffer_size) {
  check_row_splits(map.pos_splits, map.pos.size(), "pos_split");
  check_row_splits(map.offset_splits, map.offsets.size(), "value_offset_map_split");
  if (map.pos_splits.size() - 1 != map.dims.size()) {
    throw std::invalid_argument("Pos's first dim doesn't match dim size. " + std::to_string(map.pos_splits.size() - 1) +
                                " vs " + std::to_string(map.dims.size()));
  }
  std::vector<Chunk> chunks;
  chunks.reserve(map.pos.size());
  std::size_t begin = 0;
  const std::size_t num_keys = map.offset_splits.size() - 1;
  for (std::size_t row = 0; row < map.dims.size(); ++row) {
    check_dim(map.dims[row]);
    for (std::int64_t k = map.pos_splits[row]; k < map.pos_splits[row + 1]; ++k) {
      const auto key = static_cast<std::size_t>(map.pos[k]);
      if (key >= num_keys) {
        throw std::invalid_argument("pos is bigger than offset size. " + std::to_string(map.pos[k]) + " vs " +
                                    std::to_string(num_keys));
      }
      const std::int64_t first = map.offset_splits[key];
      check_offsets(map.offsets.subspan(first, map.offset_splits[key + 1] - first), map.dims[row], buffer_size);
      chunks.push_back({key, begin, static_cast<std::size_t>(map.dims[row])});
      begin += static_cast<std::size_t>(map.dims[row]);
    }
  }
  if (begin != value_size) {
    throw std::invalid_argument("Value size doesn't match expected size. " + std::to_string(value_size) + " vs " +
                                std::to_string(begin));
  }
  return chunks;
}

}  // namespace

template <class T>
void fused_gather(std::span<const T> fused, std::span<const Int32Span> offsets, Int64Span dims,
                  std::span<const std::span<T>> outs) {
  const std::size_t num_tasks = task_count(check_fused(offsets, dims, outs, fused.size()));
  parallel_for(num_tasks, [&](std::size_t task) {
    for (std::size_t m = 0; m < dims.size(); ++m) {
      const auto dim = static_cast<std::size_t>(dims[m]);
      const std::size_t last = offsets[m].size() * (task + 1) / num_tasks;
      for (std::size_t j = offsets[m].size() * task / num_tasks; j < last; ++j) {
        std::memcpy(outs[m].data() + j * dim, fused.data() + offsets[m][j], dim * sizeof(T));
      }
    }
  });
}

template <class T>
void fused_gather_grad(std::span<const std::span<const T>> grads, std::span<const Int32Span> offsets, Int64Span dims,
                       T scale, std::span<T> fused) {
  const std::size_t num_tasks = task_count(check_fused(offsets, dims, grads, fused.size()));
  parallel_for(num_tasks, [&](std::size_t task) {
    const std::size_t low = fused.size() * task / num_tasks;
    const std::size_t high = fused.size() * (task + 1) / num_tasks;
    for (std::size_t m = 0; m < dims.size(); ++m) {
      const auto dim = static_cast<std::size_t>(dims[m]);
      for (std::size_t j = 0; j < offsets[m].size(); ++j) {
        const auto offset = static_cast<std::size_t>(offsets[m][j]);
        const Part part = part_inside(offset, dim, low, high);
        const T* from = grads[m].data() + j * dim + part.skip;
        T* to = fused.data() + offset + part.skip;
        for (std::size_t i = 0; i < part.size; ++i) to[i] += scale * from[i];
      }
    }
  });
}

UniqueKeys unique_keys_with_offsets(Int64Span keys, Int64Span key_splits, Int64Span dims) {
  check_row_splits(key_splits, keys.size(), "key_split");
  if (key_splits.size() - 1 != dims.size()) {
    throw std::invalid_argument("RaggedKey should have " + std::to_string(dims.size()) + " rows but got " +
                                std::to_string(key_splits.size() - 1));
  }
  UniqueKeys result;
  result.key_splits.push_back(0);
  result.offset_splits.push_back(0);
  result.offsets.resize(keys.size());
  std::vector<std::int64_t> inverse;
  for (std::size_t row = 0; row < dims.size(); ++row) {
    check_dim(dims[row]);
    const Int64Span row_keys = keys.subspan(key_splits[row], key_splits[row + 1] - key_splits[row]);
    const std::size_t before = result.keys.size();
    IdNumbers index(std::min<std::size_t>(row_keys.size(), 1024));
    inverse.clear();
    for (const std::int64_t key : row_keys) {
      const auto next = static_cast<std::int64_t>(result.keys.size() - before);
      inverse.push_back(index.insert(key, next));
      if (inverse.back() == next) result.keys.push_back(key);
    }
    const Groups groups = group_by_index(inverse, result.keys.size() - before);
    for (std::size_t k = 0; k < row_keys.size(); ++k) {
      result.offsets[key_splits[row] + k] = result.buffer_size + groups.order[k] * dims[row];
    }
    for (std::size_t u = 1; u < groups.splits.size(); ++u) {
      result.offset_splits.push_back(key_splits[row] + groups.splits[u]);
    }
    result.key_splits.push_back(static_cast<std::int64_t>(result.keys.size()));
    result.buffer_size += static_cast<std::int64_t>(row_keys.size()) * dims[row];
  }
  return result;
}

template <class T>
void fill_with_offset_map(const OffsetMap& map, std::span<const T> value, std::span<T> buffer) {
  const std::vector<Chunk> chunks = check_map(map, value.size(), buffer.size());
  const std::size_t num_tasks = task_count(buffer.size());
  parallel_for(num_tasks, [&](std::size_t task) {
    const std::size_t low = buffer.size() * task / num_tasks;
    const std::size_t high = buffer.size() * (task + 1) / num_tasks;
    for (const Chunk& chunk : chunks) {
      for (std::int64_t k = map.offset_splits[chunk.key]; k < map.offset_splits[chunk.key + 1]; ++k) {
        const auto offset = static_cast<std::size_t>(map.offsets[k]);
        const Part part = part_inside(offset, chunk.dim, low, high);
        std::copy_n(value.data() + chunk.begin + part.skip, part.size, buffer.data() + offset + part.skip);
      }
    }
  });
}

template <class T>
void fill_with_offset_map_grad(const OffsetMap& map, std::span<const T> grad_buffer, std::span<T> grad_value) {
  const std::vector<Chunk> chunks = check_map(map, grad_value.size(), grad_buffer.size());
  const std::size_t num_tasks = task_count(grad_buffer.size());
  parallel_for(num_tasks, [&](std::size_t task) {
    const std::size_t last = chunks.size() * (task + 1) / num_tasks;
    for (std::size_t c = chunks.size() * task / num_tasks; c < last; ++c) {
      const Chunk& chunk = chunks[c];
      T* to = grad_value.data() + chunk.begin;
      std::fill_n(to, chunk.dim, T(0));
      for (std::int64_t k = map.offset_splits[chunk.key]; k < map.offset_splits[chunk.key + 1]; ++k) {
        const T* from = grad_buffer.data() + map.offsets[k];
        for (std::size_t i = 0; i < chunk.dim; ++i) to[i] += from[i];
      }
    }
  });
}

#define INSTANTIATE(T)                                                                                           \
  template void fused_gather(std::span<const T>, std::span<const Int32Span>, Int64Span,                          \
                             std::span<const std::span<T>>);                                                     \
  template void fused_gather_grad(std::span<const std::span<const T>>, std::span<const Int32Span>, Int64Span, T, \
                                  std::span<T>);                                                                 \
  template void fill_with_offset_map(const OffsetMap&, std::span<const T>, std::span<T>);                        \
  template void fill_with_offset_map_grad(const OffsetMap&, std::span<const T>, std::span<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace monolith
