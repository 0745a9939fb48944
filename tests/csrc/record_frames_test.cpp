// Frames round trip, and damaged ones are never read beyond their end.
//
//   record_frames_test [--seconds N] [--seed S]     without arguments a short run that is always the same
//
// Build with -DMONOLITH_SANITIZE=address: input fills its buffer to the last byte.
#include "io/record_frames.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "io/crc32c.h"
#include "io/record_stream.h"

namespace {

using namespace monolith;
using Bytes = std::vector<std::byte>;

// Every layout that a file can have.
std::vector<FrameLayout> layouts() {
  std::vector<FrameLayout> all{{.tf_record = true}, {.lagrangex_header = true}};
  for (int switches = 0; switches < 8; ++switches) {
    all.push_back(
        {.sort_id = (switches & 1) != 0, .kafka_dump = (switches & 2) != 0, .kafka_dump_prefix = (switches & 4) != 0});
  }
  for (FrameLayout& layout : all) layout.max_record_bytes = 1 << 20;
  return all;
}

Bytes random_bytes(std::mt19937& random, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// An exact copy on the heap: the address sanitizer then sees each byte read beyond the end.
struct Exact {
  explicit Exact(std::span<const std::byte> bytes) : size(bytes.size()), data(new std::byte[bytes.size()]) {
    std::copy(bytes.begin(), bytes.end(), data.get());
  }
  std::span<const std::byte> span() const { return {data.get(), size}; }
  std::size_t size;
  std::unique_ptr<std::byte[]> data;
};

void test_crc_of_every_length() {
  std::mt19937 random(1);
  const Bytes bytes = random_bytes(random, 30000);
  std::vector<std::size_t> sizes(1000);
  std::iota(sizes.begin(), sizes.end(), 0);
  for (const std::size_t size : {6143, 6144, 6145, 6151, 24576, 24583, 29990}) sizes.push_back(size);
  for (const std::size_t size : sizes) {
    const Exact data({bytes.data() + size % 8, size});
    const std::uint32_t expected = crc32c_portable(data.span());
    CHECK_EQ(crc32c(data.span()), expected);
    CHECK_EQ(crc32c(data.span(), 12345U), crc32c_portable(data.span(), 12345U));
    const std::unique_ptr<std::byte[]> copy(new std::byte[size]);
    CHECK_EQ(copy_with_crc32c(data.span(), copy.get()), expected);
    CHECK(std::equal(copy.get(), copy.get() + size, data.data.get()));
  }
  const std::string digits = "123456789";
  CHECK_EQ(crc32c_portable(std::as_bytes(std::span(digits))), 0xE3069283U);  // The check value of CRC-32C.
}

struct Encoded {
  Bytes payloads;
  std::vector<std::int64_t> splits{0};
  std::vector<std::int64_t> headers;
  Bytes frames;
};

Encoded encode_random(std::mt19937& random, const FrameLayout& layout, std::size_t num_records) {
  Encoded encoded;
  for (std::size_t i = 0; i < num_records; ++i) {
    encoded.splits.push_back(encoded.splits.back() + static_cast<std::int64_t>(random() % 40));
    if (layout.lagrangex_header) encoded.headers.push_back(static_cast<std::int64_t>(random()));
  }
  encoded.payloads = random_bytes(random, static_cast<std::size_t>(encoded.splits.back()));
  encoded.frames.resize(encoded.payloads.size() + num_records * frame_overhead(layout));
  encode_frames(encoded.payloads, encoded.splits, encoded.headers, layout, encoded.frames);
  return encoded;
}

// Decodes with an output that grows by a few bytes whenever there is no room, and input that comes in two pieces.
void test_round_trip(const FrameLayout& layout) {
  std::mt19937 random(2);
  const Encoded encoded = encode_random(random, layout, 50);
  for (std::size_t cut = 0; cut <= encoded.frames.size(); cut += 7) {
    Bytes payloads;
    std::vector<std::int64_t> splits(51), headers(50);
    std::size_t at = 0, records = 0, bytes = 0, end = cut;
    while (records < 50) {
      const Exact input({encoded.frames.data() + at, end - at});
      const FramePass pass = decode_frames(input.span(), layout, 50 - records,
                                           {.payloads = payloads,
                                            .payload_bytes = bytes,
                                            .row_splits = splits,
                                            .num_records = records,
                                            .headers = headers});
      CHECK_EQ(pass.num_records, pass.num_frames);
      CHECK_EQ(skip_frames(input.span(), layout, pass.num_frames).num_bytes, pass.num_bytes);
      at += pass.num_bytes;
      records += pass.num_records;
      bytes += pass.payload_bytes;
      if (pass.stop == FrameStop::kRoom) {
        CHECK(pass.wanted > payloads.size() - bytes);
        payloads.resize(bytes + pass.wanted + 3);
      } else if (pass.stop == FrameStop::kInput) {
        CHECK(pass.wanted > input.size - pass.num_bytes);
        if (end == encoded.frames.size()) break;
        end = encoded.frames.size();
      } else {
        CHECK(pass.stop == FrameStop::kEnough);
      }
    }
    payloads.resize(bytes);
    CHECK(payloads == encoded.payloads);
    CHECK(splits == encoded.splits);
    if (layout.lagrangex_header) CHECK(headers == encoded.headers);
  }
}

// Reads a file to its end as a caller has to: more room for payloads, and a larger buffer, whenever that is wanted.
void test_file(const FrameLayout& layout, std::size_t buffer_bytes, std::size_t max_frames) {
  std::mt19937 random(5);
  const Encoded encoded = encode_random(random, layout, 60);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  CHECK_EQ(std::fwrite(encoded.frames.data(), 1, encoded.frames.size(), file.get()), encoded.frames.size());
  std::rewind(file.get());
  Bytes buffer(buffer_bytes), payloads;
  std::vector<std::int64_t> splits(61), headers(60);
  std::size_t begin = 0, end = 0, bytes = 0, records = 0, num_read = 0;
  while (records < 60) {
    const FrameRead done = read_frames(fileno(file.get()), {.buffer = buffer, .begin = begin, .end = end}, layout,
                                       std::min(max_frames, 60 - records),
                                       {.payloads = payloads,
                                        .payload_bytes = bytes,
                                        .row_splits = splits,
                                        .num_records = records,
                                        .headers = headers});
    CHECK(done.begin <= done.end && done.end <= buffer.size());
    begin = done.begin;
    end = done.end;
    bytes += done.payload_bytes;
    records += done.num_records;
    num_read += done.num_read;
    CHECK_EQ(num_read - (end - begin), bytes + records * frame_overhead(layout));
    if (done.stop == FrameStop::kRoom) {
      payloads.resize(bytes + done.wanted);
    } else if (done.stop == FrameStop::kInput) {
      CHECK(end == buffer.size() && end - begin > buffer.size() / 2);
      buffer.resize(2 * buffer.size());
    } else {
      CHECK(done.stop == FrameStop::kEnough);
      CHECK(records == 60 || done.num_frames == max_frames);
    }
    if (test::num_failures > 0) return;
  }
  payloads.resize(bytes);
  CHECK(payloads == encoded.payloads);
  CHECK(splits == encoded.splits);
  CHECK_EQ(num_read, encoded.frames.size());
}

void test_a_stream_stops_at_a_bad_record_and_without_a_file() {
  const FrameLayout layout{.tf_record = true};
  std::mt19937 random(6);
  Encoded encoded = encode_random(random, layout, 20);
  const std::size_t tenth = static_cast<std::size_t>(encoded.splits[10]) + 10 * frame_overhead(layout);
  encoded.frames[tenth - 1] ^= std::byte{1};  // The last byte of the checksum of the tenth.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  CHECK_EQ(std::fwrite(encoded.frames.data(), 1, encoded.frames.size(), file.get()), encoded.frames.size());
  std::rewind(file.get());
  Bytes buffer(128), payloads(4096);  // No frame needs more than half of it.
  std::vector<std::int64_t> splits(21);
  const FrameRead done =
      read_frames(fileno(file.get()), {.buffer = buffer}, layout, 20, {.payloads = payloads, .row_splits = splits});
  CHECK_EQ(done.num_bad, 1);
  CHECK(done.num_frames >= 10 && done.num_frames < 20);
  CHECK_EQ(done.first_bad, static_cast<std::size_t>(encoded.splits[9]) + 9 * frame_overhead(layout));
  CHECK_EQ(done.num_records + 1, done.num_frames);
  const FrameRead nothing =
      read_frames(kNoFile, {.buffer = buffer}, layout, 20, {.payloads = payloads, .row_splits = splits});
  CHECK(nothing.stop == FrameStop::kInput && nothing.num_frames == 0 && nothing.num_read == 0);
  CHECK_THROWS(read_frames(kNoFile, {.buffer = buffer, .begin = 2, .end = 1}, layout, 1, {.row_splits = splits}),
               "window");
  CHECK_THROWS(read_frames(kNoFile, {.buffer = buffer, .end = 129}, layout, 1, {.row_splits = splits}), "window");
}

FramePass decode_once(std::span<const std::byte> input, const FrameLayout& layout) {
  const Exact exact(input);
  Bytes payloads(input.size());
  std::vector<std::int64_t> splits(101), headers(100);
  const FramePass pass =
      decode_frames(exact.span(), layout, 100, {.payloads = payloads, .row_splits = splits, .headers = headers});
  // What is promised of any input.
  CHECK(pass.num_bytes <= input.size());
  CHECK(pass.payload_bytes <= pass.num_bytes);
  CHECK_EQ(pass.num_records + pass.num_bad, pass.num_frames);
  CHECK(std::is_sorted(splits.begin(), splits.begin() + static_cast<std::ptrdiff_t>(pass.num_records) + 1));
  CHECK_EQ(splits[pass.num_records], static_cast<std::int64_t>(pass.payload_bytes));
  const FramePass skipped = skip_frames(exact.span(), layout, 100);
  CHECK_EQ(skipped.num_frames, pass.num_frames);
  CHECK(skipped.stop == pass.stop);
  return pass;
}

constexpr std::array<std::uint64_t, 6> kSizes{0, 0xFEFEFEFE, 1U << 20, (1U << 20) + 1, ~0ULL, 1ULL << 63};

void damage(Bytes& frames, const FrameLayout& layout, std::mt19937& random) {
  for (unsigned change = random() % 4; change > 0; --change) {
    frames[random() % frames.size()] = static_cast<std::byte>(random());
  }
  const std::size_t place = random() % frames.size();
  if (random() % 2 == 0 && frames.size() - place >= 8) {
    std::memcpy(frames.data() + place, &kSizes[random() % kSizes.size()], 8);
  }
  if (layout.tf_record && random() % 2 == 0 && frames.size() >= 12) {
    // A first length that is wrong, but fits its checksum: chance does not find one.
    const std::uint64_t size = random() % 2 == 0 ? kSizes[random() % kSizes.size()] : random() % (2 * frames.size());
    std::memcpy(frames.data(), &size, 8);
    const std::uint32_t crc = mask_crc(crc32c({frames.data(), 8}));
    std::memcpy(frames.data() + 8, &crc, 4);
  }
  frames.resize(frames.size() - random() % 2 * (random() % frames.size()));
}

void test_mutations(const FrameLayout& layout, std::mt19937& random) {
  for (int i = 0; i < 3000; ++i) {
    Bytes frames = encode_random(random, layout, random() % 5).frames;
    if (!frames.empty()) damage(frames, layout, random);
    decode_once(frames, layout);
  }
}

void test_faults() {
  const auto frame = [](std::uint64_t size) {
    Bytes bytes(8);
    std::memcpy(bytes.data(), &size, 8);
    return bytes;
  };
  const FrameLayout plain{.max_record_bytes = 1000};
  CHECK(decode_once(frame(0xFEFEFEFE), plain).stop == FrameStop::kDeadBeef);
  CHECK(decode_once(frame(1001), plain).stop == FrameStop::kTooLong);
  CHECK_EQ(decode_once(frame(~0ULL), plain).length, ~0ULL);
  CHECK(decode_once(frame(1000), plain).stop == FrameStop::kInput);
  CHECK_EQ(decode_once(frame(1000), plain).wanted, 1008);
  CHECK(decode_once(frame(~0ULL), {.sort_id = true}).stop == FrameStop::kTooLong);

  const FrameLayout tf_record{.tf_record = true};
  std::mt19937 random(4);
  const Bytes good = encode_random(random, tf_record, 3).frames;
  for (std::size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= std::byte{1};
    const FramePass pass = decode_once(bad, tf_record);
    CHECK(pass.num_bad == 1 || pass.stop == FrameStop::kLengthCrc);
  }
  std::vector<std::int64_t> splits(3);
  CHECK_THROWS(decode_frames(good, tf_record, 3, {.row_splits = splits}), "no room for 3 records");
  CHECK_THROWS(skip_frames(good, {.max_record_bytes = ~0ULL}, 1), "max_record_bytes");
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  std::uint32_t seed = 3;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--seconds") seconds = std::strtod(argv[i + 1], nullptr);
    if (std::string(argv[i]) == "--seed") seed = static_cast<std::uint32_t>(std::strtoull(argv[i + 1], nullptr, 10));
  }
  test_crc_of_every_length();
  test_faults();
  for (const FrameLayout& layout : layouts()) test_round_trip(layout);
  for (const FrameLayout& layout : layouts()) {
    for (const std::size_t buffer_bytes : {1, 16, 100, 1000, 100'000}) {
      for (const std::size_t max_frames : {1, 7, 60}) test_file(layout, buffer_bytes, max_frames);
    }
  }
  test_a_stream_stops_at_a_bad_record_and_without_a_file();
  const auto begin = std::chrono::steady_clock::now();
  std::mt19937 random(seed);
  std::size_t rounds = 0;
  do {
    for (const FrameLayout& layout : layouts()) test_mutations(layout, random);
    ++rounds;
  } while (monolith::test::num_failures == 0 &&
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds);
  std::cout << rounds * layouts().size() * 3000 << " damaged streams of frames, seed " << seed << std::endl;
  return monolith::test::finish();
}
