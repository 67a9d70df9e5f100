"""Requests and responses, timed: through the barewire daemon, or over an ordinary blocking TCP socket.

python -m barewire.examples.bench serve barewire 888 SIZE
python -m barewire.examples.bench run barewire 10.0.0.2:888 SIZE WINDOW WARMUP_MS MEASURE_MS FILE

`tcp` instead of `barewire` has a port of 0 for any, as have `zmq` (pyzmq: a pair of ZeroMQ's sockets) and `grpc` (grpcio: calls of bytes),
where Python has them: `has SYSTEM` says whether it does. A server says `ready PORT`, and ends after its client, or never: then it is to be
ended. A client leaves each round trip in FILE, as ns in 32 bits, and says `measured` and the ns that they took.
"""

import importlib
import socket
import sys
import time
from array import array
from collections import deque
from typing import Any, Protocol

import barewire

# What a system needs beside this package.
NEEDS = {"barewire": "barewire", "tcp": "socket", "zmq": "zmq", "grpc": "grpc"}
ECHO = "/barewire.Bench/Echo"


class Link(Protocol):
    def send(self, data: bytes) -> None: ...

    def receive(self) -> bytes: ...


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


class Zmq:
    """A socket of ZeroMQ, which has one peer and its own thread for the wire."""

    def __init__(self) -> None:
        zmq = importlib.import_module("zmq")
        self.socket: Any = zmq.Context.instance().socket(zmq.PAIR)
        self.socket.linger = 0

    def send(self, data: bytes) -> None:
        self.socket.send(data)

    def receive(self) -> bytes:
        return bytes(self.socket.recv())


class Grpc:
    """Calls of bytes, without a form of messages, each answered by its future."""

    def __init__(self, where: str) -> None:
        grpc = importlib.import_module("grpc")
        self.channel: Any = grpc.insecure_channel(where)
        self.call: Any = self.channel.unary_unary(ECHO)
        self.waiting: deque[Any] = deque()

    def send(self, data: bytes) -> None:
        self.waiting.append(self.call.future(data))

    def receive(self) -> bytes:
        return bytes(self.waiting.popleft().result())


def serve_grpc(port: int) -> None:
    from concurrent import futures

    grpc = importlib.import_module("grpc")
    echo = grpc.unary_unary_rpc_method_handler(lambda data, _: data)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("barewire.Bench", {"Echo": echo}),))
    port = server.add_insecure_port(f"0.0.0.0:{port}")
    server.start()
    print("ready", port, flush=True)
    server.wait_for_termination()


def serve(system: str, port: int, size: int) -> None:
    if system == "grpc":
        return serve_grpc(port)
    if system == "zmq":
        zmq = Zmq()
        if port == 0:
            port = zmq.socket.bind_to_random_port("tcp://0.0.0.0")
        else:
            zmq.socket.bind(f"tcp://0.0.0.0:{port}")
        print("ready", port, flush=True)
        while True:
            zmq.send(zmq.receive())
    if system == "tcp":
        with socket.create_server(("", port)) as listener:
            print("ready", listener.getsockname()[1], flush=True)
            link = Tcp(listener.accept()[0], size)
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


def measure(link: Link, size: int, window: int, warmup_ns: int, measure_ns: int, file: str) -> None:
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
            elif system == "zmq":
                zmq = Zmq()
                zmq.socket.connect(f"tcp://{where}")
                measure(zmq, *numbers, file)
            elif system == "grpc":
                measure(Grpc(where), *numbers, file)
            else:
                with barewire.Client("bench client") as client:
                    measure(Messages(client, client.connect(where)), *numbers, file)
        case ["has", system] if system in NEEDS:
            try:
                importlib.import_module(NEEDS[system])
            except ImportError as e:
                sys.exit(f"{e}")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (barewire.BarewireError, OSError, EOFError, ValueError) as e:
        sys.exit(f"bench: {e!r}")
