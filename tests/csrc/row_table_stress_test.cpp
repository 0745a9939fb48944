// Everything at once on one table: writers, readers, an evictor, a saver and a consumer of changes. Made for the thread
// and the address sanitizer; bounded by counts, so that it takes seconds there too.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "io/table_file.h"
#include "ops/parallel_for.h"
#include "table/row_table.h"

namespace {

using namespace monolith;
namespace fs = std::filesystem;

constexpr std::size_t kDim = 7;  // no multiple of a vector: a torn row would show
constexpr std::int64_t kShared = 6000;
constexpr std::int64_t kPrivate = 600;
constexpr std::int64_t kFirstPrivate = 1000000;
constexpr std::uint32_t kSteps = 40;
constexpr std::uint32_t kDay = 86400;
constexpr std::int64_t kForgotten = std::int64_t{9} << 48;  // ids of slot 9 expire after a day

TableOptions options() {
  TableOptions options;
  options.name += "rows";
  SegmentConfig segment;
  segment.dim = kDim;
  options.segments = {segment};
  options.slot_expire_days = {{9, 1}};
  return options;
}

// One more for every weight of the ids' rows (SGD at rate 1), one more for each time an id is repeated.
ChangeResult add_ones(RowTable& table, BatchPlan& plan, std::uint32_t time) {
  const std::vector<float> gradients(plan.num_ids() * kDim, -1.0F);
  const std::vector<float> rates{1.0F};
  ChangeRequest request;
  request.values = gradients.data();
  request.learning_rates = rates;
  request.time = time;
  return table.change(plan, request);
}

// The value that all weights of a row have; fails where they differ or are no count.
float value_of(const float* row) {
  const bool whole = std::all_of(row, row + kDim, [&](float weight) { return weight == row[0]; });
  CHECK(whole);
  CHECK(row[0] >= 0 && row[0] == std::floor(row[0]));
  return row[0];
}

std::map<std::int64_t, float> rows_of(const RowTable& table) {
  std::map<std::int64_t, float> rows;
  for (std::uint32_t i = 0; i < kNumSubTables; ++i) {
    const RowBatch batch = table.read_rows(i);
    for (std::size_t row = 0; row < batch.ids.size(); ++row) {
      float weights[kDim];
      std::memcpy(weights, batch.rows.data() + row * sizeof weights, sizeof weights);
      CHECK(rows.emplace(batch.ids[row], value_of(weights)).second);
    }
  }
  return rows;
}

class Stress {
 public:
  void run() {
    consumer_ = table_.add_consumer();
    {
      std::vector<std::jthread> writers;
      std::vector<std::jthread> others;
      for (std::int64_t w = 0; w < 2; ++w) writers.emplace_back([this, w] { write(w); });
      for (std::uint64_t r = 0; r < 2; ++r) others.emplace_back([this, r] { read(r); });
      others.emplace_back([this] { evict(); });
      others.emplace_back([this] { save(); });
      others.emplace_back([this] { consume(); });
      writers.clear();  // joins
      writing_ = false;
    }
    check_end();
  }

 private:
  // Every step changes all of a writer's private ids, random shared ids (some twice), and ids that soon expire.
  void write(std::int64_t writer) {
    std::mt19937_64 random(static_cast<std::uint64_t>(writer));
    for (std::uint32_t step = 1; step <= kSteps; ++step) {
      std::vector<std::int64_t> ids;
      for (std::int64_t i = 0; i < kPrivate; ++i) ids.push_back(kFirstPrivate * (writer + 1) + i);
      for (int i = 0; i < 2000; ++i) ids.push_back(static_cast<std::int64_t>(random() % kShared));
      for (std::int64_t i = 0; i < 100; ++i) ids.push_back(kForgotten + (step * 10 + i) % 400);
      shared_steps_ += 2000;
      BatchPlan plan(ids, step % 4 != 0);
      std::vector<float> out(ids.size() * kDim);
      table_.lookup(plan, out.data(), kDim);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const float value = value_of(out.data() + i * kDim);
        if (i < kPrivate) CHECK_EQ(value, static_cast<float>(step - 1));  // nobody else writes these
      }
      add_ones(table_, plan, step * kDay / 4);
    }
  }

  void read(std::uint64_t seed) {
    std::mt19937_64 random(100 + seed);
    std::vector<float> last(kShared, 0);
    for (int round = 0; round < 60 || writing_; ++round) {
      std::vector<std::int64_t> ids;
      for (int i = 0; i < 3000; ++i) ids.push_back(static_cast<std::int64_t>(random() % kShared));
      std::vector<float> out(ids.size() * kDim);
      if (round % 2 == 0) {
        table_.lookup(ids, out.data(), kDim);
      } else {
        BatchPlan plan(ids, true);
        table_.lookup(plan, out.data(), kDim);
      }
      for (std::size_t i = 0; i < ids.size(); ++i) {
        float& known = last[static_cast<std::size_t>(ids[i])];
        const float value = value_of(out.data() + i * kDim);
        CHECK(value >= known);  // these are never evicted, so they only grow
        known = value;
      }
      CHECK(table_.size() <= kShared + 2 * kPrivate + 400);
      std::this_thread::yield();
    }
  }

  void evict() {
    for (int round = 0; round < 30 || writing_; ++round) {
      evicted_ += table_.evict(table_.max_time() + kDay / 2);
      const std::vector<std::int64_t> ids{kForgotten + round % 400, kForgotten + (round + 7) % 400};
      table_.erase(ids);
      std::this_thread::yield();
    }
  }

  void save() {
    const fs::path folder = fs::temp_directory_path() / ("row_table_stress_test." + std::to_string(getpid()));
    fs::create_directories(folder);
    for (int round = 0; round < 4 || (writing_ && round < 12); ++round) {
      const std::string basename = (folder / "rows").string();
      const std::uint64_t saved = save_table(table_, basename, 3, {}, false);
      std::vector<std::string> paths;
      for (std::uint32_t i = 0; i < 3; ++i) paths.push_back(shard_file_name(basename, i, 3));
      RowTable second(options());
      check_table_files(second, paths);
      CHECK_EQ(load_table(second, paths).num_rows, saved);
      CHECK_EQ(second.size(), saved);
      check_one_moment(rows_of(second));
    }
    fs::remove_all(folder);
  }

  // A snapshot begins between batches: the private rows of a writer have all had the same number of steps.
  static void check_one_moment(const std::map<std::int64_t, float>& rows) {
    for (const std::int64_t first : {kFirstPrivate, 2 * kFirstPrivate}) {
      const auto begin = rows.lower_bound(first);
      const auto end = rows.lower_bound(first + kPrivate);
      const auto count = std::distance(begin, end);
      CHECK(count == 0 || count == kPrivate);
      CHECK(std::all_of(begin, end, [&](const auto& row) { return row.second == begin->second; }));
    }
  }

  void consume() {
    for (int round = 0; round < 40 || writing_; ++round) {
      const Changes changes = table_.take_changes(consumer_);
      CHECK(!changes.overflowed);
      if (round % 3 == 0) {
        table_.give_back_changes(consumer_, changes);  // could not be delivered
      } else {
        for (const std::int64_t id : changes.touched) delivered_[id] = true;
        for (const std::int64_t id : changes.erased) delivered_[id] = false;
      }
      std::this_thread::yield();
    }
  }

  void check_end() {
    const auto rows = rows_of(table_);
    CHECK_EQ(table_.size(), rows.size());
    double shared_sum = 0;
    for (const auto& [id, value] : rows) {
      if (id < kShared) shared_sum += value;
      if (id >= kFirstPrivate && id < kForgotten) CHECK_EQ(value, static_cast<float>(kSteps));
    }
    CHECK_EQ(shared_sum, static_cast<double>(shared_steps_.load()));  // no gradient is lost
    check_one_moment(rows);
    // What the consumer was told, with what it has yet to be told, is exactly what the table holds.
    const Changes rest = table_.take_changes(consumer_);
    for (const std::int64_t id : rest.touched) delivered_[id] = true;
    for (const std::int64_t id : rest.erased) delivered_[id] = false;
    std::size_t known = 0;
    for (const auto& [id, there] : delivered_) {
      CHECK_EQ(there, rows.contains(id));
      known += there;
    }
    CHECK_EQ(known, rows.size());
    CHECK(evicted_ > 0);
    const std::size_t before = table_.size();
    CHECK_EQ(before - table_.evict(table_.max_time() + 2 * kDay), rows_of(table_).size());
  }

  RowTable table_{options()};
  std::size_t consumer_ = 0;
  std::atomic<bool> writing_{true};
  std::atomic<std::uint64_t> shared_steps_{0};
  std::atomic<std::uint64_t> evicted_{0};
  std::map<std::int64_t, bool> delivered_;  // the consumer's copy: is there a row?
};

// A batch that was not merged may have an id twice: both are steps of their own, whatever threads there are.
void test_repeated_ids_without_merging() {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 40'000; ++i) ids.push_back(i % 13'000);
  std::vector<float> rows(13'000 * kDim);
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    RowTable table(options());
    BatchPlan plan(ids, false);
    add_ones(table, plan, 1);
    table.lookup(std::span(ids).first(13'000), rows.data(), kDim);
    for (std::int64_t id = 0; id < 13'000; ++id) CHECK_EQ(value_of(rows.data() + id * kDim), id < 1'000 ? 4.0F : 3.0F);
  }
  set_num_threads(0);
}

// Writers that meet, each with ids of its own, some twice in a batch: every row is as if its writer had been alone, to
// the bit, though the order of steps matters to Adagrad; and every change is told.
void test_writers_that_meet_change_rows_as_one_alone_would() {
  constexpr std::int64_t kWriters = 4;
  constexpr std::int64_t kIds = 18'000;  // more of a sub-table than are changed with its lock held
  TableOptions adagrad = options();
  adagrad.segments[0].optimizer.kind = "adagrad";
  std::vector<std::int64_t> all;
  for (std::int64_t writer = 0; writer < kWriters; ++writer) {
    for (std::int64_t i = 0; i < kIds; ++i) all.push_back(kFirstPrivate * writer + i);
  }
  const auto write = [&](RowTable& table, std::int64_t writer) {
    std::mt19937_64 random(static_cast<std::uint64_t>(writer));
    const std::vector<float> rates{0.1F};
    const auto first = all.begin() + writer * kIds;
    std::vector<std::int64_t> ids(first, first + kIds);
    ids.insert(ids.end(), first, first + 2'000);
    for (int batch = 0; batch < 8; ++batch) {
      std::vector<float> gradients(ids.size() * kDim);
      for (float& gradient : gradients) gradient = static_cast<float>(random() % 100) - 50.0F;
      BatchPlan plan(ids, batch % 2 == 0);
      ChangeRequest request;
      request.values = gradients.data();
      request.learning_rates = rates;
      table.change(plan, request);
    }
  };
  std::vector<float> rows[2];
  for (const bool at_once : {false, true}) {
    RowTable table(adagrad);
    BatchPlan plan(all, true);
    add_ones(table, plan, 0);
    const std::size_t consumer = table.add_consumer();
    std::vector<std::jthread> writers;
    for (std::int64_t writer = 0; writer < kWriters; ++writer) {
      writers.emplace_back([&, writer] { write(table, writer); });
      if (!at_once) writers.back().join();
    }
    writers.clear();
    CHECK_EQ(table.take_changes(consumer).touched.size(), all.size());
    rows[at_once].resize(all.size() * kDim);
    CHECK_EQ(table.lookup(all, rows[at_once].data(), kDim), all.size());
  }
  CHECK(rows[0] == rows[1]);
}

}  // namespace

int main() {
  test_repeated_ids_without_merging();
  test_writers_that_meet_change_rows_as_one_alone_would();
  set_num_threads(2);  // batches and evictions use threads of their own on top
  Stress().run();
  return monolith::test::finish();
}
