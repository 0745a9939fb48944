#include "net/socket_io.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

namespace monolith::net {

namespace {

#ifndef MSG_NOSIGNAL
constexpr int MSG_NOSIGNAL = 0;  // macOS: Python ignores SIGPIPE, and so does every process that this runs in
#endif
#ifndef MSG_MORE
constexpr int MSG_MORE = 0;
#endif

// Somebody who waits for a reply, or for the next request, looks for it this long before going to sleep: waking up on
// another core can take longer than the whole exchange.
constexpr std::chrono::microseconds kAwake{50};

[[noreturn]] void fail(int number, const char* what) { throw std::system_error(number, std::generic_category(), what); }

// As poll() takes it: below zero is for ever, zero is over.
int left_ms(const Deadline& deadline) {
  if (!deadline) return -1;
  // Rounded up: a wait that ends a moment too early would spin.
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

// Returns how many are ready: none after `timeout_ms`, or if a signal came.
int poll_once(std::span<pollfd> sockets, int timeout_ms) {
  const int ready = ::poll(sockets.data(), sockets.size(), timeout_ms);
  if (ready < 0 && errno != EINTR) fail(errno, "waiting for the other side");
  return std::max(ready, 0);
}

void wait_for(int socket, short event, const Deadline& deadline) {
  while (true) {
    const int timeout_ms = left_ms(deadline);
    if (timeout_ms == 0) fail(ETIMEDOUT, "the other side took too long");
    pollfd one{socket, event, 0};
    if (poll_once({&one, 1}, timeout_ms) > 0) return;
  }
}

}  // namespace

std::size_t read_some(int socket, std::span<std::byte> to, const Deadline& deadline) {
  const Clock::time_point awake_until = Clock::now() + kAwake;
  while (true) {
    const ssize_t count = ::recv(socket, to.data(), to.size(), MSG_DONTWAIT);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (Clock::now() < awake_until) {
        std::this_thread::yield();
      } else {
        wait_for(socket, POLLIN, deadline);
      }
    } else if (errno != EINTR) {
      fail(errno, "reading from the other side");
    }
  }
}

void read_all(int socket, std::span<std::byte> to, const Deadline& deadline) {
  while (!to.empty()) {
    const std::size_t count = read_some(socket, to, deadline);
    if (count == 0) fail(ECONNRESET, "the other side closed the connection in the middle of a frame");
    to = to.subspan(count);
  }
}

void write_all(int socket, std::span<const std::byte> from, const Deadline& deadline, bool more) {
  const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
  while (!from.empty()) {
    const ssize_t count = ::send(socket, from.data(), from.size(), flags);
    if (count >= 0) {
      from = from.subspan(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(socket, POLLOUT, deadline);
    } else if (errno != EINTR) {
      fail(errno, "writing to the other side");
    }
  }
}

std::vector<std::size_t> await_any(std::span<const int> sockets, const Deadline& deadline) {
  std::vector<pollfd> polled;
  for (const int socket : sockets) polled.push_back({socket, POLLIN, 0});
  const Clock::time_point awake_until = Clock::now() + kAwake;
  std::vector<std::size_t> ready;
  while (true) {
    const int timeout_ms = left_ms(deadline);
    const bool stays_awake = Clock::now() < awake_until;
    if (poll_once(polled, stays_awake ? 0 : timeout_ms) > 0) break;
    if (timeout_ms == 0) return ready;
    if (stays_awake) std::this_thread::yield();
  }
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) ready.push_back(i);
  }
  return ready;
}

}  // namespace monolith::net
