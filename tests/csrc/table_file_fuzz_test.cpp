// Table files and filter files that are damaged, or made on purpose with right checksums: they are refused or read, and
// nothing is allocated because a file says so.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "check.h"
#include "filter/filter_file_format.h"
#include "filter/sliding_hash_filter.h"
#include "io/crc32c.h"
#include "io/table_file.h"
#include "io/table_file_format.h"

namespace {
std::atomic<std::size_t> largest_request{0};
}

// Not inlined: where only one of a pair is, GCC 13 warns that memory of `new` is freed by `free`.
[[gnu::noinline]] void* operator new(std::size_t size) {
  std::size_t before = largest_request.load();
  while (before < size && !largest_request.compare_exchange_weak(before, size)) {
  }
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace monolith;
namespace fs = std::filesystem;
using Random = std::mt19937_64;
using table_file::BlockHeader;
using table_file::BucketEntry;
using table_file::Footer;
using table_file::Header;

constexpr std::size_t kLargestAllowed = 4U << 20;

std::size_t below(Random& random, std::size_t limit) { return limit == 0 ? 0 : random() % limit; }

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_all(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

template <typename T>
T get(const std::string& bytes, std::size_t offset) {
  T value{};
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof value)
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void put(std::string& bytes, std::size_t offset, const T& value) {
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof value)
    std::memcpy(bytes.data() + offset, &value, sizeof value);
}

std::uint32_t crc_of(const std::string& bytes, std::size_t offset, std::size_t size) {
  return crc32c(std::as_bytes(std::span(bytes)).subspan(offset, size));
}

// Numbers that break sums and products.
std::uint64_t evil_number(Random& random) {
  constexpr std::uint64_t kLargest = ~std::uint64_t{0};
  switch (below(random, 6)) {
    case 0:
      return kLargest - below(random, 64);
    case 1:
      return std::uint64_t{1} << below(random, 64);
    case 2:
      return below(random, 5000);
    case 3:
      return (std::uint64_t{1} << 32) - below(random, 64);
    case 4:
      return kLargest / (1 + below(random, 64));
    default:
      return random();
  }
}

void damage(std::string& bytes, Random& random) {
  const std::size_t place = below(random, bytes.size());
  switch (below(random, 7)) {
    case 0:
      if (!bytes.empty()) bytes[place] = static_cast<char>(bytes[place] ^ (1 << below(random, 8)));
      break;
    case 1:
      bytes.resize(place);
      break;
    case 2:
      bytes.append(1 + below(random, 40), static_cast<char>(random()));
      break;
    case 3:
      bytes.erase(place, 1 + below(random, 64));
      break;
    case 4:
      bytes.insert(place, std::string(1 + below(random, 64), '\0'));
      break;
    case 5:
      put(bytes, place, evil_number(random));
      break;
    default:
      put(bytes, place, static_cast<std::uint32_t>(evil_number(random)));
  }
}

TableOptions options() {
  TableOptions options;
  options.name = "rows";
  SegmentConfig segment;
  segment.dim = 2;
  segment.optimizer.kind = "adagrad";
  options.segments = {segment};
  return options;
}

// A good table file and where its parts lie.
class TableFile {
 public:
  explicit TableFile(const std::string& folder) : path_(folder + "/damaged-00000-of-00001"), out_(folder + "/out") {
    RowTable table(options());
    std::vector<std::int64_t> ids(300);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 7 + 1);
    BatchPlan plan(ids, true);
    const std::vector<float> gradients(ids.size() * table.dim(), -1.5F);
    const std::vector<float> rates{0.25F};
    ChangeRequest request;
    request.values = gradients.data();
    request.learning_rates = rates;
    request.time = 100;
    table.change(plan, request);
    TableFileInfo info;
    info.schema = R"({"name":"rows"})";
    save_table(table, folder + "/good", 1, info, false);
    good_ = read_all(shard_file_name(folder + "/good", 0, 1));
    const auto header = get<Header>(good_, 0);
    const auto footer = get<Footer>(good_, good_.size() - sizeof(Footer));
    index_ = footer.index_offset;
    row_bytes_ = header.weight_bytes + header.state_bytes;
  }

  // Returns whether the damage was found.
  bool try_once(Random& random) {
    std::string bytes = good_;
    const bool sealed = below(random, 3) != 0;
    for (std::size_t n = 1 + below(random, 3); n > 0; --n) sealed ? set_field(bytes, random) : damage(bytes, random);
    if (sealed) seal(bytes);
    write_all(path_, bytes);
    const bool found = !is_read();
    if (!sealed && bytes != good_) CHECK(found);
    return found;
  }

 private:
  // One of the numbers that lead to others.
  void set_field(std::string& bytes, Random& random) {
    const std::size_t footer = bytes.size() - sizeof(Footer);
    const std::size_t bucket = below(random, kNumBuckets);
    const auto entry = get<BucketEntry>(good_, index_ + bucket * sizeof(BucketEntry));
    switch (below(random, 6)) {
      case 0:
        put(bytes, 8 + 4 * below(random, 18), static_cast<std::uint32_t>(evil_number(random)));  // of the header
        break;
      case 1:
        put(bytes, index_ + bucket * sizeof(BucketEntry), evil_number(random));
        break;
      case 2:
        put(bytes, index_ + bucket * sizeof(BucketEntry) + 8, evil_number(random));
        break;
      case 3:
        put(bytes, footer + 8 * below(random, 2), evil_number(random));
        break;
      case 4:
        put(bytes, entry.offset + 4 * below(random, 2), static_cast<std::uint32_t>(evil_number(random)));
        break;
      default:
        put(bytes, entry.offset + sizeof(BlockHeader), evil_number(random));  // an id
    }
  }

  // Gives every part the checksum of somebody who knows how.
  void seal(std::string& bytes) const {
    for (std::size_t bucket = 0; bucket < kNumBuckets; ++bucket) {
      const auto entry = get<BucketEntry>(good_, index_ + bucket * sizeof(BucketEntry));
      if (entry.num_rows == 0) continue;
      const std::size_t size = table_file::block_bytes(entry.num_rows, row_bytes_) - sizeof(std::uint32_t);
      put(bytes, entry.offset + size, crc_of(bytes, entry.offset, size));
    }
    auto header = get<Header>(bytes, 0);
    const std::size_t schema_at = table_file::header_bytes(header);
    if (schema_at + header.schema_bytes <= bytes.size()) {
      const auto schema = std::as_bytes(std::span(bytes)).subspan(schema_at, header.schema_bytes);
      header.crc = table_file::header_crc(header, schema);
      put(bytes, 0, header);
    }
    const std::size_t end = bytes.size() - sizeof(Footer);
    auto footer = get<Footer>(bytes, end);
    if (footer.index_offset <= end) footer.index_crc = crc_of(bytes, footer.index_offset, end - footer.index_offset);
    put(bytes, end, footer);
    footer.footer_crc = crc_of(bytes, end, offsetof(Footer, footer_crc));
    put(bytes, end, footer);
  }

  bool is_read() {
    bool checked = false;
    try {
      read_table_file_info(path_);
      check_table_files(table_, {path_});
      checked = true;
      RowTable target(options());
      load_table(target, {path_});
    } catch (const CorruptFile&) {
      CHECK(!checked);  // what is checked can be loaded
    } catch (const std::invalid_argument&) {
      CHECK(!checked);
    }
    try {
      reshard_table({path_}, out_, 3);
    } catch (const CorruptFile&) {
    }
    return checked;
  }

  std::string path_, out_, good_;
  std::uint64_t index_ = 0;
  std::size_t row_bytes_ = 0;
  RowTable table_{options()};
};

// One split of a filter, damaged; the others are good.
class FilterFile {
 public:
  explicit FilterFile(const std::string& folder) : basename_(folder + "/filter") {
    for (std::int64_t id = 0; id < 500; ++id) filter_.add(id, 1 + static_cast<std::uint32_t>(id % 3));
    filter_.save(basename_);
    path_ = basename_ + "-00000-of-00005";
    good_ = read_all(path_);
  }

  bool try_once(Random& random) {
    std::string bytes = good_;
    const bool sealed = below(random, 2) != 0;
    for (std::size_t n = 1 + below(random, 3); n > 0; --n) {
      if (!sealed) {
        damage(bytes, random);
      } else if (below(random, 2) == 0) {
        put(bytes, 8 + 4 * below(random, 20), static_cast<std::uint32_t>(evil_number(random)));
      } else {
        put(bytes, sizeof(filter_format::Header) + 8 * below(random, 2), evil_number(random));
      }
    }
    if (sealed) {
      const auto header = get<filter_format::Header>(bytes, 0);
      put(bytes, offsetof(filter_format::Header, header_crc), filter_format::header_crc(header));
    }
    write_all(path_, bytes);
    bool found = false;
    SlidingHashFilter target(300, 5);
    try {
      target.restore(basename_);
    } catch (const std::invalid_argument&) {
      found = true;
    }
    if (!sealed && bytes != good_) CHECK(found);
    write_all(path_, good_);
    return found;
  }

 private:
  SlidingHashFilter filter_{300, 5};
  std::string basename_, path_, good_;
};

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--seconds") seconds = std::strtod(argv[i + 1], nullptr);
    if (std::string(argv[i]) == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  // In memory where there is such a place: every try writes a file.
  const fs::path root = fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
  const fs::path folder = root / ("table_file_fuzz_test." + std::to_string(getpid()));
  fs::create_directories(folder);
  std::size_t tries = 0, found = 0;
  {
    TableFile table_file(folder.string());
    FilterFile filter_file(folder.string());
    Random random(seed);
    largest_request = 0;
    const auto begin = std::chrono::steady_clock::now();
    const auto more = [&] {
      if (seconds == 0) return tries < 3000;
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds;
    };
    while (more() && monolith::test::num_failures == 0) {
      found += table_file.try_once(random) ? 1 : 0;
      found += filter_file.try_once(random) ? 1 : 0;
      tries += 2;
    }
  }
  fs::remove_all(folder);
  std::cout << tries << " damaged files, " << found << " refused, largest allocation " << largest_request.load()
            << " bytes, seed " << seed << std::endl;
  CHECK(largest_request.load() < kLargestAllowed);
  CHECK(found > tries / 2);
  CHECK(found < tries);
  return monolith::test::finish();
}
