// Table files.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/arrays.h"
#include "bind/module.h"
#include "io/table_file.h"

namespace monolith::bind {

using namespace nb::literals;

namespace {

TableFileInfo make_info(std::uint32_t num_shards, const std::string& schema, std::uint64_t plan_hash,
                        std::uint64_t generation, std::uint64_t epoch) {
  TableFileInfo info;
  info.num_shards = num_shards;
  info.schema = schema;
  info.plan_hash = plan_hash;
  info.generation = generation;
  info.epoch = epoch;
  return info;
}

void bind_frozen_table(nb::module_& m) {
  nb::class_<SavedTable>(m, "SavedTable")
      .def_ro("num_rows", &SavedTable::num_rows)
      .def_ro("num_dropped", &SavedTable::num_dropped)
      .def_ro("checksums", &SavedTable::checksums);
  nb::class_<ReshardedTable>(m, "ReshardedTable")
      .def_ro("read", &ReshardedTable::read)
      .def_ro("written", &ReshardedTable::written);
  const auto release = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<FrozenTable>(m, "FrozenTable")
      .def(nb::init<std::shared_ptr<RowTable>, std::optional<std::size_t>>(), "table"_a, "consumer"_a = nb::none(),
           release)
      .def_prop_ro("overflowed", &FrozenTable::overflowed)
      .def("close", &FrozenTable::close, release)
      .def(
          "save",
          [](FrozenTable& self, const std::string& basename, std::uint32_t num_shards, const std::string& schema,
             std::uint64_t plan_hash, std::uint64_t generation, std::uint64_t epoch, bool drop_expired,
             bool in_parallel) {
            const TableFileInfo info = make_info(num_shards, schema, plan_hash, generation, epoch);
            return with_os_errors([&] { return self.save(basename, info, drop_expired, in_parallel); });
          },
          "basename"_a, "num_shards"_a, "schema"_a, "plan_hash"_a = 0, "generation"_a = 0, "epoch"_a = 0,
          "drop_expired"_a = true, "in_parallel"_a = true)
      .def(
          "save_shard",
          [](FrozenTable& self, const std::string& basename, std::uint32_t shard, std::uint32_t num_shards,
             const std::string& schema, std::uint64_t plan_hash, std::uint64_t generation, std::uint64_t epoch) {
            const TableFileInfo info = make_info(num_shards, schema, plan_hash, generation, epoch);
            return with_os_errors([&] { return self.save_shard(basename, info, {shard, num_shards}); });
          },
          "basename"_a, "shard"_a, "num_shards"_a, "schema"_a, "plan_hash"_a = 0, "generation"_a = 0, "epoch"_a = 0)
      .def(
          "save_changes",
          [](FrozenTable& self, const std::string& basename, std::uint32_t shard, std::uint32_t num_shards,
             const std::string& schema, std::uint64_t plan_hash, std::uint64_t generation, std::uint64_t epoch) {
            const TableFileInfo info = make_info(num_shards, schema, plan_hash, generation, epoch);
            std::vector<std::int64_t> erased;
            SavedTable saved =
                with_os_errors([&] { return self.save_changes(basename, info, {shard, num_shards}, erased); });
            return nb::make_tuple(std::move(saved), to_array(std::move(erased)));
          },
          "basename"_a, "shard"_a, "num_shards"_a, "schema"_a, "plan_hash"_a = 0, "generation"_a = 0, "epoch"_a = 0);
}

}  // namespace

void bind_table_files(nb::module_& m) {
  nb::class_<TableFileInfo>(m, "TableFileInfo")
      .def_ro("schema", &TableFileInfo::schema)
      .def_ro("plan_hash", &TableFileInfo::plan_hash)
      .def_ro("generation", &TableFileInfo::generation)
      .def_ro("epoch", &TableFileInfo::epoch)
      .def_ro("max_time", &TableFileInfo::max_time)
      .def_ro("max_step", &TableFileInfo::max_step)
      .def_ro("shard", &TableFileInfo::shard)
      .def_ro("num_shards", &TableFileInfo::num_shards)
      .def_ro("weight_bytes", &TableFileInfo::weight_bytes)
      .def_ro("state_bytes", &TableFileInfo::state_bytes)
      .def_ro("serving", &TableFileInfo::serving)
      .def_ro("num_rows", &TableFileInfo::num_rows);
  nb::enum_<NotFinite>(m, "NotFinite")
      .value("REFUSE", NotFinite::kRefuse)
      .value("DROP", NotFinite::kDrop)
      .value("KEEP", NotFinite::kKeep);
  nb::exception<CorruptFile>(m, "CorruptFile", PyExc_ValueError);
  nb::exception<TableFull>(m, "TableFull", PyExc_MemoryError);
  m.def("shard_file_name", &shard_file_name, "basename"_a, "shard"_a, "num_shards"_a);
  bind_frozen_table(m);
  m.def(
      "reshard_table",
      [](const std::vector<std::string>& paths, const std::string& basename, std::uint32_t num_shards) {
        return with_os_errors([&] { return reshard_table(paths, basename, num_shards); });
      },
      "paths"_a, "basename"_a, "num_shards"_a);
  m.def(
      "read_table_file_info",
      [](const std::string& path) { return with_os_errors([&] { return read_table_file_info(path); }); }, "path"_a);
  m.def(
      "check_table_fits",
      [](const RowTable& table, const std::vector<std::string>& paths, bool cleared) {
        with_os_errors([&] { check_table_fits(table, paths, cleared); });
      },
      "table"_a, "paths"_a, "cleared"_a = true);
  m.def(
      "check_table_files",
      [](const RowTable& table, const std::vector<std::string>& paths, bool cleared, NotFinite not_finite,
         std::uint32_t shard, std::uint32_t num_shards) {
        return with_os_errors(
            [&] { return check_table_files(table, paths, cleared, not_finite, {shard, num_shards}); });
      },
      "table"_a, "paths"_a, "cleared"_a = true, "not_finite"_a = NotFinite::kRefuse, "shard"_a = 0, "num_shards"_a = 1);
  m.def(
      "load_table",
      [](RowTable& table, const std::vector<std::string>& paths, NotFinite not_finite, std::uint32_t shard,
         std::uint32_t num_shards) {
        return with_os_errors([&] { return load_table(table, paths, {shard, num_shards}, not_finite); });
      },
      "table"_a, "paths"_a, "not_finite"_a = NotFinite::kRefuse, "shard"_a = 0, "num_shards"_a = 1);
  m.def("bucket_of_id", &bucket_of_id, "id"_a);
  m.attr("NUM_BUCKETS") = kNumBuckets;
  m.attr("NUM_SUB_TABLES") = kNumSubTables;
  m.def(
      "shards_of_ids",
      [](IdsIn ids, std::uint32_t num_shards, Int32sOut out) {
        shards_of_ids(as_span(ids), num_shards, sized(out, ids.shape(0)));
      },
      "ids"_a.noconvert(), "num_shards"_a, "out"_a.noconvert(), nb::call_guard<nb::gil_scoped_release>(),
      "Writes the shard of each id.");
  m.attr("MAX_SHARDS") = kMaxShards;
}

}  // namespace monolith::bind
