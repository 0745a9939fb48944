// The ids of one batch for one table, each id once.
//
// Computed once per batch and used forward and backward. Groups are in the order in which their ids first occur, and
// the positions of a group ascend: the order depends on the ids alone, never on threads, and work that goes through the
// groups goes through the batch from its begin to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "table/found_row.h"
#include "table/table_hash.h"

namespace monolith {

class BatchPlan {
 public:
  // Where in the batch an id occurs, in ascending order.
  class Positions {
   public:
    class Iterator {
     public:
      using difference_type = std::ptrdiff_t;
      using value_type = std::uint32_t;
      using pointer = const std::uint32_t*;
      using reference = std::uint32_t;
      using iterator_category = std::input_iterator_tag;

      Iterator(const std::uint32_t* nexts, std::uint32_t at) : nexts_(nexts), at_(at) {}
      std::uint32_t operator*() const { return at_; }
      Iterator& operator++() {
        at_ = nexts_ == nullptr ? kNoPosition : nexts_[at_];
        return *this;
      }
      bool operator==(const Iterator& other) const { return at_ == other.at_; }

     private:
      const std::uint32_t* nexts_;
      std::uint32_t at_;
    };

    Positions(const std::uint32_t* nexts, std::uint32_t first) : nexts_(nexts), first_(first) {}
    Iterator begin() const { return {nexts_, first_}; }
    Iterator end() const { return {nexts_, kNoPosition}; }
    bool empty() const { return first_ == kNoPosition; }
    std::uint32_t front() const { return first_; }
    std::size_t size() const {
      std::size_t count = 0;
      for (Iterator at = begin(); at != end(); ++at) ++count;
      return count;
    }
    // Without the first `count` of them.
    Positions without_first(std::size_t count) const {
      Iterator at = begin();
      for (; count > 0 && at != end(); --count) ++at;
      return {nexts_, *at};
    }

   private:
    const std::uint32_t* nexts_;
    std::uint32_t first_;
  };

  BatchPlan() = default;
  BatchPlan(std::span<const std::int64_t> ids, bool merge_repeated, const TableHash& hash = {}) {
    build(ids, merge_repeated, hash);
  }

  // Groups `ids` for a table of this hash; ids of another shard are a std::invalid_argument. Without `merge_repeated`,
  // every occurrence is a group of its own. Memory of an earlier build is used again.
  void build(std::span<const std::int64_t> ids, bool merge_repeated, const TableHash& hash = {});

  std::size_t num_ids() const { return num_ids_; }
  std::size_t num_groups() const { return num_groups_; }

  bool is_merged() const { return merged_; }

  // Throws std::logic_error if it was not made for a table of this hash.
  void check_made_for(const TableHash& hash) const {
    if (hash_.shard() != hash.shard()) throw std::logic_error("a plan of another shard than the table's");
  }

  // One hash a group, as the table has it.
  std::span<const std::uint64_t> hashes() const {
    return {merged_ ? group_hashes_.data() : hashes_.data(), num_groups_};
  }

  Positions positions(std::size_t g) const { return {nexts(), first_position(g)}; }
  std::uint32_t first_position(std::size_t g) const { return merged_ ? firsts_[g] : static_cast<std::uint32_t>(g); }
  std::uint32_t last_position(std::size_t g) const {
    std::uint32_t last = first_position(g);
    for (const std::uint32_t position : positions(g)) last = position;
    return last;
  }

  // For kernels: the first position of every group, and the next one of the same id after every position, or
  // kNoPosition. nullptr if every position is a group of its own.
  const std::uint32_t* firsts() const { return merged_ ? firsts_.data() : nullptr; }
  const std::uint32_t* nexts() const { return merged_ ? nexts_.data() : nullptr; }

  std::int64_t id_of_group(std::size_t g) const { return hash_.id_of(hashes()[g]); }

  // The id at a place of the batch; for messages, since it may search for it.
  std::int64_t id_at(std::size_t position) const;

  // unique id, inverse and count of groups, for callers that want them as arrays.
  void write_ids(std::span<std::int64_t> out) const;
  void write_inverse(std::span<std::int32_t> out) const;
  void write_counts(std::span<std::int32_t> out) const;

  // Rows found by an earlier pass over this plan, one per group, so that the next one need not search again.
  std::span<FoundRow> found() { return {found_.data(), num_groups_}; }
  bool rows_are_known() const { return rows_known_; }
  void set_rows_known(bool known) { rows_known_ = known; }

  // The memory it holds on to.
  std::size_t bytes() const;

  // How many times the table had erased rows when that pass began: if more since, rows it found may be gone.
  std::uint64_t erase_count() const { return erase_count_; }
  void set_erase_count(std::uint64_t count) { erase_count_ = count; }

 private:
  void fit(std::size_t num_ids);
  void merge_alone(std::span<const std::int64_t> ids);
  void merge_by_parts();
  template <typename FirstPlaces>
  void link_repeated(std::size_t first, std::size_t last, FirstPlaces& first_places);
  void number_groups();
  void add_group(std::size_t g, std::uint32_t position) {
    group_hashes_[g] = hashes_[position];
    firsts_[g] = position;
  }

  TableHash hash_;
  bool merged_ = false;
  bool merged_by_parts_ = false;  // by several threads
  bool rows_known_ = false;
  std::uint64_t erase_count_ = 0;
  std::size_t num_ids_ = 0;
  std::size_t num_groups_ = 0;
  // These never shrink: a batch uses the first part of them.
  std::vector<std::uint64_t> hashes_;  // one per id, unless one thread has merged them
  std::vector<std::uint32_t> nexts_;   // the next position of the same id, or kNoPosition
  // While ids are merged by parts: where a position is in the order of shares, and what is known of it there. So no
  // thread writes where another one reads.
  struct Shares {
    std::vector<std::uint32_t> places;  // of positions
    std::vector<std::uint64_t> hashes;
    std::vector<std::uint32_t> positions;
    std::vector<std::uint32_t> nexts;  // positions of the same id
    std::vector<std::uint32_t> lasts;  // at the first place of an id its last place, and elsewhere kNoPosition

    void fit(std::size_t num_ids);
    std::size_t bytes() const;
  };
  Shares shares_;
  std::vector<std::uint64_t> group_hashes_;
  std::vector<std::uint32_t> firsts_;
  std::vector<FoundRow> found_;
};

// A plan that goes back to a pool when dropped. Fresh memory for each batch would cost more in page faults than the
// grouping itself.
struct PlanReturner {
  void operator()(BatchPlan* plan) const;
};
using PooledPlan = std::unique_ptr<BatchPlan, PlanReturner>;
PooledPlan acquire_plan();

}  // namespace monolith
