// The C++ side of bindings/conformance: `serve PORT`, or `run ADDRESS KIND KEY=VALUE...` (README.md there says what each is).
#include <barewire.hpp>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

using namespace barewire;
using Bytes = std::vector<std::uint8_t>;
using std::chrono::seconds;

static void check(bool holds, const std::string &what) {
  if (!holds) {
    std::cerr << "not so: " << what << std::endl;
    std::exit(1);
  }
}

static int serve(std::uint16_t port) {
  Client client("server");
  client.requests().value();
  client.listen(port).value();
  std::cout << "ready" << std::endl;
  unsigned cancelled = 0;
  for (;;) {
    auto event = client.next().value();
    if (!event) continue;
    if (event->kind == BW_EVENT_REQUEST_CANCELLED) cancelled++;
    if (event->kind == BW_EVENT_MESSAGE) (void)client.send(event->flow, event->message.bytes().value());
    if (event->kind != BW_EVENT_REQUEST) continue;
    const auto text = event->message.text().value();
    if (text == "hold") continue;
    if (text == "fail")
      (void)client.fail(event->flow, event->token, 7, "as asked");
    else if (text == "cancelled?")
      (void)client.respond(event->flow, event->token, std::to_string(cancelled));
    else
      (void)client.respond(event->flow, event->token, text);
  }
}

static Event must(Client &client, std::uint32_t kind) {
  for (;;) {
    auto event = client.next(seconds(30)).value();
    check(event.has_value(), "an event of kind " + std::to_string(kind) + " comes");
    if (event->kind == kind) return std::move(*event);
    check(event->kind != BW_EVENT_CLOSED && event->kind != BW_EVENT_UNANSWERED, "no flow or request ends meanwhile");
  }
}

static Bytes pattern(std::size_t size, std::size_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; i++) bytes[i] = static_cast<std::uint8_t>(i * 31 + seed * 7 + (i >> 8));
  return bytes;
}

struct Run {
  std::string address, kind;
  std::map<std::string, std::string> given;
  std::size_t number(const std::string &key, std::size_t otherwise) const {
    const auto at = given.find(key);
    return at == given.end() ? otherwise : std::stoul(at->second);
  }

  void echo(Client &client) {
    Options how;
    how.ordered = number("ordered", 1) != 0;
    std::vector<Flow> flows;
    for (std::size_t i = 0; i < number("flows", 1); i++) flows.push_back(client.connect(address, how).value());
    std::istringstream sizes(given.at("sizes"));
    for (std::string size; std::getline(sizes, size, ',');) {
      std::map<Flow, std::vector<Bytes>> expected;
      for (std::size_t n = 0; n < number("count", 1); n++)
        for (const auto flow : flows) {
          const auto bytes = pattern(std::stoul(size), n + flow);
          client.send(flow, bytes).value();
          expected[flow].push_back(bytes);
        }
      for (std::size_t n = flows.size() * number("count", 1); n > 0; n--) {
        auto event = must(client, BW_EVENT_MESSAGE);
        const auto got = event.message.bytes().value();
        auto &waiting = expected[event.flow];
        bool found = false;
        for (std::size_t i = 0; i < waiting.size() && !found && (i == 0 || !how.ordered); i++)
          if ((found = waiting[i] == got)) waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
        check(found, "what comes back is what was sent, of " + size + " bytes");
      }
    }
  }

  void pressure(Client &client) {
    const auto flow = client.connect(address).value();
    std::size_t sent = 0;
    for (;; sent++) {
      auto done = client.try_send(flow, pattern(number("size", 1000000), sent));
      if (done) continue;
      check(done.error().code() == BW_ERR_AGAIN, "a full channel says so");
      break;
    }
    check(sent > 0, "some were taken");
    std::size_t got = 0;
    bool writable = false;
    while (got < sent || !writable) {
      auto event = client.next(seconds(30)).value();
      check(event.has_value(), "echoes and room come");
      if (event->kind == BW_EVENT_WRITABLE) writable = true;
      if (event->kind != BW_EVENT_MESSAGE) continue;
      check(event->message.bytes().value() == pattern(number("size", 1000000), got++), "echoes come in order");
    }
  }

  static void close_waiting(Client &client) {
    int code = 0;
    std::thread waiter([&] {
      const auto event = client.next();
      // It may come so late that the client is gone already.
      code = !event ? event.error().code() : 1;
    });
    while (!client.free()) std::this_thread::yield();
    waiter.join();
    check(code == 1 || code == BW_ERR_HANDLE, "the wait was ended");
  }

  void deadlines(Client &client) {
    const auto flow = client.connect(address).value();
    std::set<std::uint64_t> asked;
    for (std::size_t n = 0; n < number("count", 1); n++)
      asked.insert(client.request(flow, "hold", Milliseconds(number("timeout_ms", 1))).value());
    while (!asked.empty()) {
      auto event = client.next(seconds(30)).value();
      check(event && event->kind == BW_EVENT_UNANSWERED, "each of them ends");
      check(event->reason == BW_UNANSWERED_DEADLINE && asked.erase(event->token) == 1, "once, by its deadline");
    }
  }

  void both_ways(Client &client) {
    const auto flow = client.connect(address).value();
    const auto data = pattern(number("size", 1), 0);
    std::thread reader([&] {
      for (std::size_t n = 0; n < number("count", 1); n++)
        check(must(client, BW_EVENT_MESSAGE).message.bytes().value() == data, "echoes come");
    });
    for (std::size_t n = 0; n < number("count", 1); n++) client.send(flow, data).value();
    reader.join();
  }

  void peer_killed_sending(Client &client) {
    const auto flow = client.connect(address).value();
    client.send(flow, "x").value();
    must(client, BW_EVENT_MESSAGE);
    std::cout << "connected" << std::endl;
    line();
    // The peer stands still.
    const auto data = pattern(number("size", 1), 0);
    while (client.try_send(flow, data)) {
    }
    std::cout << "full" << std::endl;
    for (;;) {
      const auto sent = client.send(flow, data);
      if (sent) continue;
      check(sent.error().code() == BW_ERR_NO_FLOW || sent.error().code() == BW_ERR_CLOSING, "the flow has ended");
      return;
    }
  }

  void close_unread(Client &client) {
    const auto flow = client.connect(address).value();
    const auto data = pattern(number("size", 1), 0);
    for (std::size_t n = 0; n <= number("count", 1); n++) client.send(flow, data).value();
    must(client, BW_EVENT_MESSAGE);
    std::this_thread::sleep_for(Milliseconds(100));
    int code = 0;
    std::thread reader([&] {
      for (;;) {
        auto event = client.next();
        if (!event) {
          code = event.error().code();
          return;
        }
        if (!*event || (*event)->kind != BW_EVENT_MESSAGE) continue;
        auto bytes = (*event)->message.bytes();
        check(bytes ? *bytes == data : bytes.error().code() == BW_ERR_HANDLE, "what was sent, or an error");
      }
    });
    while (!client.free()) std::this_thread::yield();
    reader.join();
    check(code == BW_ERR_HANDLE, "closed");
  }

  void connect_cancelled(Client &client) {
    for (std::size_t n = 0; n < number("count", 1); n++) {
      Options how;
      how.timeout = Milliseconds(n % 2);
      auto flow = client.connect(address, how);
      check(flow || flow.error().code() == BW_ERR_TIMED_OUT, "connected, or given up");
      if (flow) client.reset(*flow).value();
    }
    // What opens late is ended when its event is taken.
    while (client.next(Milliseconds(500)).value()) {
    }
    std::cout << "cancelled" << std::endl;
    line();
  }

  static void line() {
    std::string line;
    std::getline(std::cin, line);
  }

  // Its memory is looked at from outside, at each of the two lines.
  void flat(Client &client) {
    const auto flow = client.connect(address).value();
    const auto data = pattern(number("size", 1), 0);
    const std::size_t count = number("count", 4), window = 32;
    std::size_t sent = 0;
    for (std::size_t got = 0; got < count; got++) {
      for (; sent < count && sent < got + window; sent++) client.send(flow, data).value();
      check(must(client, BW_EVENT_MESSAGE).message.size() == data.size(), "echoes come");
      if (got + 1 != count / 4 && got + 1 != count) continue;
      std::cout << "at " << got + 1 << std::endl;
      std::string line;
      std::getline(std::cin, line);
    }
  }

  int run() {
    Client client("client");
    client.requests().value();
    if (kind == "echo") {
      echo(client);
    } else if (kind == "too_large") {
      const auto flow = client.connect(address).value();
      const auto done = client.try_send(flow, Bytes(number("size", 0)));
      check(!done && done.error().code() == BW_ERR_TOO_LARGE, "too large");
    } else if (kind == "refused") {
      const auto flow = client.connect(address.substr(0, address.find(':')) + ":1");
      check(!flow && flow.error().code() == BW_ERR_REFUSED, "refused");
    } else if (kind == "wrong_key") {
      const auto flow = client.connect(address);
      check(!flow && flow.error().code() == BW_ERR_SECURITY, "keys that do not fit");
    } else if (kind == "peer") {
      const auto flow = client.connect(address).value();
      const auto peer = client.peer(flow).value();
      check(peer.has_value() == (given.count("name") != 0), "somebody, or nobody");
      if (peer) {
        std::string key;
        for (const auto byte : peer->key) {
          char text[3];
          std::snprintf(text, sizeof text, "%02x", byte);
          key += text;
        }
        check(peer->name == given.at("name") && key == given.at("key"), "the one who is expected");
      }
      check(!client.peer(flow + 1).value(), "nobody on no flow");
    } else if (kind == "requests") {
      const auto flow = client.connect(address).value();
      std::map<std::uint64_t, Bytes> asked;
      for (std::size_t n = 0; n < number("count", 1); n++) {
        const auto bytes = pattern(number("size", 1), n);
        asked[client.request(flow, bytes, seconds(60)).value()] = bytes;
      }
      while (!asked.empty()) {
        auto event = must(client, BW_EVENT_RESPONSE);
        check(asked.at(event.token) == event.message.bytes().value(), "each answer is to its request");
        asked.erase(event.token);
      }
    } else if (kind == "deadline") {
      const auto flow = client.connect(address).value();
      const auto id = client.request(flow, "hold", Milliseconds(number("timeout_ms", 1))).value();
      auto event = client.next(seconds(30)).value();
      check(event && event->kind == BW_EVENT_UNANSWERED && event->token == id, "unanswered");
      check(event->reason == BW_UNANSWERED_DEADLINE, "by its deadline");
    } else if (kind == "deadlines") {
      deadlines(client);
    } else if (kind == "both_ways") {
      both_ways(client);
    } else if (kind == "peer_killed_sending") {
      peer_killed_sending(client);
    } else if (kind == "close_unread") {
      close_unread(client);
    } else if (kind == "connect_cancelled") {
      connect_cancelled(client);
    } else if (kind == "failure") {
      const auto flow = client.connect(address).value();
      const auto id = client.request(flow, "fail", seconds(60)).value();
      auto event = must(client, BW_EVENT_FAILURE);
      check(event.token == id && event.reason == 7, "its code");
      check(event.message.text().value() == "as asked", "its text");
    } else if (kind == "cancellation") {
      const auto flow = client.connect(address).value();
      const auto text = [&] {
        (void)client.request(flow, "cancelled?", seconds(60)).value();
        return std::stoul(must(client, BW_EVENT_RESPONSE).message.text().value());
      };
      const auto before = text();
      const auto id = client.request(flow, "hold", seconds(60)).value();
      check(client.cancel(id).value() && !client.cancel(id).value(), "a request is cancelled once");
      check(text() == before + 1, "the server hears of it");
    } else if (kind == "pressure") {
      pressure(client);
    } else if (kind == "close_wait") {
      const auto flow = client.connect(address).value();
      for (std::size_t n = 0; n < number("count", 1); n++) client.send(flow, pattern(number("size", 1), n)).value();
      // The server does not close its half, but answers: closing ends the flow when all was acknowledged.
      client.close(flow).value();
      check(must_close(client) == BW_CLOSED_LOCAL, "closed by this side, with everything acknowledged");
    } else if (kind == "use_after_close") {
      const auto flow = client.connect(address).value();
      client.free().value();
      const auto sent = client.try_send(flow, "x");
      check(!sent && sent.error().code() == BW_ERR_HANDLE, "a send");
      const auto next = client.next();
      check(!next && next.error().code() == BW_ERR_HANDLE, "a wait");
    } else if (kind == "flat") {
      flat(client);
    } else if (kind == "close_calling") {
      const auto flow = client.connect(address).value();
      for (std::size_t n = 0; n < number("count", 1); n++) client.request(flow, "hold", seconds(60)).value();
      close_waiting(client);
      const auto late = client.request(flow, "hold", seconds(60));
      check(!late && late.error().code() == BW_ERR_HANDLE, "a request");
    } else if (kind == "close_waiting") {
      close_waiting(client);
    } else if (kind == "peer_killed") {
      const auto flow = client.connect(address).value();
      client.send(flow, "x").value();
      must(client, BW_EVENT_MESSAGE);
      std::cout << "connected" << std::endl;
      check(must_close(client) == BW_CLOSED_RESET, "reset by the peer's end");
      check(flow != 0, "");
    } else if (kind == "daemon_restarted") {
      std::cout << "connected" << std::endl;
      const auto event = client.next(seconds(30));
      check(!event && event.error().code() == BW_ERR_DAEMON_GONE, "the daemon is gone");
      client.free().value();
      std::cout << "gone" << std::endl;
      std::string line;
      std::getline(std::cin, line);
      Client again("again");
      again.listen(999).value();
    } else {
      std::cout << "SKIPPED" << std::endl;
      return 0;
    }
    std::cout << "ok" << std::endl;
    return 0;
  }

  static std::uint32_t must_close(Client &client) {
    for (;;) {
      auto event = client.next(seconds(30)).value();
      check(event.has_value(), "the flow ends");
      if (event->kind == BW_EVENT_CLOSED) return event->reason;
    }
  }
};

int main(int argc, char **argv) try {
  if (argc == 3 && std::string(argv[1]) == "serve") return serve(static_cast<std::uint16_t>(std::atoi(argv[2])));
  check(argc >= 4 && std::string(argv[1]) == "run", "usage: serve PORT | run ADDRESS KIND KEY=VALUE...");
  Run run{argv[2], argv[3], {}};
  for (int i = 4; i < argc; i++) {
    const std::string pair = argv[i];
    run.given[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
  }
  return run.run();
} catch (const Error &e) {
  std::cerr << "error " << e.code() << ": " << e.what() << std::endl;
  return 1;
}
