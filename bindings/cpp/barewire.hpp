// barewire.hpp: the message service for C++17, over barewire.h. One header; link with -lbarewire.
//
//     barewire::Client client("hello");
//     auto flow = client.connect("10.0.0.2:888");
//     if (!flow) return fail(flow.error());
//     client.send(*flow, "hello");
//     auto event = client.next(std::chrono::seconds(1));
//     if (event && *event && (*event)->kind == BW_EVENT_MESSAGE) use((*event)->message.bytes());
//
// Nothing throws unless asked to: results are a value or an Error, and `value()` throws the Error where there is no value.
// A Client may be used by several threads: one takes events with `next`, the others send; a send that waits for room leaves the
// events to it. What must not be dropped is [[nodiscard]]. A message gives its memory back when it goes, while its client lives.
#ifndef BAREWIRE_HPP
#define BAREWIRE_HPP

#include <barewire.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace barewire {

using Flow = bw_flow;
using Milliseconds = std::chrono::milliseconds;

/// Wait for ever.
inline constexpr Milliseconds forever{-1};

/// Why a call failed: a BW_ERR_... code, and more about it.
class Error : public std::exception {
 public:
  explicit Error(int code) : code_(code), text_(bw_strerror(code)) {}
  Error(int code, std::string text) : code_(code), text_(std::move(text)) {}
  /// Of this thread's last failed call.
  static Error last(int code) { return Error(code, bw_last_error()); }
  int code() const noexcept { return code_; }
  const char *what() const noexcept override { return text_.c_str(); }

 private:
  int code_;
  std::string text_;
};

/// A value, or why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}
  explicit operator bool() const noexcept { return held_.index() == 0; }
  T &operator*() { return *std::get_if<0>(&held_); }
  T *operator->() { return std::get_if<0>(&held_); }
  /// Of a result without a value.
  const Error &error() const { return *std::get_if<1>(&held_); }
  /// Throws the error where there is no value.
  T &value() & {
    if (!*this) throw error();
    return **this;
  }
  T value() && {
    if (!*this) throw error();
    return std::move(**this);
  }

 private:
  std::variant<T, Error> held_;
};

/// Another thread may be inside the client for a moment: a call that found it there is made again.
template <class Call>
int unbusy(Call call) {
  int code;
  while ((code = call()) == BW_ERR_BUSY) std::this_thread::yield();
  return code;
}

struct Done {};
using Status = Result<Done>;

/// Bytes of somebody else.
class View {
 public:
  View() = default;
  View(const void *data, std::size_t size) : data_(data), size_(size) {}
  View(std::string_view text) : View(text.data(), text.size()) {}
  View(const char *text) : View(std::string_view(text)) {}
  View(const std::string &text) : View(text.data(), text.size()) {}
  View(const std::vector<std::uint8_t> &bytes) : View(bytes.data(), bytes.size()) {}
  const void *data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  const void *data_ = nullptr;
  std::size_t size_ = 0;
};

/// A received message, or the body of a request or an answer. It lies in memory that is shared with the daemon, so its bytes are
/// copied out.
class Message {
 public:
  Message() = default;
  Message(bw_client *client, bw_message raw, std::size_t head) : client_(client), raw_(raw), head_(head) {}
  Message(Message &&other) noexcept { *this = std::move(other); }
  Message &operator=(Message &&other) noexcept {
    std::swap(client_, other.client_);
    std::swap(raw_, other.raw_);
    std::swap(head_, other.head_);
    return *this;
  }
  ~Message() { release(); }

  std::size_t size() const noexcept { return client_ ? raw_.len - head_ : 0; }
  /// Copies bytes from `at` on; says how many.
  Result<std::size_t> read(void *out, std::size_t len, std::size_t at = 0) const {
    if (!client_) return std::size_t{0};
    const int n = unbusy([&] { return bw_message_read_at(client_, &raw_, head_ + at, out, len); });
    if (n < 0) return Error::last(n);
    return static_cast<std::size_t>(n);
  }
  Result<std::vector<std::uint8_t>> bytes() const {
    std::vector<std::uint8_t> out(size());
    auto n = read(out.data(), out.size());
    if (!n) return n.error();
    return out;
  }
  Result<std::string> text() const {
    std::string out(size(), '\0');
    auto n = read(out.data(), out.size());
    if (!n) return n.error();
    return out;
  }
  /// Gives the memory back now: the sender may send more. After the client has gone it does nothing.
  void release() noexcept {
    if (bw_client *client = std::exchange(client_, nullptr)) unbusy([&] { return bw_message_release(client, &raw_); });
  }

 private:
  bw_client *client_ = nullptr;
  bw_message raw_{};
  std::size_t head_ = 0;
};

/// Something that happened: fields as in barewire.h.
struct Event {
  std::uint32_t kind = 0;
  std::uint32_t reason = 0;
  Flow flow = 0;
  std::uint64_t token = 0;
  Message message;
  bw_addr local{}, remote{};
};

inline std::string to_string(const bw_addr &addr) {
  char text[BW_ADDR_TEXT_MAX];
  return bw_addr_format(&addr, text, sizeof text) < 0 ? std::string() : std::string(text);
}

/// Who is at the other end of an encrypted flow, as the peer has proven it.
struct Identity {
  /// What the configuration calls it; "self": this host.
  std::string name;
  std::array<std::uint8_t, BW_KEY_LEN> key{};
};

struct Options {
  bool ordered = true;
  Milliseconds timeout{5000};
};

class Client {
 public:
  /// Without a client: `attach` makes one.
  Client() = default;
  static Result<Client> attach(const std::string &name, const std::optional<std::string> &socket = {}) {
    Client client;
    const int code = bw_client_attach(name.c_str(), socket ? socket->c_str() : nullptr, &client.raw_);
    if (code < 0) return Error::last(code);
    return client;
  }
  /// Throws an Error where `attach` gives one.
  explicit Client(const std::string &name, const std::optional<std::string> &socket = {})
      : Client(attach(name, socket).value()) {}
  Client(Client &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)), kept_(std::move(other.kept_)) {}
  Client &operator=(Client &&other) noexcept {
    std::swap(raw_, other.raw_);
    std::swap(kept_, other.kept_);
    return *this;
  }
  ~Client() { (void)free(); }

  /// Ends it at once: flows are reset. Calls on it are an error (BW_ERR_HANDLE) from then on. Where a thread is in `next`, that
  /// gets BW_EVENT_WOKEN, and the result is BW_ERR_BUSY: free again when it has left.
  Status free() {
    if (raw_ == nullptr) return Done{};
    // A thread that waits for room is woken, and does not wait again.
    closing_ = true;
    const int code = bw_client_free(raw_);
    if (code == BW_ERR_BUSY) bw_wake(raw_);
    if (code < 0) return Error::last(code);
    return Done{};
  }
  /// Waits until everything sent has arrived and all flows are closed.
  Status close_wait(Milliseconds timeout) { return status(bw_close_wait(raw_, ms(timeout))); }

  Status listen(std::uint16_t udp_port, std::uint64_t token = 0, Milliseconds timeout = Milliseconds(5000)) {
    return status(unbusy([&] { return bw_listen_wait(raw_, udp_port, token, ms(timeout)); }));
  }
  Result<Flow> connect(const std::string &remote, const Options &how = {}) {
    bw_addr addr{};
    bw_connect_options options{};
    options.unordered = !how.ordered;
    Flow flow = 0;
    int code = bw_addr_parse(remote.c_str(), 0, &addr);
    if (code == BW_OK) code = unbusy([&] { return bw_connect_wait(raw_, &addr, &options, ms(how.timeout), &flow); });
    if (code < 0) return Error::last(code);
    return flow;
  }
  /// Who is at the other end of a flow; none: it is not encrypted, not open yet, or gone.
  Result<std::optional<Identity>> peer(Flow flow) {
    bw_identity raw{};
    const int code = unbusy([&] { return bw_peer(raw_, flow, &raw); });
    if (code < 0) return Error::last(code);
    if (code == 0) return std::optional<Identity>();
    Identity found;
    found.name = raw.name;
    std::memcpy(found.key.data(), raw.key, found.key.size());
    return std::optional<Identity>(std::move(found));
  }
  Status close(Flow flow) {
    return status(unbusy([&] { return bw_close(raw_, flow); }));
  }
  Status reset(Flow flow) {
    return status(unbusy([&] { return bw_reset(raw_, flow); }));
  }

  /// Queues a message. BW_ERR_AGAIN: full for now, BW_EVENT_WRITABLE follows.
  Status try_send(Flow flow, View data) {
    return status(unbusy([&] { return bw_send(raw_, flow, data.data(), data.size()); }));
  }
  /// Queues a message; while it is full, waits. Events that come meanwhile are kept for `next`.
  Status send(Flow flow, View data, Milliseconds timeout = forever) {
    return patiently(flow, timeout, [&] { return bw_send(raw_, flow, data.data(), data.size()); });
  }

  /// Turns requests on, before the first of any of the calls that follow.
  Status requests(std::uint32_t unanswered_max = 1024) {
    return status(unbusy([&] { return bw_requests(raw_, unanswered_max); }));
  }
  /// Asks; its answer is an event with this number as its token. A time-out of 0: for ever.
  Result<std::uint64_t> request(Flow flow, View data, std::chrono::microseconds timeout) {
    std::uint64_t id = 0;
    const auto us = static_cast<std::uint64_t>(timeout.count() < 0 ? 0 : timeout.count());
    const int code = unbusy([&] { return bw_request(raw_, flow, data.data(), data.size(), us, &id); });
    if (code < 0) return Error::last(code);
    return id;
  }
  /// False: it was over.
  Result<bool> cancel(std::uint64_t request) {
    const int code = unbusy([&] { return bw_request_cancel(raw_, request); });
    if (code < 0) return Error::last(code);
    return code == 1;
  }
  Status respond(Flow flow, std::uint64_t request, View data, Milliseconds timeout = forever) {
    return patiently(flow, timeout, [&] { return bw_respond(raw_, flow, request, data.data(), data.size()); });
  }
  Status fail(Flow flow, std::uint64_t request, std::uint16_t code, const std::string &why,
              Milliseconds timeout = forever) {
    return patiently(flow, timeout, [&] { return bw_fail(raw_, flow, request, code, why.c_str()); });
  }

  /// The next event, after waiting for it; none when the time was over. Of one thread: a second one gets none before the first one has.
  Result<std::optional<Event>> next(Milliseconds timeout = forever) {
    const auto end = std::chrono::steady_clock::now() + Milliseconds(ms(timeout));
    const Reading reading(readers_);
    for (;;) {
      auto left = timeout;
      if (timeout.count() >= 0) left = std::max(Milliseconds(0), left_until(end));
      bw_event raw;
      int got = BW_ERR_BUSY;
      // Not for long in the hands of a send, which leaves it to a reader.
      if (const std::unique_lock<std::mutex> turn(turn_, std::try_to_lock); turn.owns_lock()) {
        if (!kept_.empty()) {
          raw = kept_.front();
          kept_.pop_front();
          got = 1;
        } else {
          got = bw_wait_event(raw_, ms(left), &raw);
        }
        if (got < 0 && got != BW_ERR_BUSY) return Error::last(got);
        if (got == 0) return std::optional<Event>();
        if (got == 1) return std::optional<Event>(event(raw));
      }
      // Another thread is inside, as in `connect`, or has the turn.
      if (timeout.count() >= 0 && left.count() == 0) return std::optional<Event>();
      std::this_thread::sleep_for(nap);
    }
  }
  /// Ends a wait of another thread in `next`: it gets BW_EVENT_WOKEN.
  Status wake() {
    return status(unbusy([&] { return bw_wake(raw_); }));
  }
  /// For what this header lacks.
  bw_client *raw() const noexcept { return raw_; }

 private:
  static std::int32_t ms(Milliseconds timeout) {
    const auto n = timeout.count();
    return static_cast<std::int32_t>(n < 0 ? -1 : n > INT32_MAX ? INT32_MAX : n);
  }
  static Status status(int code) {
    if (code < 0) return Error::last(code);
    return Done{};
  }
  Event event(const bw_event &raw) {
    Event out;
    out.kind = raw.kind;
    out.reason = raw.reason;
    out.flow = raw.flow;
    out.token = raw.token;
    out.local = raw.local;
    out.remote = raw.remote;
    if (raw.kind == BW_EVENT_MESSAGE) out.message = Message(raw_, raw.message, 0);
    if (raw.kind >= BW_EVENT_REQUEST && raw.kind <= BW_EVENT_FAILURE)
      out.message = Message(raw_, raw.message, BW_REQUEST_HEAD);
    return out;
  }
  /// A thread that takes events for the program.
  class Reading {
   public:
    explicit Reading(std::atomic<int> &count) : count_(count) { count_++; }
    ~Reading() { count_--; }
    Reading(const Reading &) = delete;
    Reading &operator=(const Reading &) = delete;

   private:
    std::atomic<int> &count_;
  };
  static Milliseconds left_until(std::chrono::steady_clock::time_point end) {
    // Rounded up: a wait may end late, and never early.
    return std::chrono::ceil<Milliseconds>(end - std::chrono::steady_clock::now());
  }
  template <class Try>
  Status patiently(Flow flow, Milliseconds timeout, Try attempt) {
    const auto end = std::chrono::steady_clock::now() + Milliseconds(ms(timeout));
    for (;;) {
      const int code = unbusy(attempt);
      if (code == BW_ERR_AGAIN && closing_) return Error(BW_ERR_HANDLE);
      if (code != BW_ERR_AGAIN) return status(code);
      auto left = forever;
      if (timeout.count() >= 0) {
        left = left_until(end);
        if (left.count() <= 0) return Error(BW_ERR_TIMED_OUT);
      }
      int got = BW_ERR_BUSY;
      if (readers_ == 0) {
        if (const std::unique_lock<std::mutex> turn(turn_, std::try_to_lock); turn.owns_lock()) {
          // Another thread may take the word that there is room: so this one looks again before long.
          bw_event raw;
          got = bw_wait_event(raw_, timeout.count() < 0 ? 1 : ms(std::min(left, Milliseconds(1))), &raw);
          if (got == 1 && !(raw.kind == BW_EVENT_WRITABLE && raw.flow == flow)) kept_.push_back(raw);
        }
      }
      if (got < 0 && got != BW_ERR_INTERRUPTED && got != BW_ERR_BUSY) return Error::last(got);
      if (got == BW_ERR_BUSY) std::this_thread::sleep_for(nap);
    }
  }

  /// Between two looks while another thread has what this one waits for.
  static constexpr std::chrono::microseconds nap{100};

  bw_client *raw_ = nullptr;
  // Events that came while a send waited for room.
  std::deque<bw_event> kept_;
  // Who waits in the library, where there is one place, and until what came is kept: then no reader misses it.
  std::mutex turn_;
  std::atomic<int> readers_{0};
  std::atomic<bool> closing_{false};
};

}  // namespace barewire

#endif  // BAREWIRE_HPP
