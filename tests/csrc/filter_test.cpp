#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "check.h"
#include "filter/admission_filter.h"
#include "filter/hash_filter.h"
#include "filter/probabilistic_filter.h"
#include "filter/sliding_hash_filter.h"
#include "io/crc32c.h"

namespace {

using namespace monolith;

std::vector<std::int64_t> random_ids(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> ids(count);
  for (auto& id : ids) id = static_cast<std::int64_t>(random());
  return ids;
}

template <typename Filter>
double wrong_counts(Filter& filter, const std::vector<std::int64_t>& ids) {
  for (const auto id : ids) filter.add(id, 1);
  std::size_t wrong = 0;
  for (const auto id : ids) wrong += filter.get(id) != 1 ? 1 : 0;
  return static_cast<double>(wrong) / static_cast<double>(ids.size());
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

// ---- crc32c

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

void test_crc32c() {
  CHECK_EQ(crc32c(bytes("123456789")), 0xE3069283U);
  CHECK_EQ(crc32c(bytes(std::string(32, '\0'))), 0x8A9136AAU);
  CHECK_EQ(crc32c(bytes(std::string(32, '\xff'))), 0x62A8AB43U);
  CHECK_EQ(crc32c({}), 0U);
  CHECK_EQ(crc32c_portable(bytes("123456789")), 0xE3069283U);
  CHECK_EQ(mask_crc(0), 0xA282EAD8U);
  CHECK_EQ(unmask_crc(mask_crc(0xE3069283U)), 0xE3069283U);
  std::string text(40000, 'x');
  std::mt19937 random(1);
  for (auto& c : text) c = static_cast<char>(random());
  for (const std::size_t size : {1UL, 7UL, 8UL, 63UL, 6143UL, 6144UL, 6145UL, 12300UL, 39999UL}) {
    const auto part = bytes(text).subspan(1, size);
    CHECK_EQ(crc32c(part), crc32c_portable(part));
    CHECK_EQ(crc32c(part.subspan(size / 3), crc32c(part.first(size / 3))), crc32c(part));
  }
}

void report_crc_speed() {
  const std::string data(64 << 20, 'm');
  for (const std::size_t size : {std::size_t{1} << 20, data.size()}) {
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      CHECK(crc32c(bytes(data).first(size)) != 0);
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      best = std::min(best, spent.count());
    }
    std::cout << "crc32c of " << (size >> 20) << " MiB: " << static_cast<double>(size) / best / 1e9 << " GB/s\n";
  }
}

// ---- one array of counters

template <typename Cell>
void test_hash_filter_counts() {
  HashFilter<Cell> filter(100);
  for (std::uint32_t i = 0; i < 20; ++i) CHECK_EQ(filter.add(1, 1), std::min(i, 15U));
  CHECK_EQ(filter.get(1), 15U);
  CHECK_EQ(filter.get(2), 0U);
  CHECK_EQ(filter.add(2, 100), 0U);  // a count is cut to 15 first
  CHECK_EQ(filter.get(2), 15U);

  HashFilter<Cell> once(100);
  for (int i = 0; i < 3; ++i) once.add(77, 1);
  CHECK_EQ(once.estimated_total_element(), 1U);
  HashFilter<Cell> many(1000);
  for (std::int64_t i = 0; i < 11; ++i) many.add((i * 7919) << 17, 1);
  CHECK_EQ(many.estimated_total_element(), 11U);
  HashFilter<Cell> clone(many);
  CHECK(clone == many);
  clone.add(5 << 17, 1);
  CHECK(!(clone == many));
  clone.clear();
  CHECK_EQ(clone.estimated_total_element(), 0U);
  CHECK_EQ(clone.get(7919 << 17), 0U);
}

void test_hash_filter_thresholds() {
  HashFilter<std::uint16_t> filter(100);
  for (std::int64_t i = 0; i < 5; ++i) {
    CHECK(!filter.should_be_filtered(i << 17, 1, 0));
    CHECK_EQ(filter.estimated_total_element(), static_cast<std::size_t>(i));
    CHECK(filter.should_be_filtered(i << 17, 1, 1));
    CHECK(!filter.should_be_filtered(i << 17, 1, 1));
  }
  CHECK_EQ(filter.estimated_total_element(), 5U);
}

void test_hash_filter_limits() {
  HashFilter<std::uint8_t> filter(10, 1.0);  // 10 + 64 cells, 16 signatures: probes soon find a shared or no cell
  for (std::int64_t i = 0; i < 16; ++i) filter.add(i << 17, 1);
  CHECK(filter.full() && filter.exceed_limit());
  CHECK_EQ(filter.estimated_total_element(), 10U);
  CHECK_EQ(HashFilter<std::uint16_t>::size_byte(1000, 1.5), 3064U);
  CHECK_THROWS(HashFilter<std::uint16_t>(0), "capacity");
}

void test_hash_filter_error_rates() {
  const auto ids = random_ids(1000000, 1);
  HashFilter<std::uint8_t> narrow(ids.size(), 4);
  const double narrow_rate = wrong_counts(narrow, ids);
  CHECK(narrow_rate > 0.5 * 0.0208 && narrow_rate < 2 * 0.0208);
  HashFilter<std::uint16_t> wide(ids.size(), 2);
  const double wide_rate = wrong_counts(wide, ids);
  CHECK(wide_rate > 0.5 * 0.000242 && wide_rate < 2 * 0.000242);
  std::cout << "error rates " << narrow_rate << " " << wide_rate << std::endl;
}

// ---- the ring

void test_sliding_conflict_rates() {
  const auto ids = random_ids(1000000, 2);
  SlidingHashFilter enough(1000000, 10);
  const double low = wrong_counts(enough, ids);
  CHECK_NEAR(low, 0.00908, 0.5 * 0.00908);
  CHECK(enough.failure_count() < ids.size() / 10000);
  SlidingHashFilter half(500000, 10);
  const double high = wrong_counts(half, ids);
  CHECK_NEAR(high, 0.5, 0.25);
  CHECK(half.failure_count() < ids.size() / 10000);
  std::cout << "conflict rates " << low << " " << high << ", failures " << enough.failure_count() << " "
            << half.failure_count() << std::endl;
}

// The rules again, with maps for arrays. Exact here: signatures are all different, and with 9 ids per split no probe of
// 16 cells fails.
void test_sliding_matches_a_plain_model() {
  constexpr std::size_t kSplits = 30, kSplitCapacity = 300 / (kSplits - 1);
  SlidingHashFilter filter(300, kSplits);
  std::vector<std::unordered_map<std::int64_t, std::uint32_t>> ring(kSplits);
  std::size_t head = 0, moves = 0;
  std::mt19937_64 random(3);
  std::size_t differences = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t number = random() % 400;  // becomes the signature, the low end of the hash
    const std::int64_t id = id_of_hash((hash_id(static_cast<std::int64_t>(number)) & ~std::uint64_t{0xFFF}) | number);
    const std::uint32_t count = 1 + static_cast<std::uint32_t>(random() % 3);
    std::uint32_t old = 0;
    bool known = false;
    for (std::size_t back = 0; !known && back <= std::min(moves, kSplits - 2); ++back) {
      auto& split = ring[(head + kSplits - back) % kSplits];
      if (split.contains(id)) {
        old = split[id];
        known = true;
      }
    }
    ring[head][id] = std::min(15U, old + count);
    if (ring[head].size() + 1 >= kSplitCapacity) {
      head = (head + 1) % kSplits;
      ++moves;
      ring[(head + 1) % kSplits].clear();
    }
    differences += filter.add(id, count) != old ? 1 : 0;
  }
  CHECK_EQ(differences, 0U);
  CHECK_EQ(filter.head(), head);
  CHECK_EQ(filter.head_increment(), moves);
  CHECK(moves > 2 * kSplits);
}

void test_sliding_takes_memory_as_needed() {
  const std::size_t before = resident_bytes();
  SlidingHashFilter filter(300000000, 7);
  for (std::int64_t id = 0; id < 1000; ++id) filter.add(id * 7919, 1);
  CHECK(resident_bytes() - before < (16U << 20));  // in full it takes 840 MB
}

void test_sliding_arguments() {
  CHECK_EQ(SlidingHashFilter(1, 1).split_num(), 5U);
  CHECK_EQ(SlidingHashFilter(1, 1).capacity(), 300U);
  CHECK_THROWS(SlidingHashFilter(300, 1000), "too small");
  CHECK_THROWS(SlidingHashFilter(300, 100000), "split_num");
  const SlidingHashFilter filter(300, 7);
  check_thresholds(filter, SlotThresholds(15));
  CHECK_THROWS(check_thresholds(filter, SlotThresholds(16)), "16 can never be passed");
  CHECK_THROWS(check_thresholds(filter, SlotThresholds(0, {{3, 20}})), "20 can never be passed");
}

void test_sliding_files() {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("monolith_filter_test_" + std::to_string(std::random_device{}()));
  fs::create_directories(folder);
  const std::string basename = (folder / "f").string();
  SlidingHashFilter saved(60000, 7), restored(60000, 7);
  for (const auto id : random_ids(25000, 4)) saved.add(id, 1);
  CHECK_THROWS(restored.restore(basename), "There is no valid sharded files");
  saved.save(basename);
  saved.save(basename);  // over the first
  CHECK_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 7);
  restored.restore(basename);
  CHECK(restored == saved);
  SlidingHashFilter differs(60006, 7);
  CHECK_THROWS(differs.restore(basename), "doesn't match with");
  fs::resize_file(basename + "-00006-of-00007", 50);
  CHECK_THROWS(restored.restore(basename), "ends too early");
  CHECK(restored == saved);
  fs::remove_all(folder);
}

void test_sliding_is_shared_by_threads() {
  SlidingHashFilter filter(10000, 7);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::int64_t i = 0; i < 1000; ++i) filter.add((i % 100) << 17, 1);
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::int64_t i = 0; i < 100; ++i) CHECK_EQ(filter.get(i << 17), 15U);  // 40 sightings each
}

// What is written while others count is what the filter was when it was frozen.
void test_sliding_changes_while_others_count() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("monolith_changes_" + std::to_string(std::random_device{}()));
  fs::create_directories(folder);
  const std::string base = folder / "base";
  SlidingHashFilter filter(3000, 7);
  for (const auto id : random_ids(2000, 1)) filter.add(id, 1);
  filter.track_changes(true);
  filter.save(base);
  std::vector<std::string> changes;
  for (std::uint64_t round = 0; round < 6; ++round) {
    for (const auto id : random_ids(300, 10 + round)) filter.add(id, 1);
    const SlidingHashFilter then(filter);
    CHECK(filter.freeze(true));
    std::thread counting([&] {
      for (const auto id : random_ids(1500, 100 + round)) filter.add(id, 1);
    });
    changes.push_back(folder / std::to_string(round));
    filter.save_frozen_changes(changes.back());
    counting.join();
    SlidingHashFilter restored(3000, 7);
    restored.restore(base, changes);
    CHECK(restored == then);
    CHECK_EQ(restored.failure_count(), then.failure_count());
  }
  CHECK(filter.head_increment() > 14);  // twice round
  fs::remove_all(folder);
}

void test_slot_thresholds() {
  const SlotThresholds thresholds(2, {{5, 7}, {32767, 1}});
  CHECK_EQ(thresholds.threshold(123), 2U);
  CHECK_EQ(thresholds.threshold((std::int64_t{5} << 48) | 99), 7U);
  CHECK_EQ(thresholds.threshold(-1), 1U);  // the sign bit is not part of the slot
  CHECK_EQ(thresholds.max(), 7U);
  CHECK_THROWS(SlotThresholds(0, {{32768, 1}}), "slot 32768");
}

// ---- chance

double admitted(ProbabilisticFilter& filter, std::uint32_t count) {
  int in = 0;
  for (int i = 0; i < 10000; ++i) in += filter.should_be_filtered(i, count, 7) ? 0 : 1;
  return in;
}

void test_probabilistic() {
  ProbabilisticFilter unequal(false, 1);
  CHECK_NEAR(admitted(unequal, 1), 10000.0 / 7, 100);
  CHECK_NEAR(admitted(unequal, 2), 2 * 10000.0 / 7, 100);
  CHECK_EQ(admitted(unequal, 7), 10000.0);
  CHECK_EQ(admitted(unequal, 4000000000U), 10000.0);
  ProbabilisticFilter equal(true, 1);
  const double p = 1 - std::pow(0.05, 1.0 / 7);
  CHECK_NEAR(admitted(equal, 1), 10000 * p, 500);
  CHECK_NEAR(admitted(equal, 2), 10000 * (1 - (1 - p) * (1 - p)), 500);
  CHECK(!equal.should_be_filtered(1, 1, 0));

  ProbabilisticFilter again(false, 1), other(false, 2);
  std::size_t same = 0, differ = 0;
  unequal.set_num_draws(0);
  for (int i = 0; i < 1000; ++i) {
    const bool now = again.should_be_filtered(i, 3, 7);
    same += now == unequal.should_be_filtered(i, 3, 7) ? 1 : 0;
    differ += now != other.should_be_filtered(i, 3, 7) ? 1 : 0;
  }
  CHECK_EQ(same, 1000U);
  CHECK(differ > 300);
  CHECK_EQ(again.num_draws(), 1000U);
}

void test_batches() {
  const std::vector<std::int64_t> ids = {1, 1, 2};
  bool filtered[3];
  SlidingHashFilter sliding(300, 7);
  filter_ids(sliding, SlotThresholds(1), ids, filtered);
  CHECK(filtered[0] && !filtered[1] && filtered[2]);
  ProbabilisticFilter chance;
  filter_ids(chance, SlotThresholds(1000000), ids, filtered);
  CHECK(!filtered[0] && !filtered[1] && !filtered[2]);
  NoFilter none;
  CHECK(!none.should_be_filtered(1, 1, 3));
}

}  // namespace

int main() {
  test_crc32c();
  report_crc_speed();
  test_hash_filter_counts<std::uint8_t>();
  test_hash_filter_counts<std::uint16_t>();
  test_hash_filter_thresholds();
  test_hash_filter_limits();
  test_hash_filter_error_rates();
  test_sliding_conflict_rates();
  test_sliding_matches_a_plain_model();
  test_sliding_takes_memory_as_needed();
  test_sliding_arguments();
  test_sliding_files();
  test_sliding_is_shared_by_threads();
  test_sliding_changes_while_others_count();
  test_slot_thresholds();
  test_probabilistic();
  test_batches();
  return monolith::test::finish();
}
