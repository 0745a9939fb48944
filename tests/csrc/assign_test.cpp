// Assigning rows, where some ids have one, some are new and some repeat: against a map.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "check.h"
#include "table/row_table.h"

namespace {

using namespace monolith;

constexpr std::size_t kDim = 2;

TableOptions options(bool serving) {
  TableOptions options;
  options.name += "rows";
  SegmentConfig segment;
  segment.dim = kDim;
  segment.optimizer.kind = "adagrad";
  options.segments = {segment};
  options.serving = serving;
  return options;
}

// A table beside what it has to hold.
class Checked {
 public:
  explicit Checked(bool serving) : table_(options(serving)), consumer_(table_.add_consumer()) {}

  void assign(const std::vector<std::int64_t>& ids, bool merged, bool looks_first, std::uint32_t time) {
    BatchPlan plan(ids, merged);
    std::vector<float> values(ids.size() * kDim), out(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(next_value_++);
    if (looks_first) table_.lookup(plan, out.data(), kDim);
    ChangeRequest request;
    request.kind = ChangeRequest::Kind::kAssign;
    request.values = values.data();
    request.time = time;
    const std::size_t before = rows_.size();
    for (std::size_t i = 0; i < ids.size(); ++i) rows_[ids[i]] = {values[i * kDim], values[i * kDim + 1]};
    CHECK_EQ(table_.change(plan, request).inserted, rows_.size() - before);
    CHECK_EQ(table_.size(), rows_.size());
    // By the same plan: what it knows of rows must hold.
    CHECK_EQ(table_.lookup(plan, out.data(), kDim), ids.size());
    bool is_right = true;
    for (std::size_t i = 0; i < ids.size(); ++i) is_right &= has(ids[i], &out[i * kDim]);
    CHECK(is_right);
    const Changes changes = table_.take_changes(consumer_);
    CHECK(changes.touched.size() == std::set(ids.begin(), ids.end()).size());
    CHECK((std::set(changes.touched.begin(), changes.touched.end()) == std::set(ids.begin(), ids.end())));
    const auto entry = table_.lookup_entries(std::span(ids).first(1)).front();
    CHECK_EQ(entry.last_seen, time);
  }

  void erase_some(std::size_t count) {
    std::vector<std::int64_t> ids;
    for (const auto& [id, row] : rows_) {
      if (ids.size() < count) ids.push_back(id);
    }
    table_.erase(ids);
    for (const std::int64_t id : ids) rows_.erase(id);
    table_.take_changes(consumer_);
  }

  void check_all() {
    std::vector<std::int64_t> ids;
    for (const auto& [id, row] : rows_) ids.push_back(id);
    std::vector<float> out(ids.size() * kDim);
    CHECK_EQ(table_.lookup(ids, out.data(), kDim), ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) CHECK(has(ids[i], &out[i * kDim]));
  }

 private:
  bool has(std::int64_t id, const float* row) const { return std::ranges::equal(rows_.at(id), std::span(row, kDim)); }

  RowTable table_;
  std::size_t consumer_;
  std::map<std::int64_t, std::array<float, kDim>> rows_;
  int next_value_ = 0;
};

void test_every_kind_of_batch(bool serving, std::int64_t num_ids, std::size_t batch_size) {
  Checked table(serving);
  std::mt19937_64 random(num_ids);
  std::uint32_t time = 0;
  for (int round = 0; round < 12; ++round) {
    std::vector<std::int64_t> ids(batch_size);
    for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(num_ids));
    table.assign(ids, round % 2 == 0, round % 4 < 2, ++time);
    if (round % 3 == 2) table.erase_some(batch_size / 3);  // freed rows are taken by new ids
  }
  table.check_all();
}

void test_new_ids_alone(bool merged) {
  Checked table(false);
  for (std::int64_t first : {0, 20'000}) {
    std::vector<std::int64_t> ids(20'000);
    std::iota(ids.begin(), ids.end(), first);
    table.assign(ids, merged, false, 5);
  }
  table.check_all();
}

}  // namespace

int main() {
  for (const bool serving : {false, true}) {
    test_every_kind_of_batch(serving, 40, 30);          // most ids repeat
    test_every_kind_of_batch(serving, 3'000, 900);      // old and new ones
    test_every_kind_of_batch(serving, 40'000, 20'000);  // several threads
  }
  for (const bool merged : {false, true}) test_new_ids_alone(merged);
  return monolith::test::finish();
}
