// Frames round trip, and damaged ones are refused and never read beyond their end.
//
// Build with -DMONOLITH_SANITIZE=address: frames fill their buffer to the last byte.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "io/crc32c.h"
#include "net/aligned_buffer.h"
#include "net/applied_batches.h"
#include "net/frame.h"
#include "net/table_service.h"
#include "ops/parallel_for.h"
#include "table/hash_shard.h"

namespace {

using namespace monolith;
using namespace monolith::net;

const std::vector<std::int64_t> kIds{5, -1, 1LL << 60};
const std::vector<float> kRows{1, 2, 3, 4, 5, 6};

AlignedBuffer make_frame(RequestType type = RequestType::kAssign) {
  Header fields;
  fields.type = static_cast<std::uint16_t>(type);
  fields.request_id = 7;
  const std::vector<ArraySpec> arrays{{"time", ElementType::kInt64, 1},
                                      {"none", ElementType::kUint8, 0},
                                      {"sizes", ElementType::kInt64, 1},
                                      {"ids", ElementType::kInt64, kIds.size()},
                                      {"values", ElementType::kFloat32, kRows.size()}};
  const FrameLayout layout = lay_out(fields, arrays);
  AlignedBuffer frame(layout.total_bytes);
  std::memset(frame.data(), 0, frame.size());
  std::memcpy(frame.data(), layout.head.data(), layout.head.size());
  const std::int64_t size = 3;
  std::memcpy(frame.data() + layout.offsets[2], &size, sizeof size);
  std::memcpy(frame.data() + layout.offsets[3], kIds.data(), kIds.size() * sizeof(std::int64_t));
  std::memcpy(frame.data() + layout.offsets[4], kRows.data(), kRows.size() * sizeof(float));
  return frame;
}

// Makes the checksums right again, so that what is behind them is reached.
void seal(AlignedBuffer& frame) {
  std::uint32_t meta_bytes, description_bytes;
  std::memcpy(&meta_bytes, frame.data() + 60, 4);
  std::memcpy(&description_bytes, frame.data() + 68, 4);
  const std::size_t index_bytes = std::size_t{meta_bytes} + description_bytes;
  if (kHeaderBytes + index_bytes <= frame.size()) {
    const std::uint32_t index = crc32c(frame.bytes().subspan(kHeaderBytes, index_bytes));
    std::memcpy(frame.data() + 80, &index, 4);
  }
  const std::uint32_t header = crc32c(frame.bytes().first(84));
  std::memcpy(frame.data() + 84, &header, 4);
}

FrameView view(const AlignedBuffer& frame, const FrameLimits& limits = {}) {
  return {decode_header(frame.bytes().first(kHeaderBytes), limits), frame.bytes()};
}

template <typename T>
AlignedBuffer with(std::size_t at, T value) {
  AlignedBuffer frame = make_frame();
  std::memcpy(frame.data() + at, &value, sizeof value);
  seal(frame);
  return frame;
}

void test_round_trip() {
  const AlignedBuffer frame = make_frame();
  const FrameView read = view(frame);
  CHECK_EQ(read.header().request_id, 7);
  CHECK_EQ(read.meta() == "{}", true);
  CHECK_EQ(read.int64s("ids").size(), 3);
  CHECK_EQ(read.int64s("ids")[1], -1);
  CHECK_EQ(read.floats("values")[5], 6.0F);
  CHECK_EQ(read.bytes("none").size(), 0);
  CHECK_EQ(reinterpret_cast<std::uintptr_t>(read.floats("values").data()) % 64, 0);
  CHECK(!read.has("rates"));
  CHECK_THROWS(read.floats("rates"), "lacks the array 'rates'");
  CHECK_THROWS(read.floats("ids"), "'ids' must have one dimension and elements of type 6");
}

void test_damage() {
  CHECK_THROWS(view(with(72, std::uint64_t{1} << 60)), "beyond the limit");
  CHECK_THROWS(view(with(60, 0xFFFFFFFFU)), "beyond the limits");
  CHECK_THROWS(view(with(64, 0xFFFFFFFFU)), "beyond the limits");
  CHECK_THROWS(view(with(64, 30U)), "cannot describe");
  CHECK_THROWS(view(with(72, std::uint64_t{90})), "cannot hold an index");
  CHECK_THROWS(view(with(72, std::uint64_t{4096})), "the frame has 4096 bytes");
  CHECK_THROWS(view(with(8, std::uint32_t{0x00010001})), "frame versions 1 to 1");
  CHECK_THROWS(view(with(14, std::uint16_t{9})), "kind 0, 1, 2 or 3");
  CHECK_THROWS(view(with(0, 'X')), "speaks something else");
  const std::size_t first = kHeaderBytes + 2;  // the description of "time"
  CHECK_THROWS(view(with(first, std::uint8_t{0})), "array of type 0");
  CHECK_THROWS(view(with(first, std::uint8_t{9})), "array of type 9");
  CHECK_THROWS(view(with(first + 1, std::uint8_t{9})), "9 dimensions");
  CHECK_THROWS(view(with(first + 2, std::uint16_t{0xFFFF})), "cut short");
  CHECK_THROWS(view(with(first + 4, std::uint64_t{1} << 61)), "does not fit");
  CHECK_THROWS(view(with(first + 4, ~std::uint64_t{0})), "does not fit");
  CHECK_THROWS(view(with(first + 4, std::uint64_t{2000})), "does not fit");
  AlignedBuffer flipped = make_frame();
  flipped.data()[20] ^= std::byte{1};
  CHECK_THROWS(view(flipped), "checksum of a frame header");
  flipped = make_frame();
  flipped.data()[kHeaderBytes + 3] ^= std::byte{1};
  CHECK_THROWS(view(flipped), "checksum of a frame's index");
  CHECK_THROWS(decode_header(make_frame().bytes().first(50), {}), "has 88 bytes");
}

class Sink : public ByteSink {
 public:
  void write(std::span<const std::byte> part, bool) override { bytes.insert(bytes.end(), part.begin(), part.end()); }
  std::vector<std::byte> bytes;
};

std::shared_ptr<RowTable> make_table() {
  TableOptions options;
  options.name = "t";
  SegmentConfig segment;
  segment.dim = 2;
  segment.optimizer.kind = "sgd";
  options.segments = {segment};
  return std::make_shared<RowTable>(std::move(options));
}

// Whatever a frame says, a service answers it or refuses it, and goes on.
void test_random_damage_to_requests(std::mt19937& random) {
  const auto table = make_table();
  TableService service({{table, true}}, {});
  TableService::Scratch scratch;
  int answered = 0;
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto type = static_cast<RequestType>(65 + random() % 9);
    AlignedBuffer frame = make_frame(type);
    const std::size_t flips = random() % 4;
    for (std::size_t i = 0; i < flips; ++i) {
      frame.data()[8 + random() % (frame.size() - 8)] =
          static_cast<std::byte>(random() % 3 == 0 ? 0xFF : random() % 256);
    }
    if (random() % 8 != 0) seal(frame);
    Sink sink;
    try {
      const Header header = decode_header(frame.bytes().first(kHeaderBytes), service.limits());
      if (header.total_bytes != frame.size()) throw CorruptFrame("as a socket would: fewer bytes come");
      service.answer(header, frame.bytes(), std::nullopt, scratch, sink);
      CHECK(!sink.bytes.empty());
      ++answered;
    } catch (const CorruptFrame&) {
      ++refused;
    }
  }
  CHECK(answered > 100);
  CHECK(refused > 100);
  Sink sink;
  const AlignedBuffer good = make_frame();
  service.answer(decode_header(good.bytes().first(kHeaderBytes), {}), good.bytes(), std::nullopt, scratch, sink);
  std::vector<float> rows(6);
  table->lookup(std::span(kIds), rows.data(), 2);
  CHECK(rows == kRows);
}

void test_a_batch_is_applied_once() {
  AppliedBatches applied(2);
  int calls = 0;
  const auto apply = [&] { ++calls; };
  CHECK(applied.once({"a", 0, 10}, apply));
  CHECK(!applied.once({"a", 0, 10}, apply));
  CHECK(!applied.once({"a", 3, 7}, apply));
  CHECK(applied.once({"a", 20, 30}, apply));
  CHECK(applied.once({"b", 0, 10}, apply));
  CHECK_EQ(calls, 3);
  CHECK_THROWS(applied.once({"a", 25, 35}, apply), "overlaps");
  CHECK_THROWS(applied.once({"c", 0, 1}, apply), "2 partitions at most");
  CHECK_THROWS(applied.once({"a", 40, 40}, apply), "ends after its begin");
  CHECK_THROWS(applied.once({"a", 40, 50}, [] { throw std::invalid_argument("refused"); }), "refused");
  CHECK(applied.once({"a", 40, 50}, apply));
  // Clients that count their own calls are forgotten, the oldest first, and never in the way of partitions.
  const std::string first_client("\0first", 6);
  CHECK(applied.once({first_client, 0, 1}, apply));
  CHECK(!applied.once({first_client, 0, 1}, apply));
  for (int i = 0; i < 5000; ++i) applied.once({std::string(1, '\0') + std::to_string(i), 0, 1}, apply);
  CHECK(applied.once({first_client, 0, 1}, apply));
  CHECK_EQ(applied.ends().size(), 2);
}

void test_shards_are_ranges_of_the_hash() {
  CHECK_EQ(shard_of_hash(0, 3), 0);
  CHECK_EQ(shard_of_hash(~std::uint64_t{0}, 65536), 65535);
  CHECK_EQ(shard_of_hash(std::uint64_t{1} << 63, 2), 1);
  CHECK_EQ(shard_of_hash((std::uint64_t{1} << 63) - 1, 2), 0);
}

// Many parts, read by several threads and sent in order.
void test_a_large_pull() {
  set_num_threads(4);
  const auto table = make_table();
  TableService service({{table, false}}, {});
  TableService::Scratch scratch;
  std::vector<std::int64_t> ids(400'000);
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> values(2 * ids.size());
  std::iota(values.begin(), values.end(), 0.0F);
  BatchPlan plan(ids, false);
  ChangeRequest assign;
  assign.kind = ChangeRequest::Kind::kAssign;
  assign.values = values.data();
  table->change(plan, assign);

  Header fields;
  fields.type = static_cast<std::uint16_t>(RequestType::kPull);
  const std::vector<ArraySpec> arrays{
      {"half", ElementType::kInt64, 1}, {"sizes", ElementType::kInt64, 1}, {"ids", ElementType::kInt64, ids.size()}};
  const FrameLayout layout = lay_out(fields, arrays);
  AlignedBuffer frame(layout.total_bytes);
  std::memcpy(frame.data(), layout.head.data(), layout.head.size());
  const auto size = static_cast<std::int64_t>(ids.size());
  std::memset(frame.data() + layout.offsets[0], 0, sizeof size);
  std::memcpy(frame.data() + layout.offsets[1], &size, sizeof size);
  std::memcpy(frame.data() + layout.offsets[2], ids.data(), 8 * ids.size());
  const Header header = decode_header(frame.bytes().first(kHeaderBytes), {});
  Sink sink;
  service.answer(header, frame.bytes(), std::nullopt, scratch, sink);
  CHECK(sink.bytes.size() > 4 * values.size());
  const std::byte* const rows = sink.bytes.data() + sink.bytes.size() - 4 * values.size();
  CHECK_EQ(std::memcmp(rows, values.data(), 4 * values.size()), 0);

  // A client that is gone: the threads that wait for their turn end too.
  class Broken : public ByteSink {
   public:
    void write(std::span<const std::byte>, bool) override {
      if (++num_writes_ > 3) throw std::runtime_error("gone");
    }

   private:
    int num_writes_ = 0;
  } broken;
  CHECK_THROWS(service.answer(header, frame.bytes(), std::nullopt, scratch, broken), "gone");
  set_num_threads(0);
}

// Threads of a server share one pool of helpers: every task is done once, and errors come to the thread that asked.
void test_threads_that_share_cores() {
  set_num_threads(4);
  std::vector<std::jthread> servers;
  for (int server = 0; server < 3; ++server) {
    servers.emplace_back([] {
      for (int round = 0; round < 200; ++round) {
        const ShareCores sharing;
        std::vector<std::atomic<int>> done(17);
        parallel_for(done.size(), [&](std::size_t i) { parallel_for(2, [&](std::size_t) { ++done[i]; }); });
        CHECK(std::ranges::all_of(done, [](const auto& count) { return count == 2; }));
        CHECK_THROWS((parallel_for(9,
                                   [](std::size_t i) {
                                     if (i == 5) throw std::runtime_error("five");
                                   }),
                      0),
                     "five");
      }
    });
  }
  servers.clear();
  set_num_threads(0);
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  std::uint32_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--seconds") seconds = std::strtod(argv[i + 1], nullptr);
    if (std::string(argv[i]) == "--seed") seed = static_cast<std::uint32_t>(std::strtoull(argv[i + 1], nullptr, 10));
  }
  test_round_trip();
  test_damage();
  test_a_batch_is_applied_once();
  test_shards_are_ranges_of_the_hash();
  test_a_large_pull();
  test_threads_that_share_cores();
  const auto begin = std::chrono::steady_clock::now();
  std::mt19937 random(seed);
  std::size_t rounds = 0;
  do {
    test_random_damage_to_requests(random);
    ++rounds;
  } while (monolith::test::num_failures == 0 &&
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds);
  std::cout << rounds * 20'000 << " damaged requests, seed " << seed << std::endl;
  return monolith::test::finish();
}
