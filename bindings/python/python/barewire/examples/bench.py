"""Requests and responses, timed: through the barewire daemon, or over an ordinary blocking TCP socket.

python -m barewire.examples.bench serve barewire 888 SIZE
python -m barewire.examples.bench run barewire 10.0.0.2:888 SIZE WINDOW WARMUP_MS MEASURE_MS FILE

`tcp` instead of `barewire` has a port of 0 for any. A server says `ready PORT`, and ends after its client. A client leaves each round
trip in FILE, as ns in 32 bits, and says `measured` and the ns that they took.
"""

import socket
import sys
import time
from array import array
from collections import deque

import barewire


class Messages:
    def __init__(self, client: barewire.Client, flow: int) -> None:
        self.client = client
        self.flow = flow

    def send(self, data: bytes) -> None:
        self.client.send(self.flow, data)

    def receive(self) -> bytes:
        while True:
            event = self.client.next()
            if event is None:
                continue
            if event.kind == barewire.Kind.MESSAGE:
                return event.data
            if event.kind == barewire.Kind.CLOSED:
                raise EOFError


class Tcp:
    """A length of four bytes, and so many bytes."""

    def __init__(self, stream: socket.socket, size: int) -> None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = stream
        self.frame = bytearray(size + 4)
        self.view = memoryview(self.frame)
        self.head = size.to_bytes(4, "little")

    def send(self, data: bytes) -> None:
        self.stream.sendall(self.head + data)

    def receive(self) -> bytes:
        got, size = 0, len(self.frame)
        while got < size:
            n = self.stream.recv_into(self.view[got:])
            if n == 0:
                raise EOFError
            got += n
        if self.frame[:4] != self.head:
            raise ValueError("a message of another length")
        return bytes(self.view[4:])


def serve(system: str, port: int, size: int) -> None:
    if system == "tcp":
        with socket.create_server(("", port)) as listener:
            print("ready", listener.getsockname()[1], flush=True)
            link: Messages | Tcp = Tcp(listener.accept()[0], size)
        while True:
            link.send(link.receive())
    with barewire.Client("bench server") as client:
        client.listen(port)
        print("ready", port, flush=True)
        while True:
            event = client.next()
            if event is not None and event.kind == barewire.Kind.MESSAGE:
                client.send(event.flow, event.data)
            elif event is not None and event.kind == barewire.Kind.CLOSED:
                return


def measure(link: Messages | Tcp, size: int, window: int, warmup_ns: int, measure_ns: int, file: str) -> None:
    now = time.perf_counter_ns
    data = bytes(n * 31 & 0xFF for n in range(size))
    link.send(data)
    if link.receive() != data:
        raise ValueError("another answer than what was sent")
    sent: deque[int] = deque()
    times = array("I")
    begin = now() + warmup_ns
    end = begin + measure_ns
    for _ in range(window):
        sent.append(now())
        link.send(data)
    while True:
        if len(link.receive()) != size:
            raise ValueError("an answer of another length")
        at = now()
        took = at - sent.popleft()
        if at >= begin:
            times.append(min(took, 2**32 - 1))
        if at >= end:
            break
        sent.append(now())
        link.send(data)
    with open(file, "wb") as out:
        times.tofile(out)
    print("measured", at - begin, flush=True)


def main(args: list[str]) -> None:
    match args:
        case ["serve", system, port, size]:
            try:
                serve(system, int(port), int(size))
            except EOFError:
                pass
        case ["run", system, where, size, window, warmup_ms, measure_ms, file]:
            numbers = int(size), int(window), int(warmup_ms) * 10**6, int(measure_ms) * 10**6
            if system == "tcp":
                host, port = where.rsplit(":", 1)
                with socket.create_connection((host, int(port))) as stream:
                    measure(Tcp(stream, numbers[0]), *numbers, file)
            else:
                with barewire.Client("bench client") as client:
                    measure(Messages(client, client.connect(where)), *numbers, file)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (barewire.BarewireError, OSError, EOFError, ValueError) as e:
        sys.exit(f"bench: {e!r}")
