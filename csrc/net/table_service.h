// The requests of a table server, answered: one frame in, one frame out. docs/formats.md, "Table messages", lists them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "net/aligned_buffer.h"
#include "net/applied_batches.h"
#include "net/byte_stream.h"
#include "net/frame.h"
#include "table/multi_table.h"

namespace monolith::net {

enum class RequestType : std::uint16_t {
  kHello = 64,  // answered before a connection comes here
  kPull = 65,
  kStep = 66,
  kAssign = 67,
  kAdd = 68,
  kContains = 69,
  kErase = 70,
  kEvict = 71,
  kStatus = 72,
};

struct ServiceOptions {
  std::uint64_t plan_hash = 0;
  std::uint32_t shard = 0;
  std::uint32_t num_shards = 1;
  std::size_t max_partitions = 65536;
  bool read_only = false;  // every request that would change a row is refused
  FrameLimits limits;
};

struct ServedTable {
  std::shared_ptr<RowTable> table;
  bool counts_occurrences = false;  // its admission filter counts how often a new id occurs in a batch
};

// The tables of one shard. Any number of threads may answer requests.
class TableService {
 public:
  // Memory of one connection, used again by its next request.
  struct Scratch {
    struct Part {
      std::vector<float> rows;
      std::vector<std::uint16_t> halves;
    };
    std::vector<Part> parts;  // one per thread that reads rows
    std::vector<float> values;
  };

  TableService(std::vector<ServedTable> tables, ServiceOptions options);

  const FrameLimits& limits() const { return options_.limits; }
  AppliedBatches& applied() { return applied_; }

  // Answers a request, which came as one whole frame, by its deadline. What cannot be carried out gets an error reply.
  // CorruptFrame, after an error reply, if the bytes are no request: the connection is of no further use.
  void answer(const Header& header, std::span<const std::byte> frame, const Deadline& deadline, Scratch& scratch,
              ByteSink& sink);

 private:
  // The ids of a request, by table.
  struct Ids {
    std::span<const std::int64_t> all;
    std::span<const std::int64_t> sizes;
    std::size_t num_floats = 0;
  };

  void carry_out(const FrameView& request, const Deadline& deadline, Scratch& scratch, ByteSink& sink);
  void require_writable() const;
  Ids ids_of(const FrameView& request) const;
  void check_routes(std::span<const std::int64_t> ids) const;
  std::span<const float> values_of(const FrameView& request, const Ids& ids, Scratch& scratch) const;
  void check_finite(const Ids& ids, std::span<const float> values) const;

  // Rows that one thread reads and sends at once.
  struct RowsPart {
    const RowTable* table = nullptr;
    std::span<const std::int64_t> ids;
    std::size_t num_floats() const { return ids.size() * table->dim(); }
  };
  std::vector<RowsPart> parts_of(const Ids& ids) const;
  void pull(const FrameView& request, Scratch& scratch, ByteSink& sink);
  void change(const FrameView& request, ChangeRequest::Kind kind, const Deadline& deadline, Scratch& scratch,
              ByteSink& sink);
  ChangeResult step_counted(const Ids& ids, std::span<const std::uint32_t> counts, ChangeRequest step);
  void contains(const FrameView& request, ByteSink& sink);
  void erase(const FrameView& request, ByteSink& sink);
  void evict(const FrameView& request, ByteSink& sink);
  void status(const FrameView& request, ByteSink& sink);

  std::vector<ServedTable> tables_;
  std::vector<std::shared_ptr<RowTable>> shared_;
  bool any_counts_ = false;
  ServiceOptions options_;
  AppliedBatches applied_;
};

// Answers the requests that come over a connected socket until the other side closes it. A header that has begun, the
// rest of its frame, and the reply must each get through within `frame_timeout`. Throws CorruptFrame or
// std::system_error where the connection ends otherwise.
void serve_connection(TableService& service, int socket, std::chrono::milliseconds frame_timeout);

}  // namespace monolith::net
