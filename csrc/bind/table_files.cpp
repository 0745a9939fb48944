// Table files.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/arrays.h"
#include "bind/module.h"
#include "io/table_file.h"

namespace monolith::bind {

using namespace nb::literals;

void bind_table_files(nb::module_& m) {
  nb::class_<TableFileInfo>(m, "TableFileInfo")
      .def_ro("schema", &TableFileInfo::schema)
      .def_ro("plan_hash", &TableFileInfo::plan_hash)
      .def_ro("generation", &TableFileInfo::generation)
      .def_ro("epoch", &TableFileInfo::epoch)
      .def_ro("max_time", &TableFileInfo::max_time)
      .def_ro("shard", &TableFileInfo::shard)
      .def_ro("num_shards", &TableFileInfo::num_shards)
      .def_ro("weight_bytes", &TableFileInfo::weight_bytes)
      .def_ro("state_bytes", &TableFileInfo::state_bytes)
      .def_ro("serving", &TableFileInfo::serving)
      .def_ro("num_rows", &TableFileInfo::num_rows);
  nb::exception<CorruptFile>(m, "CorruptFile", PyExc_ValueError);
  nb::exception<TableFull>(m, "TableFull", PyExc_MemoryError);
  m.def("shard_file_name", &shard_file_name, "basename"_a, "shard"_a, "num_shards"_a);
  m.def(
      "save_table",
      [](RowTable& table, const std::string& basename, std::uint32_t num_shards, const std::string& schema,
         std::uint64_t plan_hash, std::uint64_t generation, std::uint64_t epoch, bool drop_expired) {
        TableFileInfo info;
        info.schema = schema;
        info.plan_hash = plan_hash;
        info.generation = generation;
        info.epoch = epoch;
        return with_os_errors([&] { return save_table(table, basename, num_shards, info, drop_expired); });
      },
      "table"_a, "basename"_a, "num_shards"_a, "schema"_a, "plan_hash"_a = 0, "generation"_a = 0, "epoch"_a = 0,
      "drop_expired"_a = true);
  m.def(
      "read_table_file_info",
      [](const std::string& path) { return with_os_errors([&] { return read_table_file_info(path); }); }, "path"_a);
  m.def(
      "check_table_files",
      [](const RowTable& table, const std::vector<std::string>& paths, bool cleared) {
        with_os_errors([&] { check_table_files(table, paths, cleared); });
      },
      "table"_a, "paths"_a, "cleared"_a = true);
  m.def(
      "load_table",
      [](RowTable& table, const std::vector<std::string>& paths, std::uint32_t first_bucket,
         std::uint32_t last_bucket) {
        return with_os_errors([&] { return load_table(table, paths, first_bucket, last_bucket); });
      },
      "table"_a, "paths"_a, "first_bucket"_a = 0, "last_bucket"_a = kNumBuckets);
  m.def("bucket_of_id", &bucket_of_id, "id"_a);
  m.attr("NUM_BUCKETS") = kNumBuckets;
  m.attr("NUM_SUB_TABLES") = kNumSubTables;
}

}  // namespace monolith::bind
