// Groups of a plan in the order of their sub-tables, for work that takes a sub-table's lock for many rows at once:
// inserting, and changing while others do. The order depends on the hashes alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "table/found_row.h"

namespace monolith {

class SubTableOrder {
 public:
  // All groups of a plan with these hashes; or those from `first` to `last`; or, with `groups`, these (ascending).
  explicit SubTableOrder(std::span<const std::uint64_t> hashes);
  SubTableOrder(std::span<const std::uint64_t> hashes, std::size_t first, std::size_t last);
  SubTableOrder(std::span<const std::uint64_t> hashes, std::span<const std::uint32_t> groups);
  ~SubTableOrder();
  SubTableOrder(const SubTableOrder&) = delete;
  SubTableOrder& operator=(const SubTableOrder&) = delete;

  // By sub-table, inside it in the order of the plan.
  std::span<const std::uint64_t> hashes() const { return {hashes_.data(), count_}; }
  std::span<const std::uint32_t> groups() const { return {groups_.data(), count_}; }
  // Where in this order the i-th of the given groups is.
  std::span<const std::uint32_t> places() const { return {places_.data(), count_}; }
  // Room for what is found of the groups, in this order.
  std::span<FoundRow> found() {
    if (found_.size() < count_) found_.resize(count_);
    return {found_.data(), count_};
  }

 private:
  template <typename GroupAt>
  void sort(std::span<const std::uint64_t> hashes, std::size_t count, const GroupAt& group_at);

  std::size_t count_ = 0;
  std::vector<std::uint64_t> hashes_;  // these may be longer
  std::vector<std::uint32_t> groups_;
  std::vector<std::uint32_t> places_;
  std::vector<FoundRow> found_;
};

}  // namespace monolith
