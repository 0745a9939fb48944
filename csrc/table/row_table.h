// A collisionless, expirable hash table: rows of floats with optimizer state, addressed by 64-bit id.
//
// Safe for concurrent readers and writers. The unit of work is a batch (a BatchPlan). Lookups take no locks while
// nobody writes, and a batch of changes takes none while it is the only one (table_gate.h); in both cases the others
// wait for a few thousand rows at most. Otherwise a reader/writer lock per sub-table is held for at most 64 rows.
// Results do not depend on the number of threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "filter/admission_filter.h"
#include "table/batch_mutex.h"
#include "table/batch_plan.h"
#include "table/copy_row.h"
#include "table/gather_kernels.h"
#include "table/sub_table.h"
#include "table/sub_table_order.h"
#include "table/table_gate.h"
#include "table/table_hash.h"

namespace monolith {

enum class MemoryPolicy { kRefuseNewIds, kEvictOldest };

struct TableOptions {
  std::string name;
  HashShard shard;  // the ids that may have rows; others are refused, or found to have none
  std::vector<SegmentConfig> segments;
  bool serving = false;              // rows are compressed, have no optimizer state and take no gradients
  bool skip_zero_embedding = false;  // serving: assigning or restoring a row that is or reads as zeros erases the id
  std::size_t initial_capacity = 0;  // rows whose memory is taken at once
  std::size_t max_memory_bytes = 0;  // 0: no limit
  MemoryPolicy memory_policy = MemoryPolicy::kRefuseNewIds;
  std::uint32_t default_expire_days = 36500;
  std::unordered_map<std::uint32_t, std::uint32_t> slot_expire_days;  // by fid slot
  std::size_t max_changes_per_consumer = std::size_t{64} << 20;
};

// How far its updates have brought a table.
struct TableProgress {
  std::uint32_t max_time = 0;  // the newest, in seconds
  std::int64_t max_step = 0;   // the newest global step of a gradient
};

struct TableMemory {
  std::size_t index_bytes = 0;
  std::size_t row_bytes = 0;      // chunks: weights, optimizer state, last seen, bookkeeping
  std::size_t payload_bytes = 0;  // weights and optimizer state of the rows there are
};

// How one batch changes rows. `values` has `dim` floats for each id of the batch, in batch order; or, with `per_group`,
// for each group of the plan.
struct ChangeRequest {
  enum class Kind { kAssign, kAdd, kStep };
  Kind kind = Kind::kStep;
  const float* values = nullptr;
  std::span<const float> learning_rates;  // kStep: one a segment
  std::int64_t global_step = 0;
  std::uint32_t time = 0;    // becomes the rows' last seen, in seconds
  bool sum_repeated = true;  // kStep: one step with the sum of a repeated id's gradients, or a step for each
  bool per_group = false;    // kStep: the gradients of repeated ids are summed already
  // The caller promises that no id of the batch repeats. If one does, a step of it may be lost, or its row.
  bool all_different = false;
};

struct ChangeResult {
  std::size_t inserted = 0;
  std::size_t filtered = 0;  // new ids that the admission filter holds back
  std::size_t refused = 0;   // new ids that found no memory under the limit
};

// A row of a file that is not finite, or one that a change would have made so. Says which table and id.
class NotFiniteRow : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

struct EntryDump {
  bool found = false;
  std::uint32_t last_seen = 0;
  std::vector<float> weights;  // as stored, not through the quantiser
  std::vector<float> state;
};

// Rows of one sub-table, sorted by bucket, then id.
struct RowBatch {
  std::vector<std::int64_t> ids;
  std::vector<std::uint32_t> last_seen;
  std::vector<std::byte> rows;  // weights then state, layout.row_bytes() each
};

struct Changes {
  std::vector<std::int64_t> touched;
  std::vector<std::int64_t> erased;
  bool overflowed = false;  // the lists are incomplete: take everything
};

class RowTable {
 public:
  explicit RowTable(TableOptions options);

  const TableOptions& options() const { return options_; }
  const RowLayout& layout() const { return layout_; }
  std::size_t dim() const { return layout_.dim(); }
  const TableHash& hash() const { return hash_; }
  std::size_t size() const;
  TableMemory memory() const;
  std::uint32_t max_time() const { return max_time_.load(std::memory_order_relaxed); }
  void raise_max_time(std::uint32_t time);
  // What a training lookup reads through a one_bit compressor depends on it.
  std::int64_t max_step() const { return max_step_.load(std::memory_order_relaxed); }
  void raise_max_step(std::int64_t global_step);

  // Consulted for ids that have no row; nullptr admits all.
  void set_filter(std::shared_ptr<AdmissionFilter> filter, SlotThresholds thresholds);

  // Writes one row per id of the batch at `out`, `stride` floats apart; an unknown id reads as zeros and gets no row.
  // Notes the rows found in the plan. Returns how many ids of the batch were found.
  std::size_t lookup(BatchPlan& plan, float* out, std::size_t stride) const;

  // The same without a plan: in the order of the batch, and while nobody writes to the table without locks.
  std::size_t lookup(std::span<const std::int64_t> ids, float* out, std::size_t stride) const;

  // Like lookup, but writes one row per group of the plan.
  std::size_t lookup_groups(BatchPlan& plan, float* out) const;

  // Changes rows; ids without a row get one first if the filter and the memory limit let them. If there is no memory
  // (std::bad_alloc) the table stays as it was. `request.values` must be finite. A row that an addition or a step would
  // make not finite keeps its weights and state; the other rows of the batch are changed, then NotFiniteRow is thrown.
  // It names the first of these ids in the plan's order, so it does not depend on threads.
  ChangeResult change(BatchPlan& plan, const ChangeRequest& request);

  // Whether a batch is changing the table just now: a hint for callers that have other tables to change.
  bool is_being_changed() const { return gate_.has_writer(); }

  std::vector<EntryDump> lookup_entries(std::span<const std::int64_t> ids) const;
  void contains(std::span<const std::int64_t> ids, bool* out) const;
  std::size_t erase(std::span<const std::int64_t> ids);

  // Gives ids a fresh first value and fresh optimizer state; status 1 where the id had a row, 0 where it has one now,
  // -1 where the memory limit refused it.
  void reinitialize(std::span<const std::int64_t> ids, std::uint32_t time, std::int32_t* status);

  // Removes rows not seen for as long as their slot's expiry, counted back from `now`. Returns how many.
  std::size_t evict(std::uint32_t now);
  bool is_expired(std::int64_t id, std::uint32_t last_seen, std::uint32_t now) const;

  void clear();

  // Writes back rows that a snapshot or an export holds; rows of ids already there are replaced.
  void restore(std::span<const std::int64_t> ids, std::span<const std::uint32_t> last_seen,
               std::span<const std::byte> rows);

  // Lets the index of a sub-table without rows take its size for `num_rows` at once, if its share of the memory limit
  // is enough for them.
  void expect_rows(std::uint32_t sub_table, std::size_t num_rows);

  // One point in time: between begin_snapshot and end_snapshot, read_snapshot gives each sub-table as it was at the
  // beginning, while the table goes on being written to. Each sub-table is read once. One snapshot at a time.
  // begin_snapshot returns the progress of that moment. With `changes`, what the consumer has not taken yet is taken at
  // that moment too, by sub-table; read_snapshot_changes then gives the rows of these ids that there were, and names
  // those that there were not in `erased`, both in the order of files.
  TableProgress begin_snapshot();
  TableProgress begin_snapshot(std::size_t consumer, std::vector<ConsumerChanges>& changes);
  RowBatch read_snapshot(std::uint32_t sub_table);
  RowBatch read_snapshot_changes(std::uint32_t sub_table, const ConsumerChanges& changes,
                                 std::vector<std::int64_t>& erased);
  void end_snapshot();

  // Whether a sub-table that refuses new ids can take `num_rows` of them, after a clear or beside the rows it has.
  bool has_room_for(std::uint32_t sub_table, std::size_t num_rows, bool after_clear) const;

  // A sub-table as it is now.
  RowBatch read_rows(std::uint32_t sub_table) const;

  // Change tracking. A consumer gets the ids changed or erased since it last took its changes.
  std::size_t add_consumer();
  void remove_consumer(std::size_t consumer);
  Changes take_changes(std::size_t consumer);
  void give_back_changes(std::size_t consumer, const Changes& changes);

 private:
  struct Scratch;  // of one thread, for one row

  SubTable& sub_table_of(std::uint64_t hash) const { return sub_tables_[sub_table_of_hash(hash)]; }
  std::uint32_t expire_days(std::int64_t id) const;
  void check_consumer(std::size_t consumer) const;

  template <typename AtThatMoment>
  void start_snapshot(const AtThatMoment& also);
  void check_snapshot(std::uint32_t sub_table) const;
  void append_row(const SubTable& sub_table, std::uint32_t row, RowBatch& batch) const;
  PreservedRows take_preserved(SubTable& sub_table) const;
  std::size_t erase_rows(std::span<const std::int64_t> ids);
  bool erase_row(SubTable& sub_table, std::uint64_t hash);

  // Whether rows of `num_ids` ids are written around the caches.
  bool streams(std::size_t num_ids, const float* out, std::size_t stride) const;
  RowCopies copies_to(float* out, std::size_t stride, bool streaming) const;
  GroupsToGather groups_to_gather(BatchPlan& plan, std::size_t first, std::size_t count, const RowCopies& copies) const;
  template <typename Read>
  std::size_t read_groups(BatchPlan& plan, const RowCopies& copies, const Read& read) const;
  template <typename Read>
  std::size_t read_locked(BatchPlan& plan, std::size_t first, std::size_t count, const Read& read) const;

  struct GuestOrder;  // of a stretch of a batch
  void find(BatchPlan& plan, GuestOrder& guest_order);
  void find_as_guest(BatchPlan& plan, const SubTableOrder& order);
  void admit(BatchPlan& plan, const ChangeRequest& request, std::vector<std::uint32_t>& skipped, ChangeResult& result);
  void insert_missing(BatchPlan& plan, bool rows_are_known, const ChangeRequest& request,
                      const std::vector<std::uint32_t>& skipped, ChangeResult& result);
  // With `assigned`, the caller writes the weights next.
  std::uint32_t insert_row(SubTable& sub_table, std::uint64_t hash, std::uint32_t time, bool assigned = false);
  bool make_room(SubTable& sub_table);
  void reserve(SubTable& sub_table);

  struct Change;  // of the rows of one batch: what its threads share
  void change_rows(Change& change, GuestOrder& guest_order);
  struct Shares;  // of the groups, one per thread
  template <typename GroupAt>
  void change_groups(Change& change, std::size_t first, std::size_t last, const GroupAt& group_at);
  void erase_not_finite(const Change& change, std::size_t first, std::size_t last);
  void change_as_guest(Change& change, const SubTableOrder& order, bool one_thread);
  void change_in_order(Change& change, const SubTableOrder& order, std::size_t first, std::size_t last);
  void change_run(Change& change, SubTable& sub_table, std::span<const std::uint32_t> groups, Scratch& scratch);
  template <bool kAlone>
  void change_group(Change& change, std::size_t g, Scratch& scratch);
  struct RowBlock;
  bool steps_rows(const Change& change) const;
  template <typename GroupAt>
  void step_groups(Change& change, std::size_t first, std::size_t last, const GroupAt& group_at, Scratch& scratch);
  template <typename GroupAt>
  void fetch_block(const Change& change, std::size_t first, std::size_t last, const GroupAt& group_at,
                   RowBlock& block) const;
  void step_block(Change& change, const RowBlock& block, Scratch& scratch);
  void fetch_group(const Change& change, std::size_t g) const;
  void find_again(Change& change, std::size_t g, SubTable& sub_table);
  void mark_change(const Change& change, std::uint64_t hash, FoundRow at) const;
  // False if the row would not be finite then, and stays as it was.
  bool change_row(Change& change, std::size_t g, BatchPlan::Positions positions, Scratch& scratch);
  void assign_row(std::uint64_t hash, std::byte* weights, const float* values);
  [[noreturn]] void refuse_not_finite(ChangeRequest::Kind kind, std::int64_t id, std::size_t count) const;

  TableOptions options_;
  TableHash hash_;
  RowLayout layout_;
  ChunkLayout chunk_layout_;
  std::unique_ptr<SubTable[]> sub_tables_;
  std::array<SubTableView, kNumSubTables> views_;
  mutable std::vector<std::byte> no_chunk_;  // zeros up to the end of a first row, which unknown ids read
  ChunkArena arena_;
  std::shared_ptr<AdmissionFilter> filter_;
  SlotThresholds thresholds_;
  std::atomic<std::uint32_t> max_time_{0};
  std::atomic<std::int64_t> max_step_{0};
  // Grows with every erased row, while its sub-table is locked: plans know by it when to search again.
  std::atomic<std::uint64_t> erase_count_{0};
  TableGate gate_;
  // Held shared by every change of a batch, so that a snapshot begins between batches, never inside one.
  BatchMutex batch_mutex_;
  std::uint64_t snapshot_epoch_ = 0;
  bool snapshot_running_ = false;
  std::array<bool, kMaxConsumers> consumer_used_{};
};

}  // namespace monolith
