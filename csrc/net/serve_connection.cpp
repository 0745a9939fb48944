#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "net/table_service.h"

namespace monolith::net {

namespace {

// A connection keeps this much memory between requests.
constexpr std::size_t kKeptBytes = 64 << 20;

// The reply to one request: the time for it counts from its first byte, so a client that reads slowly has as long as
// one that writes slowly.
class ReplySink : public ByteSink {
 public:
  ReplySink(int socket, std::chrono::milliseconds timeout) : socket_(socket), timeout_(timeout) {}
  void write(std::span<const std::byte> bytes, bool more) override {
    if (!deadline_) deadline_ = deadline_after(timeout_);
    write_all(socket_, bytes, deadline_, more);
    if (!more) deadline_.reset();
  }

 private:
  int socket_;
  std::chrono::milliseconds timeout_;
  Deadline deadline_;
};

}  // namespace

void serve_connection(TableService& service, int socket, std::chrono::milliseconds frame_timeout) {
  TableService::Scratch scratch;
  AlignedBuffer frame;
  ReplySink reply(socket, frame_timeout);
  JoinedWrites sink(reply);
  std::array<std::byte, kHeaderBytes> head;
  while (true) {
    const std::size_t begun = read_some(socket, head, std::nullopt);
    if (begun == 0) return;
    read_all(socket, std::span(head).subspan(begun), deadline_after(frame_timeout));
    const Header header = decode_header(head, service.limits());
    Deadline deadline;
    if (header.deadline_ms != 0) deadline = deadline_after(std::chrono::milliseconds(header.deadline_ms));
    try {
      frame.fit(header.total_bytes);
    } catch (const std::bad_alloc&) {
      throw CorruptFrame("there is no memory for a frame of " + std::to_string(header.total_bytes) + " bytes");
    }
    std::copy(head.begin(), head.end(), frame.data());
    read_all(socket, {frame.data() + kHeaderBytes, frame.size() - kHeaderBytes}, deadline_after(frame_timeout));
    service.answer(header, frame.bytes(), deadline, scratch, sink);
    frame.shrink_to(kKeptBytes);
  }
}

}  // namespace monolith::net
