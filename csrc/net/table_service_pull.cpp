// How a table server reads rows: part by part, while parts before are sent and taken by the client.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <optional>
#include <string>
#include <system_error>

#include "net/table_reply.h"
#include "net/table_service.h"
#include "ops/parallel_for.h"
#include "optim/halves.h"

namespace monolith::net {

namespace {

// Parts stay in the second cache between being read and being sent; each one wakes the client up.
constexpr std::size_t kPartBytes = std::size_t{512} << 10;
// One thread at a time sends; that takes a third of the time of reading. Where it takes longer than reading, helpers
// would only take cores from the client, which is at work too, and this thread would wait for what they have begun.
constexpr std::size_t kMaxReaders = 4;

// Lets threads go one after the other, in the order of their parts.
class Turns {
 public:
  // Waits for the turn of a part; false if the turns have been ended.
  bool wait_for(std::size_t part) {
    std::size_t now = now_.load(std::memory_order_acquire);
    while (now != part) {
      if (now == kEnded) return false;
      now_.wait(now, std::memory_order_acquire);
      now = now_.load(std::memory_order_acquire);
    }
    return true;
  }
  void next(std::size_t part) { set(part + 1); }
  void end() { set(kEnded); }
  bool has_ended() const { return now_.load(std::memory_order_relaxed) == kEnded; }

 private:
  static constexpr std::size_t kEnded = ~std::size_t{0};
  void set(std::size_t now) {
    now_.store(now, std::memory_order_release);
    now_.notify_all();
  }
  std::atomic<std::size_t> now_{0};
};

}  // namespace

std::vector<TableService::RowsPart> TableService::parts_of(const Ids& ids) const {
  std::vector<RowsPart> parts;
  std::size_t first = 0;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const RowTable& table = *tables_[t].table;
    const std::size_t most = std::max<std::size_t>(1, kPartBytes / (table.dim() * sizeof(float)));
    const std::size_t end = first + static_cast<std::size_t>(ids.sizes[t]);
    while (first < end) {
      const std::size_t count = std::min(most, end - first);
      parts.push_back({&table, ids.all.subspan(first, count)});
      first += count;
    }
  }
  return parts;
}

void TableService::pull(const FrameView& request, Scratch& scratch, ByteSink& sink) {
  const Ids ids = ids_of(request);
  const bool half = single(request, "half") != 0;
  const ArraySpec rows{"rows", half ? ElementType::kFloat16 : ElementType::kFloat32, ids.num_floats};
  const FrameLayout layout = lay_out(reply_fields(request.header(), Kind::kReply), {&rows, 1});
  if (layout.total_bytes > options_.limits.max_frame_bytes) {
    refuse("the rows of " + std::to_string(ids.all.size()) + " ids take " + std::to_string(layout.total_bytes) +
           " bytes, beyond max_frame_bytes; ask for fewer at a time");
  }
  const std::vector<RowsPart> parts = parts_of(ids);
  std::optional<WorkAlone> alone;
  if (sink.is_slow()) alone.emplace();
  const std::size_t num_readers = std::min({parts.size(), static_cast<std::size_t>(num_threads()), kMaxReaders});
  // Before the reply begins: from then on an error cannot be told any more.
  std::size_t most_floats = 0;
  for (const RowsPart& part : parts) most_floats = std::max(most_floats, part.num_floats());
  scratch.parts.resize(std::max(scratch.parts.size(), num_readers));
  for (std::size_t reader = 0; reader < num_readers; ++reader) {
    Scratch::Part& own = scratch.parts[reader];
    own.rows.resize(std::max(own.rows.size(), most_floats));
    if (half) own.halves.resize(std::max(own.halves.size(), most_floats));
  }
  for (const RowsPart& part : parts) part.table->hash().check(part.ids);
  sink.write(layout.head, !parts.empty());
  std::atomic<std::size_t> next_part{0};
  Turns turns;
  const auto read_and_send = [&](Scratch::Part& own, std::size_t number) {
    const RowsPart& part = parts[number];
    part.table->lookup(part.ids, own.rows.data(), part.table->dim());
    const std::span<const float> floats(own.rows.data(), part.num_floats());
    std::span<const std::byte> bytes = std::as_bytes(floats);
    if (half) {
      floats_to_halves(floats, own.halves.data());
      bytes = std::as_bytes(std::span<const std::uint16_t>(own.halves.data(), floats.size()));
    }
    if (!turns.wait_for(number)) return;
    sink.write(bytes, number + 1 < parts.size());
    turns.next(number);
  };
  try {
    parallel_for(num_readers, [&](std::size_t reader) {
      try {
        while (!turns.has_ended()) {
          const std::size_t number = next_part.fetch_add(1);
          if (number >= parts.size()) return;
          read_and_send(scratch.parts[reader], number);
        }
      } catch (...) {
        turns.end();
        throw;
      }
    });
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    throw std::system_error(EIO, std::generic_category(), std::string("in the middle of a reply: ") + error.what());
  }
}

}  // namespace monolith::net
