// Whole spans over a connected socket, each by a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace monolith::net {

using Clock = std::chrono::steady_clock;

// When nobody waits any more; nothing is never.
using Deadline = std::optional<Clock::time_point>;

inline Deadline deadline_after(std::chrono::milliseconds duration) { return Clock::now() + duration; }
inline bool is_over(const Deadline& deadline) { return deadline && Clock::now() >= *deadline; }

// The functions below throw std::system_error: ETIMEDOUT at the deadline, ECONNRESET if the other side is gone.
// The socket may be blocking or not.

// Reads up to `to.size()` bytes, at least one; 0 if the other side has closed the connection.
std::size_t read_some(int socket, std::span<std::byte> to, const Deadline& deadline);
void read_all(int socket, std::span<std::byte> to, const Deadline& deadline);

// With `more`, the system may wait for the next write before it sends the end of this one.
void write_all(int socket, std::span<const std::byte> from, const Deadline& deadline, bool more = false);

// Returns the numbers of the sockets that have something to read, or were closed by the other side; none at the
// deadline.
std::vector<std::size_t> await_any(std::span<const int> sockets, const Deadline& deadline);

}  // namespace monolith::net
