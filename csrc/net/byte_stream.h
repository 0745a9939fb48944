// Where the bytes of a frame go, and where they come from: a socket, or a connection that only Python can use.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "net/socket_io.h"

namespace monolith::net {

// Both throw std::runtime_error (std::system_error is one) if the connection is lost or too slow.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  // `more`: further bytes of the same frame follow.
  virtual void write(std::span<const std::byte> bytes, bool more) = 0;
  // Whether writing rows takes longer than reading them from a table, as encrypting does.
  virtual bool is_slow() const { return false; }
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `to`.
  virtual void read(std::span<std::byte> to) = 0;
};

// Puts small pieces of a frame together: each write of its own would cost a system call, or a TLS record.
class JoinedWrites : public ByteSink {
 public:
  explicit JoinedWrites(ByteSink& to) : to_(to) {}
  void write(std::span<const std::byte> bytes, bool more) override {
    const bool fits = bytes.size() <= waiting_.size() - num_waiting_;
    if (!fits && num_waiting_ != 0) to_.write(std::span(waiting_).first(std::exchange(num_waiting_, 0)), true);
    if (bytes.size() > waiting_.size()) return to_.write(bytes, more);
    if (!bytes.empty()) std::memcpy(waiting_.data() + num_waiting_, bytes.data(), bytes.size());
    num_waiting_ += bytes.size();
    if (!more) to_.write(std::span(waiting_).first(std::exchange(num_waiting_, 0)), false);
  }
  bool is_slow() const override { return to_.is_slow(); }

 private:
  ByteSink& to_;
  std::array<std::byte, std::size_t{16} << 10> waiting_;
  std::size_t num_waiting_ = 0;
};

class SocketSink : public ByteSink {
 public:
  SocketSink(int socket, Deadline deadline) : socket_(socket), deadline_(deadline) {}
  void write(std::span<const std::byte> bytes, bool more) override { write_all(socket_, bytes, deadline_, more); }

 private:
  int socket_;
  Deadline deadline_;
};

class SocketSource : public ByteSource {
 public:
  SocketSource(int socket, Deadline deadline) : socket_(socket), deadline_(deadline) {}
  void read(std::span<std::byte> to) override { read_all(socket_, to, deadline_); }

 private:
  int socket_;
  Deadline deadline_;
};

}  // namespace monolith::net
