// Table servers and their clients.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bind/arrays.h"
#include "bind/module.h"
#include "net/sharded_call.h"
#include "net/table_service.h"
#include "ops/finite.h"
#include "ops/parallel_for.h"

namespace monolith::bind {

using namespace nb::literals;
using namespace monolith::net;

namespace {

using SharedTable = std::shared_ptr<RowTable>;
using Milliseconds = std::chrono::milliseconds;
using BytesIn = Array<const std::uint8_t>;

// The memory itself: nothing is copied.
nb::object memory_view(const std::byte* data, std::size_t size, int flags) {
  auto* const memory = const_cast<char*>(reinterpret_cast<const char*>(data));
  return nb::steal(PyMemoryView_FromMemory(memory, static_cast<Py_ssize_t>(size), flags));
}

// A frame, part by part, to write(memoryview).
class PythonSink : public ByteSink {
 public:
  explicit PythonSink(nb::callable write) : write_(std::move(write)) {}
  void write(std::span<const std::byte> bytes, bool) override {
    const nb::gil_scoped_acquire lock;
    write_(memory_view(bytes.data(), bytes.size(), PyBUF_READ));
  }
  bool is_slow() const override { return true; }

 private:
  nb::callable write_;
};

// A reply, part by part, from read_into(memoryview).
class PythonSource : public ByteSource {
 public:
  explicit PythonSource(nb::callable read_into) : read_into_(std::move(read_into)) {}
  void read(std::span<std::byte> to) override {
    const nb::gil_scoped_acquire lock;
    read_into_(memory_view(to.data(), to.size(), PyBUF_WRITE));
  }

 private:
  nb::callable read_into_;
};

// A connection that only Python can use, by its methods write(memoryview) and read_into(memoryview).
class PythonConnection : public ShardedCall::Connection {
 public:
  explicit PythonConnection(nb::handle connection) : connection_(connection) {}
  void write(std::span<const std::byte> bytes, bool) override { call("write", bytes.data(), bytes.size(), PyBUF_READ); }
  void read(std::span<std::byte> to) override { call("read_into", to.data(), to.size(), PyBUF_WRITE); }

 private:
  void call(const char* method, const std::byte* data, std::size_t size, int flags) {
    const nb::gil_scoped_acquire lock;
    try {
      connection_.attr(method)(memory_view(data, size, flags));
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_OSError)) throw;
      throw std::runtime_error(nb::str(error.value()).c_str());
    }
  }

  nb::handle connection_;
};

std::shared_ptr<TableService> make_service(const std::vector<SharedTable>& tables,
                                           const std::vector<bool>& counts_occurrences, std::uint64_t plan_hash,
                                           std::uint32_t shard, std::uint32_t num_shards, std::size_t max_partitions,
                                           std::uint64_t max_frame_bytes, bool read_only) {
  if (counts_occurrences.size() != tables.size()) {
    throw std::invalid_argument("counts_occurrences must have one value per table");
  }
  std::vector<ServedTable> served;
  for (std::size_t t = 0; t < tables.size(); ++t) served.push_back({tables[t], counts_occurrences[t]});
  ServiceOptions options;
  options.plan_hash = plan_hash;
  options.shard = shard;
  options.num_shards = num_shards;
  options.max_partitions = max_partitions;
  options.read_only = read_only;
  options.limits.max_frame_bytes = max_frame_bytes;
  return std::make_shared<TableService>(std::move(served), options);
}

// Returns whether the connection is of further use.
bool answer(TableService& service, BytesIn frame, std::optional<std::int64_t> deadline_ms, nb::callable write) {
  PythonSink python(std::move(write));
  return without_gil([&] {
    thread_local TableService::Scratch scratch;
    JoinedWrites sink(python);
    const auto bytes = std::as_bytes(as_span(frame));
    Deadline deadline;
    if (deadline_ms) deadline = deadline_after(Milliseconds(*deadline_ms));
    const Header header = decode_header(bytes.first(std::min(bytes.size(), kHeaderBytes)), service.limits());
    try {
      service.answer(header, bytes, deadline, scratch, sink);
    } catch (const CorruptFrame&) {
      return false;
    }
    return true;
  });
}

nb::bytes refusal_of(const Failure& failure) {
  return nb::bytes(reinterpret_cast<const char*>(failure.refusal.data()), failure.refusal.size());
}

nb::list to_python(const std::vector<Failure>& failures) {
  nb::list found;
  for (const Failure& one : failures) found.append(nb::make_tuple(one.shard, one.words, refusal_of(one)));
  return found;
}

nb::list exchange(ShardedCall& call, const std::vector<int>& sockets, std::uint64_t request_id,
                  std::int64_t timeout_ms) {
  return to_python(without_gil([&] { return call.exchange(sockets, request_id, Milliseconds(timeout_ms)); }));
}

nb::list exchange_over(ShardedCall& call, const std::vector<nb::object>& connections, std::uint64_t request_id,
                       std::int64_t timeout_ms) {
  std::vector<std::unique_ptr<PythonConnection>> used;
  for (const nb::object& one : connections) {
    used.push_back(one.is_none() ? nullptr : std::make_unique<PythonConnection>(one));
  }
  const auto connect = [&](std::size_t shard) { return used.at(shard).get(); };
  return to_python(without_gil([&] { return call.exchange(connect, request_id, Milliseconds(timeout_ms)); }));
}

// What became of one server's part of a call: nothing if all went well, or the words and the refusal.
using Trouble = std::optional<std::tuple<std::string, nb::bytes>>;

Trouble to_python(const std::optional<Failure>& failure) {
  if (!failure) return std::nullopt;
  return std::tuple(failure->words, refusal_of(*failure));
}

std::optional<Failure> sent(ShardedCall& call, std::size_t shard, std::uint64_t request_id, std::int64_t timeout_ms,
                            ByteSink& to) {
  try {
    call.send(shard, request_id, Milliseconds(timeout_ms), to);
    return std::nullopt;
  } catch (const std::runtime_error& error) {
    return Failure{shard, error.what(), {}};
  }
}

Trouble send(ShardedCall& call, std::size_t shard, int socket, std::uint64_t request_id, std::int64_t timeout_ms) {
  return to_python(without_gil([&] {
    SocketSink to(socket, deadline_after(Milliseconds(timeout_ms)));
    return sent(call, shard, request_id, timeout_ms, to);
  }));
}

Trouble send_over(ShardedCall& call, std::size_t shard, nb::callable write, std::uint64_t request_id,
                  std::int64_t timeout_ms) {
  PythonSink to(std::move(write));
  return to_python(without_gil([&] { return sent(call, shard, request_id, timeout_ms, to); }));
}

Trouble receive(ShardedCall& call, std::size_t shard, int socket, std::uint64_t request_id, std::int64_t timeout_ms) {
  return to_python(without_gil([&] {
    SocketSource from(socket, deadline_after(Milliseconds(timeout_ms)));
    return call.receive(shard, request_id, from);
  }));
}

Trouble receive_over(ShardedCall& call, std::size_t shard, nb::callable read_into, std::uint64_t request_id) {
  PythonSource from(std::move(read_into));
  return to_python(without_gil([&] { return call.receive(shard, request_id, from); }));
}

ShardedCall pull(const ShardedBatch& batch, FloatsOut out, std::uint64_t plan_hash, bool half) {
  return ShardedCall::pull(batch, plan_hash, half, sized(out, batch.num_floats()).data());
}

ShardedCall change(const ShardedBatch& batch, ChangeRequest::Kind kind, FloatsIn values,
                   const std::vector<float>& learning_rates, std::int64_t global_step, std::int64_t time,
                   nb::bytes partition, std::uint64_t begin, std::uint64_t end, std::uint64_t plan_hash, bool half,
                   bool counts) {
  ShardedCall::Change change;
  change.kind = kind;
  change.learning_rates = learning_rates;
  change.global_step = global_step;
  change.time = time;
  change.partition = std::string(partition.c_str(), partition.size());
  change.begin = begin;
  change.end = end;
  change.counts = counts;
  return ShardedCall::change(batch, plan_hash, half, change, sized(values, batch.num_floats()).data());
}

// By one thread: helpers stay awake for a while, and may keep a table server on the same machine from its core.
std::size_t first_not_finite_alone(const ShardedBatch&, FloatsIn values) {
  return without_gil([&] {
    const WorkAlone alone;
    return first_not_finite(as_span(values));
  });
}

std::size_t part_floats(const ShardedBatch& batch) {
  std::size_t total = 0;
  for (std::size_t shard = 0; shard < batch.num_shards(); ++shard) total += batch.part(shard).num_floats;
  return total;
}

std::vector<std::vector<std::int64_t>> part_sizes(const ShardedBatch& batch) {
  std::vector<std::vector<std::int64_t>> sizes;
  for (std::size_t shard = 0; shard < batch.num_shards(); ++shard) sizes.push_back(batch.part(shard).sizes);
  return sizes;
}

void part_ids(const ShardedBatch& batch, IdsOut out) {
  auto to = sized(out, batch.num_unique()).begin();
  for (std::size_t shard = 0; shard < batch.num_shards(); ++shard)
    to = std::ranges::copy(batch.part(shard).ids, to).out;
}

void scatter_parts(const ShardedBatch& batch, FloatsIn rows, FloatsOut out) {
  const float* from = sized(rows, part_floats(batch)).data();
  float* const to = sized(out, batch.num_floats()).data();
  for (std::size_t shard = 0; shard < batch.num_shards(); ++shard) {
    for (std::size_t table = 0; table < batch.num_tables(); ++table) {
      const auto count = static_cast<std::size_t>(batch.part(shard).sizes[table]);
      batch.scatter(shard, table, 0, count, from, to);
      from += count * batch.dim(table);
    }
  }
}

void sum_parts(const ShardedBatch& batch, FloatsIn values, FloatsOut out) {
  const float* const from = sized(values, batch.num_floats()).data();
  float* to = sized(out, part_floats(batch)).data();
  for (std::size_t shard = 0; shard < batch.num_shards(); ++shard) {
    for (std::size_t table = 0; table < batch.num_tables(); ++table) {
      const auto count = static_cast<std::size_t>(batch.part(shard).sizes[table]);
      batch.gather_sums(shard, table, 0, count, from, to);
      to += count * batch.dim(table);
    }
  }
}

void bind_service(nb::module_& m) {
  nb::class_<TableService>(m, "TableService")
      .def(nb::new_(&make_service), "tables"_a, "counts_occurrences"_a, nb::kw_only(), "plan_hash"_a, "shard"_a,
           "num_shards"_a, "max_partitions"_a, "max_frame_bytes"_a, "read_only"_a = false)
      .def(
          "serve",
          [](TableService& service, int socket, std::int64_t frame_timeout_ms) {
            with_os_errors([&] { serve_connection(service, socket, Milliseconds(frame_timeout_ms)); });
          },
          "socket"_a, "frame_timeout_ms"_a)
      .def("answer", &answer, "frame"_a.noconvert(), "deadline_ms"_a.none(), "write"_a)
      .def(
          "applied_batches", [](TableService& service) { return service.applied().ends(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "restore_applied_batches",
          [](TableService& service, const std::vector<std::pair<std::string, std::uint64_t>>& ends) {
            service.applied().restore(ends);
          },
          "ends"_a, nb::call_guard<nb::gil_scoped_release>());
}

void bind_client(nb::module_& m) {
  const auto release = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<ShardedCall>(m, "ShardedCall")
      .def_prop_ro("pending", &ShardedCall::pending)
      .def_prop_ro("result", &ShardedCall::result)
      .def_prop_ro("num_applied", &ShardedCall::num_applied)
      .def("exchange", &exchange, "sockets"_a, "request_id"_a, "timeout_ms"_a)
      .def("exchange_over", &exchange_over, "connections"_a, "request_id"_a, "timeout_ms"_a)
      .def("send", &send, "shard"_a, "socket"_a, "request_id"_a, "timeout_ms"_a)
      .def("send_over", &send_over, "shard"_a, "write"_a, "request_id"_a, "timeout_ms"_a)
      .def("receive", &receive, "shard"_a, "socket"_a, "request_id"_a, "timeout_ms"_a)
      .def("receive_over", &receive_over, "shard"_a, "read_into"_a, "request_id"_a);
  m.def(
      "await_any",
      [](const std::vector<int>& sockets, std::int64_t timeout_ms) {
        return with_os_errors([&] { return await_any(sockets, deadline_after(Milliseconds(timeout_ms))); });
      },
      "sockets"_a, "timeout_ms"_a);
  nb::class_<ShardedBatch>(m, "ShardedBatch")
      .def(
          "__init__",
          [](ShardedBatch* self, const std::vector<std::size_t>& dims, std::size_t num_shards, IdsIn ids,
             const std::vector<std::int64_t>& sizes,
             bool merge_repeated) { new (self) ShardedBatch(dims, num_shards, as_span(ids), sizes, merge_repeated); },
          "dims"_a, "num_shards"_a, "ids"_a.noconvert(), "sizes"_a, "merge_repeated"_a, release)
      .def_prop_ro("num_ids", &ShardedBatch::num_ids)
      .def_prop_ro("num_unique", &ShardedBatch::num_unique)
      .def_prop_ro("num_floats", &ShardedBatch::num_floats)
      .def("first_not_finite", &first_not_finite_alone, "values"_a.noconvert())
      // The parts of all shards end to end, for ranks that exchange them among themselves.
      .def_prop_ro("part_sizes", &part_sizes)
      .def_prop_ro("part_floats", &part_floats)
      .def("part_ids", &part_ids, "out"_a.noconvert(), release)
      .def("scatter_parts", &scatter_parts, "rows"_a.noconvert(), "out"_a.noconvert(), release)
      .def("sum_parts", &sum_parts, "values"_a.noconvert(), "out"_a.noconvert(), release)
      // A call writes to `out`, or reads `values`, and reads the batch as long as it lasts.
      .def("pull", &pull, "out"_a.noconvert(), nb::kw_only(), "plan_hash"_a, "half"_a, nb::keep_alive<0, 1>(),
           nb::keep_alive<0, 2>())
      .def("change", &change, "kind"_a, "values"_a.noconvert(), nb::kw_only(), "learning_rates"_a, "global_step"_a,
           "time"_a, "partition"_a, "begin"_a, "end"_a, "plan_hash"_a, "half"_a, "counts"_a, nb::keep_alive<0, 1>(),
           nb::keep_alive<0, 3>());
}

}  // namespace

void bind_net(nb::module_& m) {
  nb::exception<CorruptFrame>(m, "CorruptFrame", PyExc_ValueError);
  bind_service(m);
  bind_client(m);
}

}  // namespace monolith::bind
