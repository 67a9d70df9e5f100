"""The Python side of bindings/conformance: `serve PORT`, or `run ADDRESS KIND KEY=VALUE...`."""

import sys
import threading
import time

import barewire
from barewire import Closed, Kind
from expect import raises


def serve(port: int) -> None:
    client = barewire.Client("server")
    client.listen(port)
    print("ready", flush=True)
    cancelled = 0
    while True:
        event = client.next()
        if event.kind == Kind.CANCELLED:
            cancelled += 1
        try:
            if event.kind == Kind.MESSAGE:
                client.send(event.flow, event.data)
            if event.kind != Kind.REQUEST or event.data == b"hold":
                continue
            if event.data == b"fail":
                client.fail(event, 7, "as asked")
            elif event.data == b"cancelled?":
                client.respond(event, b"%d" % cancelled)
            else:
                client.respond(event, memoryview(event.data))
        except barewire.DaemonGone:
            raise
        except barewire.BarewireError:
            # The flow has ended meanwhile.
            pass


def pattern(size: int, seed: int) -> bytes:
    return (bytes((seed * 7 + i) % 251 for i in range(251)) * (size // 251 + 1))[:size]


def must(client: barewire.Client, kind: Kind) -> barewire.Event:
    while True:
        event = client.next(timeout=30)
        assert event is not None, f"an event of kind {kind!r} comes"
        if event.kind == kind:
            return event
        assert event.kind not in (Kind.CLOSED, Kind.UNANSWERED), "no flow or request ends meanwhile"


class Run:
    def __init__(self, address: str, given: dict[str, str]) -> None:
        self.address = address
        self.given = given
        self.client = barewire.Client("client")

    def number(self, key: str, otherwise: int = 1) -> int:
        return int(self.given.get(key, otherwise))

    def connect(self) -> int:
        return self.client.connect(self.address, ordered=bool(self.number("ordered")))

    def echo(self) -> None:
        flows = [self.connect() for _ in range(self.number("flows"))]
        for size in map(int, self.given["sizes"].split(",")):
            expected: dict[int, list[bytes]] = {flow: [] for flow in flows}
            for n in range(self.number("count")):
                for flow in flows:
                    data = pattern(size, n + flow)
                    self.client.send(flow, memoryview(data))
                    expected[flow].append(data)
            for _ in range(len(flows) * self.number("count")):
                event = must(self.client, Kind.MESSAGE)
                if self.number("ordered"):
                    assert expected[event.flow].pop(0) == event.data, size
                else:
                    expected[event.flow].remove(event.data)

    def too_large(self) -> None:
        raises(barewire.TooLarge, self.client.try_send, self.connect(), bytes(self.number("size")))

    def refused(self) -> None:
        raises(barewire.Refused, self.client.connect, self.address.split(":")[0] + ":1")

    def wrong_key(self) -> None:
        raises(barewire.SecurityError, self.client.connect, self.address)

    def peer(self) -> None:
        flow = self.connect()
        peer = self.client.peer(flow)
        if "name" in self.given:
            assert peer == barewire.Identity(self.given["name"], bytes.fromhex(self.given["key"])), peer
        else:
            assert peer is None
        assert self.client.peer(flow + 1) is None

    def requests(self) -> None:
        flow = self.connect()
        asked = {}
        for n in range(self.number("count")):
            data = pattern(self.number("size"), n)
            asked[self.client.request(flow, data, timeout=60)] = data
        while asked:
            event = must(self.client, Kind.RESPONSE)
            assert asked.pop(event.token) == event.data
        assert self.client.call(flow, b"once more", timeout=60) == b"once more"

    def deadline(self) -> None:
        raises(TimeoutError, self.client.call, self.connect(), b"hold", timeout=self.number("timeout_ms") / 1000)

    def deadlines(self) -> None:
        flow = self.connect()
        within = self.number("timeout_ms") / 1000
        asked = {self.client.request(flow, b"hold", timeout=within) for _ in range(self.number("count"))}
        while asked:
            event = self.client.next(timeout=30)
            assert event is not None and event.kind == Kind.UNANSWERED and event.reason == 1
            asked.remove(event.token)

    def both_ways(self) -> None:
        flow, data, read = self.connect(), pattern(self.number("size"), 0), []

        def reads() -> None:
            for _ in range(self.number("count")):
                assert must(self.client, Kind.MESSAGE).data == data
            read.append(True)

        reader = threading.Thread(target=reads)
        reader.start()
        for _ in range(self.number("count")):
            self.client.send(flow, data)
        reader.join()
        assert read

    def peer_killed_sending(self) -> None:
        flow, data = self.connect(), pattern(self.number("size"), 0)
        self.client.send(flow, b"x")
        must(self.client, Kind.MESSAGE)
        print("connected", flush=True)
        sys.stdin.readline()
        # The peer stands still.
        try:
            while True:
                self.client.try_send(flow, data)
        except barewire.Full:
            print("full", flush=True)
        try:
            while True:
                self.client.send(flow, data)
        except barewire.BarewireError as e:
            # No such flow, or it is closing.
            assert e.code in (-6, -7), e

    def close_unread(self) -> None:
        flow, data, ended = self.connect(), pattern(self.number("size"), 0), []
        for _ in range(self.number("count") + 1):
            self.client.send(flow, data)
        must(self.client, Kind.MESSAGE)
        time.sleep(0.1)

        def reads() -> None:
            try:
                while True:
                    event = self.client.next()
                    assert event is None or event.kind != Kind.MESSAGE or event.data == data
            except barewire.HandleError:
                ended.append(True)

        reader = threading.Thread(target=reads)
        reader.start()
        self.client.close()
        reader.join()
        assert ended
        raises(barewire.HandleError, self.client.next)

    def connect_cancelled(self) -> None:
        for n in range(self.number("count")):
            try:
                self.client.reset(self.client.connect(self.address, timeout=n % 2 / 1000))
            except TimeoutError:
                pass
        # What opens late is ended when its event is taken.
        while self.client.next(timeout=0.5) is not None:
            pass
        print("cancelled", flush=True)
        sys.stdin.readline()

    def failure(self) -> None:
        e = raises(barewire.Failure, self.client.call, self.connect(), b"fail", timeout=60)
        assert (e.code, e.text) == (7, "as asked")

    def cancellation(self) -> None:
        flow = self.connect()
        before = int(self.client.call(flow, b"cancelled?", timeout=60))
        asked = self.client.request(flow, b"hold", timeout=60)
        assert self.client.cancel(asked) and not self.client.cancel(asked)
        assert int(self.client.call(flow, b"cancelled?", timeout=60)) == before + 1

    def pressure(self) -> None:
        flow, sent, size = self.connect(), 0, self.number("size")
        try:
            while True:
                self.client.try_send(flow, pattern(size, sent))
                sent += 1
        except barewire.Full:
            assert sent > 0
        got, writable = 0, False
        while got < sent or not writable:
            event = self.client.next(timeout=30)
            assert event is not None, "echoes and room come"
            writable |= event.kind == Kind.WRITABLE
            if event.kind == Kind.MESSAGE:
                assert event.data == pattern(size, got), "echoes come in order"
                got += 1

    def close_wait(self) -> None:
        flow = self.connect()
        for n in range(self.number("count")):
            self.client.send(flow, pattern(self.number("size"), n))
        self.client.close_flow(flow)
        assert must(self.client, Kind.CLOSED).reason == Closed.LOCAL

    def use_after_close(self) -> None:
        flow = self.connect()
        self.client.close()
        raises(barewire.HandleError, self.client.try_send, flow, b"x")
        raises(barewire.HandleError, self.client.next)
        self.client.close()

    def close_waiting(self) -> None:
        ended = []

        def wait() -> None:
            try:
                ended.append(self.client.next().kind == Kind.WOKEN)
            except barewire.HandleError:
                # So late that the client was gone.
                ended.append(True)

        waiter = threading.Thread(target=wait)
        waiter.start()
        self.client.close()
        waiter.join()
        assert ended == [True]

    def flat(self) -> None:
        """Its memory is looked at from outside, at each of the two lines."""
        flow, data, count = self.connect(), pattern(self.number("size"), 0), self.number("count", 4)
        sent = 0
        for got in range(1, count + 1):
            while sent < count and sent < got + 31:
                self.client.send(flow, data)
                sent += 1
            assert len(must(self.client, Kind.MESSAGE).data) == len(data)
            if got in (count // 4, count):
                print("at", got, flush=True)
                sys.stdin.readline()

    def close_calling(self) -> None:
        flow = self.connect()
        for _ in range(self.number("count")):
            self.client.request(flow, b"hold", timeout=60)
        ended = []
        caller = threading.Thread(target=lambda: ended.append(raises(barewire.HandleError, self.client.call, flow, b"hold", timeout=60)))
        caller.start()
        self.client.close()
        caller.join()
        assert len(ended) == 1
        raises(barewire.HandleError, self.client.call, flow, b"hold", timeout=60)

    def peer_killed(self) -> None:
        self.client.send(self.connect(), b"x")
        must(self.client, Kind.MESSAGE)
        print("connected", flush=True)
        assert must(self.client, Kind.CLOSED).reason == Closed.RESET

    def daemon_restarted(self) -> None:
        print("connected", flush=True)
        raises(barewire.DaemonGone, self.client.next, timeout=30)
        self.client.close()
        print("gone", flush=True)
        sys.stdin.readline()
        barewire.Client("again").listen(999)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        run = Run(sys.argv[2], dict(pair.split("=", 1) for pair in sys.argv[4:]))
        scenario = getattr(run, sys.argv[3], None)
        if scenario is None:
            print("SKIPPED")
        else:
            scenario()
            print("ok")
