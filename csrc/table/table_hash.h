// The hash by which a table places its ids: that of id_hash.h, with the table's shard stretched over all 64 bits.
//
// The ids of one of 1,000 shards have hashes that begin alike. They would all go to one sub-table, into a quarter of
// the lines of its index, and have one 256th of the table's memory limit. Stretching keeps the order of hashes, which
// is that of files, and no two ids of the shard get the same hash. Inside a table, "hash" means this one.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "table/hash_shard.h"
#include "table/id_hash.h"

namespace monolith {

class TableHash {
 public:
  TableHash() = default;
  explicit TableHash(HashShard shard) : num_shards_(shard.count), shard_(shard) {
    shard.check();
    first_ = shard.first_hash();
    span_ = shard.last_hash() - first_;
  }

  HashShard shard() const { return shard_; }
  [[gnu::always_inline]] bool is_whole() const { return num_shards_ == 1; }

  // Of an id of the shard.
  [[gnu::always_inline]] std::uint64_t of(std::int64_t id) const { return (hash_id(id) - first_) * num_shards_; }
  std::int64_t id_of(std::uint64_t hash) const { return id_of_hash(plain(hash)); }

  // The hash of id_hash.h that this one stands for; rounded up if it stands for none.
  std::uint64_t plain(std::uint64_t hash) const {
    return num_shards_ == 1 ? hash : first_ + hash / num_shards_ + (hash % num_shards_ != 0);
  }

  // Whether an id belongs to the shard.
  bool has(std::int64_t id) const { return hash_id(id) - first_ <= span_; }

  // Throws std::invalid_argument, naming the first id of another shard: its hash would be that of an id of this one.
  void check(std::span<const std::int64_t> ids) const {
    if (shard_.is_all()) return;
    for (const std::int64_t id : ids) {
      if (!has(id)) refuse(id);
    }
  }

  // The sub-tables that a range of ids, given as a shard of any number, has rows in: from the first to the one before
  // the last; none if it shares no id with this table.
  struct SubTables {
    std::uint32_t first, last;
  };
  SubTables sub_tables_of(HashShard range) const {
    if (range.last_hash() < first_ || range.first_hash() > first_ + span_) return {0, 0};
    const std::uint64_t first = range.first_hash() < first_ ? 0 : range.first_hash() - first_;
    const std::uint64_t last = range.last_hash() - first_ > span_ ? span_ : range.last_hash() - first_;
    return {sub_table_of_hash(first * num_shards_), sub_table_of_hash(last * num_shards_) + 1};
  }

  // The hashes of id_hash.h that a sub-table holds, the last one included.
  std::uint64_t first_of_sub_table(std::uint32_t sub_table) const {
    return plain(std::uint64_t{sub_table} << (64 - kSubTableBits));
  }
  std::uint64_t last_of_sub_table(std::uint32_t sub_table) const {
    return sub_table + 1 == kNumSubTables ? first_ + span_ : first_of_sub_table(sub_table + 1) - 1;
  }

 private:
  [[noreturn]] void refuse(std::int64_t id) const {
    throw std::invalid_argument("id " + std::to_string(id) + " belongs to shard " +
                                std::to_string(shard_of_hash(hash_id(id), shard_.count)) + " of " +
                                std::to_string(shard_.count) + ", and this table holds " + shard_.name());
  }

  std::uint64_t first_ = 0;
  std::uint64_t span_ = ~std::uint64_t{0};  // the last hash less the first
  std::uint64_t num_shards_ = 1;
  HashShard shard_;
};

}  // namespace monolith
