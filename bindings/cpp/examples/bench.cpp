// Requests and responses, timed: through the barewire daemon, or over an ordinary blocking TCP socket.
//
//     bench serve barewire 888 SIZE
//     bench run barewire 10.0.0.2:888 SIZE WINDOW WARMUP_MS MEASURE_MS FILE
//
// `tcp` instead of `barewire` has a port of 0 for any. A server says `ready PORT`, and ends after its client. A client leaves each
// round trip in FILE, as ns in 32 bits, and says `measured` and the ns that they took.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <barewire.hpp>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <system_error>

using Bytes = std::vector<std::uint8_t>;
using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

struct Ended {};

class Link {
 public:
  virtual ~Link() = default;
  virtual void send(const Bytes &data) = 0;
  /// Into `data`, which has the size of a message.
  virtual void receive(Bytes &data) = 0;
};

class Messages : public Link {
 public:
  explicit Messages(const std::string &where) : client_("bench client"), flow_(client_.connect(where).value()) {}
  void send(const Bytes &data) override { client_.send(flow_, data).value(); }
  void receive(Bytes &data) override {
    for (;;) {
      auto event = client_.next().value();
      if (!event) continue;
      if (event->kind == BW_EVENT_CLOSED) throw Ended();
      if (event->kind != BW_EVENT_MESSAGE) continue;
      if (event->message.size() != data.size()) throw std::runtime_error("a message of another length");
      event->message.read(data.data(), data.size()).value();
      return;
    }
  }

 private:
  barewire::Client client_;
  barewire::Flow flow_;
};

[[noreturn]] static void fail(const char *what) { throw std::system_error(errno, std::generic_category(), what); }

/// A length of four bytes, and so many bytes.
class Tcp : public Link {
 public:
  Tcp(int fd, std::size_t size) : fd_(fd), in_(size + 4), out_(size + 4) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (int i = 0; i < 4; i++) out_[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(size >> (8 * i));
  }
  ~Tcp() override { close(fd_); }
  void send(const Bytes &data) override {
    std::memcpy(out_.data() + 4, data.data(), data.size());
    for (std::size_t at = 0; at < out_.size();) {
      const ssize_t n = ::send(fd_, out_.data() + at, out_.size() - at, MSG_NOSIGNAL);
      if (n < 0) fail("send");
      at += static_cast<std::size_t>(n);
    }
  }
  void receive(Bytes &data) override {
    for (std::size_t at = 0; at < in_.size();) {
      const ssize_t n = ::recv(fd_, in_.data() + at, in_.size() - at, 0);
      if (n < 0) fail("recv");
      if (n == 0) throw Ended();
      at += static_cast<std::size_t>(n);
    }
    if (std::memcmp(in_.data(), out_.data(), 4) != 0) throw std::runtime_error("a message of another length");
    std::memcpy(data.data(), in_.data() + 4, data.size());
  }

 private:
  int fd_;
  Bytes in_, out_;
};

static int tcp_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  return fd;
}

static void serve_tcp(std::uint16_t port, std::size_t size) {
  const int listener = tcp_socket();
  sockaddr_in addr{};
  socklen_t length = sizeof addr;
  addr.sin_family = AF_INET;
  addr.sin_port = htons(port);
  auto *raw = reinterpret_cast<sockaddr *>(&addr);
  if (bind(listener, raw, length) < 0 || listen(listener, 1) < 0 || getsockname(listener, raw, &length) < 0)
    fail("listen");
  std::cout << "ready " << ntohs(addr.sin_port) << std::endl;
  const int fd = accept(listener, nullptr, nullptr);
  if (fd < 0) fail("accept");
  close(listener);
  Tcp link(fd, size);
  for (Bytes data(size);;) {
    link.receive(data);
    link.send(data);
  }
}

static void serve(std::uint16_t port, std::size_t size) {
  barewire::Client client("bench server");
  client.listen(port).value();
  std::cout << "ready " << port << std::endl;
  for (Bytes data(size);;) {
    auto event = client.next().value();
    if (event && event->kind == BW_EVENT_CLOSED) return;
    if (!event || event->kind != BW_EVENT_MESSAGE) continue;
    const auto n = event->message.read(data.data(), data.size()).value();
    event->message.release();
    client.send(event->flow, barewire::View(data.data(), n)).value();
  }
}

static void measure(Link &link, std::size_t size, std::size_t window, nanoseconds warmup, nanoseconds measured,
                    const char *file) {
  Bytes data(size), got(size);
  for (std::size_t i = 0; i < size; i++) data[i] = static_cast<std::uint8_t>(i * 31);
  link.send(data);
  link.receive(got);
  if (got != data) throw std::runtime_error("another answer than what was sent");
  std::vector<Clock::time_point> sent(window);
  std::vector<std::uint32_t> times;
  times.reserve(1 << 22);
  const auto begin = Clock::now() + warmup, end = begin + measured;
  for (auto &at : sent) {
    at = Clock::now();
    link.send(data);
  }
  for (std::size_t next = 0;; next = (next + 1) % window) {
    link.receive(got);
    const auto at = Clock::now();
    const auto ns = nanoseconds(at - sent[next]).count();
    if (at >= begin) times.push_back(ns < UINT32_MAX ? static_cast<std::uint32_t>(ns) : UINT32_MAX);
    if (at >= end) {
      std::ofstream out(file, std::ios::binary);
      out.write(reinterpret_cast<const char *>(times.data()),
                static_cast<std::streamsize>(times.size() * sizeof times[0]));
      if (!out.flush()) throw std::runtime_error("the file cannot be written");
      std::cout << "measured " << nanoseconds(at - begin).count() << std::endl;
      return;
    }
    sent[next] = Clock::now();
    link.send(data);
  }
}

static void run(const std::vector<std::string> &args) {
  const auto number = [&](std::size_t at) { return std::stoul(args.at(at)); };
  if (args.size() == 4 && args[0] == "serve") {
    const auto port = static_cast<std::uint16_t>(number(2));
    try {
      args[1] == "tcp" ? serve_tcp(port, number(3)) : serve(port, number(3));
    } catch (const Ended &) {
    }
  } else if (args.size() == 8 && args[0] == "run") {
    std::unique_ptr<Link> link;
    if (args[1] == "tcp") {
      const auto colon = args[2].rfind(':');
      sockaddr_in addr{};
      addr.sin_family = AF_INET;
      addr.sin_port = htons(static_cast<std::uint16_t>(std::stoul(args[2].substr(colon + 1))));
      if (inet_pton(AF_INET, args[2].substr(0, colon).c_str(), &addr.sin_addr) != 1)
        throw std::runtime_error("no address");
      const int fd = tcp_socket();
      if (connect(fd, reinterpret_cast<sockaddr *>(&addr), sizeof addr) < 0) fail("connect");
      link = std::make_unique<Tcp>(fd, number(3));
    } else {
      link = std::make_unique<Messages>(args[2]);
    }
    const auto ms = [&](std::size_t at) { return std::chrono::milliseconds(number(at)); };
    measure(*link, number(3), number(4), ms(5), ms(6), args[7].c_str());
  } else {
    throw std::runtime_error(
        "usage: serve SYSTEM PORT SIZE | run SYSTEM ADDRESS:PORT SIZE WINDOW WARMUP_MS MEASURE_MS FILE");
  }
}

int main(int argc, char **argv) try {
  run(std::vector<std::string>(argv + 1, argv + argc));
  return 0;
} catch (const Ended &) {
  std::cerr << "bench: the other end has gone" << std::endl;
  return 1;
} catch (const std::exception &e) {
  std::cerr << "bench: " << e.what() << std::endl;
  return 1;
}
