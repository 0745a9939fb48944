// Tables, batch plans and table files.
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

#include "bind/arrays.h"
#include "bind/finite_checks.h"
#include "bind/module.h"
#include "ops/finite.h"
#include "table/multi_table.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

using SharedTable = std::shared_ptr<RowTable>;

void check_values(const RowTable& table, std::size_t num_ids, const FloatsIn2d& values, const char* what) {
  if (values.shape(0) != num_ids || values.shape(1) != table.dim()) {
    throw std::invalid_argument("table '" + table.options().name + "': " + what + " must be " +
                                std::to_string(num_ids) + " x " + std::to_string(table.dim()) + " (ids x dim), got " +
                                std::to_string(values.shape(0)) + " x " + std::to_string(values.shape(1)));
  }
}

void check_out(const RowTable& table, std::size_t rows, const FloatsOut2d& out) {
  if (out.shape(0) != rows || out.shape(1) != table.dim()) {
    throw std::invalid_argument("table '" + table.options().name + "': out must be " + std::to_string(rows) + " x " +
                                std::to_string(table.dim()) + " (ids x dim), got " + std::to_string(out.shape(0)) +
                                " x " + std::to_string(out.shape(1)));
  }
}

void check_trains(const RowTable& table) {
  if (table.options().serving) {
    throw std::invalid_argument("table '" + table.options().name +
                                "' is a serving table and takes no gradients; train a table with serving=False");
  }
}

void check_rates(const RowTable& table, const std::vector<float>& rates) {
  if (rates.size() != table.layout().num_segments()) {
    throw std::invalid_argument(
        "table '" + table.options().name + "': learning_rates must have one value per segment: " +
        std::to_string(table.layout().num_segments()) + ", got " + std::to_string(rates.size()));
  }
}

ChangeRequest step_request(const float* gradients, const std::vector<float>& rates, std::int64_t global_step,
                           std::uint32_t time, bool sum_repeated) {
  if (global_step < 0) {
    throw std::invalid_argument("global_step must not be negative, got " + std::to_string(global_step));
  }
  ChangeRequest request;
  request.values = gradients;
  request.learning_rates = rates;
  request.global_step = global_step;
  request.time = time;
  request.sum_repeated = sum_repeated;
  return request;
}

// One batch of one table: ids grouped, and rows remembered between lookup and step.
class BoundBatchPlan {
 public:
  BoundBatchPlan(SharedTable table, IdsIn ids, bool merge_repeated) : table_(std::move(table)), plan_(acquire_plan()) {
    plan_->build(as_span(ids), merge_repeated, table_->hash());
  }

  std::size_t num_ids() const { return plan_->num_ids(); }
  std::size_t num_unique() const { return plan_->num_groups(); }
  void write_ids(IdsOut out) const { plan_->write_ids(sized(out, num_unique())); }
  void write_inverse(Int32sOut out) const { plan_->write_inverse(sized(out, num_ids())); }
  void write_counts(Int32sOut out) const { plan_->write_counts(sized(out, num_unique())); }

  std::size_t lookup(FloatsOut2d out) {
    check_out(*table_, num_ids(), out);
    return table_->lookup(*plan_, out.data(), table_->dim());
  }
  std::size_t lookup_unique(FloatsOut2d out) {
    check_out(*table_, num_unique(), out);
    return table_->lookup_groups(*plan_, out.data());
  }
  ChangeResult change(ChangeRequest::Kind kind, FloatsIn2d values, std::uint32_t time) {
    check_values(*table_, num_ids(), values, "values");
    check_finite(*table_, *plan_, {values.data(), values.size()}, Meaning::kValues);
    ChangeRequest request;
    request.kind = kind;
    request.values = values.data();
    request.time = time;
    return table_->change(*plan_, request);
  }
  ChangeResult step(FloatsIn2d gradients, const std::vector<float>& rates, std::int64_t global_step, std::uint32_t time,
                    bool sum_repeated) {
    check_trains(*table_);
    check_rates(*table_, rates);
    check_values(*table_, num_ids(), gradients, "gradients");
    check_finite(*table_, *plan_, {gradients.data(), gradients.size()}, Meaning::kGradients);
    return table_->change(*plan_, step_request(gradients.data(), rates, global_step, time, sum_repeated));
  }
  ChangeResult step_unique(FloatsIn2d gradients, const std::vector<float>& rates, std::int64_t global_step,
                           std::uint32_t time) {
    check_trains(*table_);
    check_rates(*table_, rates);
    check_values(*table_, num_unique(), gradients, "gradients");
    check_finite(*table_, *plan_, {gradients.data(), gradients.size()}, Meaning::kGradients, true);
    ChangeRequest request = step_request(gradients.data(), rates, global_step, time, true);
    request.per_group = true;
    return table_->change(*plan_, request);
  }

 private:
  SharedTable table_;
  PooledPlan plan_;
};

class BoundMultiBatchPlan {
 public:
  BoundMultiBatchPlan(std::vector<SharedTable> tables, IdsIn ids, const std::vector<std::int64_t>& sizes,
                      bool merge_repeated)
      : tables_(tables), plan_(std::move(tables), as_span(ids), sizes, merge_repeated) {}
  BoundMultiBatchPlan(const BoundMultiBatchPlan&) = delete;
  BoundMultiBatchPlan& operator=(const BoundMultiBatchPlan&) = delete;

  std::size_t num_ids() const { return plan_.num_ids(); }
  std::size_t num_unique() const { return plan_.num_groups(); }
  std::size_t num_floats() const { return plan_.num_floats(); }
  std::size_t lookup(FloatsOut out) { return plan_.lookup(sized(out, plan_.num_floats()).data()); }
  ChangeResult change(ChangeRequest::Kind kind, FloatsIn values, std::uint32_t time) {
    ChangeRequest request;
    request.kind = kind;
    request.values = checked(values, Meaning::kValues);
    request.time = time;
    return plan_.change(request);
  }
  ChangeResult step(FloatsIn gradients, const std::vector<float>& rates, std::int64_t global_step, std::uint32_t time,
                    bool sum_repeated) {
    for (const SharedTable& table : tables_) check_trains(*table);
    const float* values = checked(gradients, Meaning::kGradients);
    return plan_.change(step_request(values, rates, global_step, time, sum_repeated));
  }

 private:
  // Those of all tables before the first table changes.
  const float* checked(FloatsIn array, Meaning meaning) {
    const auto values = sized(array, plan_.num_floats());
    // One pass that all threads share; table by table only to say where.
    if (first_not_finite(values) == values.size()) return values.data();
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      check_finite(*tables_[t], plan_.plan(t), plan_.values_of(t, values), meaning);
    }
    return values.data();
  }

  std::vector<SharedTable> tables_;
  MultiBatchPlan plan_;
};

nb::tuple to_python(RowBatch&& batch, std::size_t row_bytes) {
  const std::size_t count = batch.ids.size();
  return nb::make_tuple(to_array(std::move(batch.ids)), to_array(std::move(batch.last_seen)),
                        to_array_2d(std::move(batch.rows), count, row_bytes));
}

std::span<const std::byte> checked_rows(const RowTable& table, IdsIn ids, BytesIn2d rows) {
  if (rows.shape(0) != ids.shape(0) || rows.shape(1) != table.layout().row_bytes()) {
    throw std::invalid_argument("table '" + table.options().name + "': rows must be " + std::to_string(ids.shape(0)) +
                                " x " + std::to_string(table.layout().row_bytes()) + " bytes");
  }
  const auto bytes = std::as_bytes(std::span(rows.data(), rows.size()));
  check_finite_rows(table, as_span(ids), bytes);
  return bytes;
}

void restore_rows(RowTable& table, IdsIn ids, UInt32sIn last_seen, BytesIn2d rows) {
  table.restore(as_span(ids), sized(last_seen, ids.shape(0)), checked_rows(table, ids, rows));
}

std::size_t lookup_ids(const RowTable& table, IdsIn ids, FloatsOut2d out) {
  check_out(table, ids.shape(0), out);
  return table.lookup(as_span(ids), out.data(), table.dim());
}

std::vector<std::int32_t> reinitialize(RowTable& table, IdsIn ids, std::uint32_t time) {
  std::vector<std::int32_t> status(ids.shape(0));
  table.reinitialize(as_span(ids), time, status.data());
  return status;
}

void bind_configs(nb::module_& m) {
  nb::class_<OptimizerConfig>(m, "OptimizerConfig")
      .def(
          "__init__",
          [](OptimizerConfig* self, std::string kind, std::vector<float> params, bool stochastic_rounding_float16,
             float max_gradient_norm) {
            new (self)
                OptimizerConfig{std::move(kind), std::move(params), stochastic_rounding_float16, max_gradient_norm};
          },
          "kind"_a, "params"_a, "stochastic_rounding_float16"_a = false, "max_gradient_norm"_a = 0.0F);
  nb::class_<InitializerConfig>(m, "InitializerConfig")
      .def(
          "__init__",
          [](InitializerConfig* self, std::string kind, float a, float b, std::uint64_t seed) {
            new (self) InitializerConfig{std::move(kind), a, b, seed};
          },
          "kind"_a, "a"_a = 0.0F, "b"_a = 0.0F, "seed"_a = 0);
  nb::class_<CompressorConfig>(m, "CompressorConfig")
      .def(
          "__init__",
          [](CompressorConfig* self, std::string kind, float r, std::int64_t step_size, float init_scale,
             float max_scale, float amplitude) {
            new (self) CompressorConfig{std::move(kind), r, step_size, init_scale, max_scale, amplitude};
          },
          "kind"_a, "r"_a = 1.0F, "step_size"_a = 200, "init_scale"_a = 1.0F, "max_scale"_a = 10000.0F,
          "amplitude"_a = 0.1F);
  nb::class_<SegmentConfig>(m, "SegmentConfig")
      .def(
          "__init__",
          [](SegmentConfig* self, std::uint32_t dim, OptimizerConfig optimizer, InitializerConfig initializer,
             CompressorConfig compressor) {
            new (self) SegmentConfig{dim, std::move(optimizer), std::move(initializer), std::move(compressor)};
          },
          "dim"_a, "optimizer"_a, "initializer"_a, "compressor"_a);
}

void bind_results(nb::module_& m) {
  nb::class_<ChangeResult>(m, "ChangeResult")
      .def_ro("inserted", &ChangeResult::inserted)
      .def_ro("filtered", &ChangeResult::filtered)
      .def_ro("refused", &ChangeResult::refused);
  nb::class_<TableProgress>(m, "TableProgress")
      .def_ro("max_time", &TableProgress::max_time)
      .def_ro("max_step", &TableProgress::max_step);
  nb::class_<TableMemory>(m, "TableMemory")
      .def_ro("index_bytes", &TableMemory::index_bytes)
      .def_ro("row_bytes", &TableMemory::row_bytes)
      .def_ro("payload_bytes", &TableMemory::payload_bytes);
  nb::class_<EntryDump>(m, "EntryDump")
      .def_ro("found", &EntryDump::found)
      .def_ro("last_seen", &EntryDump::last_seen)
      .def_ro("weights", &EntryDump::weights)
      .def_ro("state", &EntryDump::state);
  nb::enum_<ChangeRequest::Kind>(m, "ChangeKind")
      .value("STEP", ChangeRequest::Kind::kStep)
      .value("ASSIGN", ChangeRequest::Kind::kAssign)
      .value("ADD", ChangeRequest::Kind::kAdd);
}

SharedTable make_table(std::string name, std::vector<SegmentConfig> segments, bool serving, bool skip_zero_embedding,
                       std::size_t initial_capacity, std::size_t max_memory_bytes, bool evict_oldest,
                       std::uint32_t expire_days, std::unordered_map<std::uint32_t, std::uint32_t> slot_expire_days,
                       std::size_t max_changes, std::uint32_t shard, std::uint32_t num_shards) {
  TableOptions options;
  options.name = std::move(name);
  options.shard = {shard, num_shards};
  options.segments = std::move(segments);
  options.serving = serving;
  options.skip_zero_embedding = skip_zero_embedding;
  options.initial_capacity = initial_capacity;
  options.max_memory_bytes = max_memory_bytes;
  options.memory_policy = evict_oldest ? MemoryPolicy::kEvictOldest : MemoryPolicy::kRefuseNewIds;
  options.default_expire_days = expire_days;
  options.slot_expire_days = std::move(slot_expire_days);
  options.max_changes_per_consumer = max_changes;
  return std::make_shared<RowTable>(std::move(options));
}

void bind_row_table(nb::module_& m) {
  const auto release = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<RowTable>(m, "RowTable")
      .def(nb::new_(&make_table), "name"_a, "segments"_a, "serving"_a = false, "skip_zero_embedding"_a = false,
           "initial_capacity"_a = 0, "max_memory_bytes"_a = 0, "evict_oldest"_a = false, "expire_days"_a = 36500,
           "slot_expire_days"_a = std::unordered_map<std::uint32_t, std::uint32_t>{},
           "max_changes_per_consumer"_a = std::size_t{64} << 20, "shard"_a = 0, "num_shards"_a = 1)
      .def_prop_ro("dim", &RowTable::dim)
      .def_prop_ro("row_bytes", [](const RowTable& t) { return t.layout().row_bytes(); })
      .def_prop_ro("weight_bytes", [](const RowTable& t) { return t.layout().weight_bytes(); })
      .def_prop_ro("max_time", &RowTable::max_time)
      .def("raise_max_time", &RowTable::raise_max_time, "time"_a)
      .def_prop_ro("max_step", &RowTable::max_step)
      .def("raise_max_step", &RowTable::raise_max_step, "global_step"_a)
      .def(
          "sub_tables_of",
          [](const RowTable& t, std::uint32_t shard, std::uint32_t num_shards) {
            const HashShard wanted{shard, num_shards};
            wanted.check();
            const TableHash::SubTables touched = t.hash().sub_tables_of(wanted);
            return nb::make_tuple(touched.first, touched.last);
          },
          "shard"_a, "num_shards"_a)
      .def("size", &RowTable::size, release)
      .def("memory", &RowTable::memory, release)
      .def("set_filter", &RowTable::set_filter, "filter"_a.none(), "thresholds"_a)
      .def("lookup", &lookup_ids, "ids"_a.noconvert(), "out"_a.noconvert(), release)
      .def(
          "lookup_entries", [](const RowTable& t, IdsIn ids) { return t.lookup_entries(as_span(ids)); },
          "ids"_a.noconvert(), release)
      .def(
          "contains",
          [](const RowTable& t, IdsIn ids, BoolsOut out) { t.contains(as_span(ids), sized(out, ids.shape(0)).data()); },
          "ids"_a.noconvert(), "out"_a.noconvert(), release)
      .def(
          "erase", [](RowTable& t, IdsIn ids) { return t.erase(as_span(ids)); }, "ids"_a.noconvert(), release)
      .def("reinitialize", &reinitialize, "ids"_a.noconvert(), "time"_a, release)
      .def("evict", &RowTable::evict, "now"_a, release)
      .def("clear", &RowTable::clear, release)
      .def(
          "check_rows", [](const RowTable& t, IdsIn ids, BytesIn2d rows) { checked_rows(t, ids, rows); },
          "ids"_a.noconvert(), "rows"_a.noconvert(), release)
      .def("restore", &restore_rows, "ids"_a.noconvert(), "last_seen"_a.noconvert(), "rows"_a.noconvert(), release)
      .def("begin_snapshot", nb::overload_cast<>(&RowTable::begin_snapshot), release)
      .def("end_snapshot", &RowTable::end_snapshot, release)
      .def(
          "read_snapshot",
          [](RowTable& t, std::uint32_t sub_table) {
            check_sub_table(sub_table);
            return to_python(without_gil([&] { return t.read_snapshot(sub_table); }), t.layout().row_bytes());
          },
          "sub_table"_a)
      .def(
          "read_rows",
          [](const RowTable& t, std::uint32_t sub_table) {
            check_sub_table(sub_table);
            return to_python(without_gil([&] { return t.read_rows(sub_table); }), t.layout().row_bytes());
          },
          "sub_table"_a)
      .def("add_consumer", &RowTable::add_consumer, release)
      .def("remove_consumer", &RowTable::remove_consumer, "consumer"_a, release)
      .def(
          "take_changes",
          [](RowTable& t, std::size_t consumer) {
            Changes changes = without_gil([&] { return t.take_changes(consumer); });
            return nb::make_tuple(to_array(std::move(changes.touched)), to_array(std::move(changes.erased)),
                                  changes.overflowed);
          },
          "consumer"_a)
      .def(
          "give_back_changes",
          [](RowTable& t, std::size_t consumer, IdsIn touched, IdsIn erased, bool overflowed) {
            const auto a = as_span(touched);
            const auto b = as_span(erased);
            t.give_back_changes(consumer, {{a.begin(), a.end()}, {b.begin(), b.end()}, overflowed});
          },
          "consumer"_a, "touched"_a.noconvert(), "erased"_a.noconvert(), "overflowed"_a, release);
}

void bind_plans(nb::module_& m) {
  const auto release = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<BoundBatchPlan>(m, "BatchPlan")
      .def(nb::init<SharedTable, IdsIn, bool>(), "table"_a, "ids"_a.noconvert(), "merge_repeated"_a = true, release)
      .def_prop_ro("num_ids", &BoundBatchPlan::num_ids)
      .def_prop_ro("num_unique", &BoundBatchPlan::num_unique)
      .def("write_ids", &BoundBatchPlan::write_ids, "out"_a.noconvert(), release)
      .def("write_inverse", &BoundBatchPlan::write_inverse, "out"_a.noconvert(), release)
      .def("write_counts", &BoundBatchPlan::write_counts, "out"_a.noconvert(), release)
      .def("lookup", &BoundBatchPlan::lookup, "out"_a.noconvert(), release)
      .def("lookup_unique", &BoundBatchPlan::lookup_unique, "out"_a.noconvert(), release)
      .def("change", &BoundBatchPlan::change, "kind"_a, "values"_a.noconvert(), "time"_a, release)
      .def("step", &BoundBatchPlan::step, "gradients"_a.noconvert(), "learning_rates"_a, "global_step"_a, "time"_a,
           "sum_repeated"_a = true, release)
      .def("step_unique", &BoundBatchPlan::step_unique, "gradients"_a.noconvert(), "learning_rates"_a, "global_step"_a,
           "time"_a, release);
  nb::class_<BoundMultiBatchPlan>(m, "MultiBatchPlan")
      .def(nb::init<std::vector<SharedTable>, IdsIn, const std::vector<std::int64_t>&, bool>(), "tables"_a,
           "ids"_a.noconvert(), "sizes"_a, "merge_repeated"_a = true, release)
      .def_prop_ro("num_ids", &BoundMultiBatchPlan::num_ids)
      .def_prop_ro("num_unique", &BoundMultiBatchPlan::num_unique)
      .def_prop_ro("num_floats", &BoundMultiBatchPlan::num_floats)
      .def("lookup", &BoundMultiBatchPlan::lookup, "out"_a.noconvert(), release)
      .def("change", &BoundMultiBatchPlan::change, "kind"_a, "values"_a.noconvert(), "time"_a, release)
      .def("step", &BoundMultiBatchPlan::step, "gradients"_a.noconvert(), "learning_rates"_a, "global_step"_a, "time"_a,
           "sum_repeated"_a = true, release);
}

}  // namespace

void bind_tables(nb::module_& m) {
  nb::exception<NotFiniteRow>(m, "NotFiniteRow", PyExc_ValueError);
  m.def(
      "first_not_finite", [](FloatsIn values) { return first_not_finite(as_span(values)); }, "values"_a.noconvert(),
      nb::call_guard<nb::gil_scoped_release>(),
      "Returns the place of the first value that is NaN or infinite, or the number of values.");
  bind_configs(m);
  bind_results(m);
  bind_row_table(m);
  bind_plans(m);
}

}  // namespace monolith::bind
