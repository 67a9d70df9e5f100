// An echo service and a client of it.
//
//     echo 888                     answers every message on UDP port 888
//     echo 10.0.0.2:888 hello      sends "hello" and prints the answer
//
// Needs a running daemon (barewire up); BAREWIRE_SOCKET names another than the default one.
#include <barewire.hpp>

#include <cstdlib>
#include <iostream>

static int serve(barewire::Client &client, std::uint16_t udp_port) {
  client.listen(udp_port).value();
  std::cout << "listening on UDP port " << udp_port << std::endl;
  for (;;) {
    auto event = client.next().value();
    if (event && event->kind == BW_EVENT_MESSAGE) {
      const auto sent = client.send(event->flow, event->message.bytes().value());
      if (!sent) std::cerr << "echo: not sent: " << sent.error().what() << "\n";
    }
  }
}

static int ask(barewire::Client &client, const char *where, const char *text) {
  const auto flow = client.connect(where).value();
  client.send(flow, text).value();
  while (auto event = client.next(barewire::Milliseconds(5000)).value()) {
    if (event->kind == BW_EVENT_MESSAGE) {
      std::cout << event->message.text().value() << std::endl;
      return 0;
    }
  }
  std::cerr << "echo: no answer\n";
  return 1;
}

int main(int argc, char **argv) try {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: echo UDP_PORT | echo ADDRESS:UDP_PORT TEXT\n";
    return 2;
  }
  barewire::Client client("echo");
  return argc == 2 ? serve(client, static_cast<std::uint16_t>(std::atoi(argv[1]))) : ask(client, argv[1], argv[2]);
} catch (const barewire::Error &e) {
  std::cerr << "echo: " << e.what() << "\n";
  return 1;
}
