"""The asyncio side of bindings/conformance: `serve PORT`, or `run ADDRESS KIND KEY=VALUE...`."""

import asyncio
import sys

import barewire
from barewire import Closed, Kind
from barewire.aio import Client
from conformance import pattern


async def serve(port: int) -> None:
    client = Client("server")
    await client.listen(port)
    print("ready", flush=True)
    cancelled = 0
    async for event in client:
        if event.kind == Kind.CANCELLED:
            cancelled += 1
        try:
            if event.kind == Kind.MESSAGE:
                await client.send(event.flow, event.data)
            if event.kind != Kind.REQUEST or event.data == b"hold":
                continue
            if event.data == b"fail":
                await client.fail(event, 7, "as asked")
            elif event.data == b"cancelled?":
                await client.respond(event, b"%d" % cancelled)
            else:
                await client.respond(event, event.data)
        except barewire.DaemonGone:
            raise
        except barewire.BarewireError:
            # The flow has ended meanwhile.
            pass


async def raises(kind: type[BaseException], work) -> BaseException:
    try:
        await work
    except kind as e:
        return e
    raise AssertionError(f"{kind.__name__} was not raised")


async def line() -> None:
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


class Run:
    def __init__(self, address: str, given: dict[str, str]) -> None:
        self.address = address
        self.given = given
        self.client = Client("client")

    def number(self, key: str, otherwise: int = 1) -> int:
        return int(self.given.get(key, otherwise))

    async def connect(self) -> int:
        return await self.client.connect(self.address, ordered=bool(self.number("ordered")))

    async def must(self, kind: Kind) -> barewire.Event:
        while True:
            event = await asyncio.wait_for(self.client.next(), 30)
            if event.kind == kind:
                return event
            assert event.kind != Kind.CLOSED, "no flow ends meanwhile"

    async def echo(self) -> None:
        flows = [await self.connect() for _ in range(self.number("flows"))]
        for size in map(int, self.given["sizes"].split(",")):
            expected: dict[int, list[bytes]] = {flow: [] for flow in flows}
            for n in range(self.number("count")):
                for flow in flows:
                    data = pattern(size, n + flow)
                    await self.client.send(flow, data)
                    expected[flow].append(data)
            for _ in range(len(flows) * self.number("count")):
                event = await self.must(Kind.MESSAGE)
                if self.number("ordered"):
                    assert expected[event.flow].pop(0) == event.data, size
                else:
                    expected[event.flow].remove(event.data)

    async def too_large(self) -> None:
        flow = await self.connect()
        await raises(barewire.TooLarge, self.client.send(flow, bytes(self.number("size"))))

    async def refused(self) -> None:
        await raises(barewire.Refused, self.client.connect(self.address.split(":")[0] + ":1"))

    async def wrong_key(self) -> None:
        await raises(barewire.SecurityError, self.client.connect(self.address))

    async def peer(self) -> None:
        flow = await self.connect()
        peer = self.client.peer(flow)
        if "name" in self.given:
            assert peer == barewire.Identity(self.given["name"], bytes.fromhex(self.given["key"])), peer
        else:
            assert peer is None
        assert self.client.peer(flow + 1) is None

    async def requests(self) -> None:
        flow = await self.connect()
        all_data = [pattern(self.number("size"), n) for n in range(self.number("count"))]
        answers = await asyncio.gather(*(self.client.call(flow, data, timeout=60) for data in all_data))
        assert answers == all_data

    async def deadline(self) -> None:
        flow = await self.connect()
        await raises(TimeoutError, self.client.call(flow, b"hold", timeout=self.number("timeout_ms") / 1000))

    async def deadlines(self) -> None:
        flow = await self.connect()
        within = self.number("timeout_ms") / 1000
        calls = (raises(TimeoutError, self.client.call(flow, b"hold", timeout=within)) for _ in range(self.number("count")))
        await asyncio.wait_for(asyncio.gather(*calls), 30)

    async def both_ways(self) -> None:
        flow, data = await self.connect(), pattern(self.number("size"), 0)

        async def reads() -> None:
            for _ in range(self.number("count")):
                assert (await self.must(Kind.MESSAGE)).data == data

        reader = asyncio.create_task(reads())
        for n in range(self.number("count")):
            await self.client.send(flow, data)
            if n % 64 == 0:
                await asyncio.sleep(0)
        await reader

    async def peer_killed_sending(self) -> None:
        flow, data = await self.connect(), pattern(self.number("size"), 0)
        await self.client.send(flow, b"x")
        await self.must(Kind.MESSAGE)
        print("connected", flush=True)
        await line()
        # The peer stands still.
        try:
            while True:
                self.client.try_send(flow, data)
        except barewire.Full:
            print("full", flush=True)
        try:
            while True:
                await self.client.send(flow, data)
        except barewire.BarewireError as e:
            # No such flow, or it is closing.
            assert e.code in (-6, -7), e

    async def close_unread(self) -> None:
        flow, data = await self.connect(), pattern(self.number("size"), 0)
        for _ in range(self.number("count") + 1):
            await self.client.send(flow, data)
        await self.must(Kind.MESSAGE)
        await asyncio.sleep(0.1)

        async def reads() -> None:
            while True:
                event = await self.client.next()
                assert event.kind != Kind.MESSAGE or event.data == data

        reader = asyncio.create_task(raises(barewire.HandleError, reads()))
        self.client.close()
        await reader

    async def connect_and_reset(self) -> None:
        flow = await self.connect()
        # Whatever becomes of this task.
        await asyncio.shield(self.client.reset(flow))

    async def given_up(self, n: int, work) -> bool:
        """Cancels it after some turns of the loop, or in the very turn in which its answer has come. False: it was done before."""
        task = asyncio.create_task(work)
        await asyncio.sleep(0)
        answer = next(iter(self.client._opening.values()), None)
        for turn in range(n % 40 if n % 2 else 100_000):
            if answer is None or answer.done():
                break
            await asyncio.sleep(0 if turn % 8 else 0.00005)
        task.cancel()
        try:
            await task
            return False
        except asyncio.CancelledError:
            return True

    async def connect_cancelled(self) -> None:
        for n in range(self.number("count")):
            await self.given_up(n, self.connect_and_reset())
        print("cancelled", flush=True)
        await line()
        for n in range(20):
            udp_port = 2000 + n
            if not await self.given_up(n, self.client.listen(udp_port)):
                continue
            # It is free again before long.
            async with Client("other") as other:
                for _ in range(500):
                    try:
                        await other.listen(udp_port)
                        break
                    except barewire.BarewireError as e:
                        assert e.code == -14, e
                        await asyncio.sleep(0.01)
                else:
                    raise AssertionError(f"UDP port {udp_port} stays taken")

    async def failure(self) -> None:
        e = await raises(barewire.Failure, self.client.call(await self.connect(), b"fail", timeout=60))
        assert (e.code, e.text) == (7, "as asked")

    async def cancellation(self) -> None:
        flow = await self.connect()
        before = int(await self.client.call(flow, b"cancelled?", timeout=60))
        held = asyncio.create_task(self.client.call(flow, b"hold", timeout=60))
        # It runs until it waits for its answer.
        await asyncio.sleep(0)
        held.cancel()
        await raises(asyncio.CancelledError, held)
        assert int(await self.client.call(flow, b"cancelled?", timeout=60)) == before + 1

    async def pressure(self) -> None:
        flow, sent, size = await self.connect(), 0, self.number("size")
        try:
            while True:
                self.client.try_send(flow, pattern(size, sent))
                sent += 1
        except barewire.Full:
            assert sent > 0
        for got in range(sent):
            assert (await self.must(Kind.MESSAGE)).data == pattern(size, got), "echoes come in order"
        # And there is room again.
        await self.client.send(flow, b"x")
        assert (await self.must(Kind.MESSAGE)).data == b"x"

    async def close_wait(self) -> None:
        flow = await self.connect()
        for n in range(self.number("count")):
            await self.client.send(flow, pattern(self.number("size"), n))
        await self.client.close_flow(flow)
        assert (await self.must(Kind.CLOSED)).reason == Closed.LOCAL

    async def use_after_close(self) -> None:
        flow = await self.connect()
        self.client.close()
        await raises(barewire.HandleError, self.client.send(flow, b"x"))
        await raises(barewire.HandleError, self.client.next())
        await raises(barewire.HandleError, self.client.connect(self.address))
        self.client.close()

    async def close_waiting(self) -> None:
        waiter = asyncio.create_task(raises(barewire.HandleError, self.client.next()))
        await asyncio.sleep(0)
        self.client.close()
        await waiter

    async def close_calling(self) -> None:
        flow = await self.connect()
        calls = [self.client.call(flow, b"hold", timeout=60) for _ in range(self.number("count"))]
        held = [asyncio.create_task(raises(barewire.HandleError, call)) for call in calls]
        await asyncio.sleep(0)
        self.client.close()
        await asyncio.gather(*held)
        await raises(barewire.HandleError, self.client.call(flow, b"hold", timeout=60))

    async def flat(self) -> None:
        """Its memory is looked at from outside, at each of the two lines."""
        flow, data, count = await self.connect(), pattern(self.number("size"), 0), self.number("count", 4)
        sent = 0
        for got in range(1, count + 1):
            while sent < count and sent < got + 31:
                await self.client.send(flow, data)
                sent += 1
            while (event := await self.client.next()).kind != Kind.MESSAGE:
                pass
            assert len(event.data) == len(data)
            if got in (count // 4, count):
                print("at", got, flush=True)
                await line()

    async def peer_killed(self) -> None:
        await self.client.send(await self.connect(), b"x")
        await self.must(Kind.MESSAGE)
        print("connected", flush=True)
        assert (await self.must(Kind.CLOSED)).reason == Closed.RESET

    async def daemon_restarted(self) -> None:
        print("connected", flush=True)
        await raises(barewire.DaemonGone, asyncio.wait_for(self.client.next(), 30))
        self.client.close()
        print("gone", flush=True)
        await line()
        async with Client("again") as again:
            await again.listen(999)


async def main() -> None:
    if sys.argv[1] == "serve":
        await serve(int(sys.argv[2]))
        return
    run = Run(sys.argv[2], dict(pair.split("=", 1) for pair in sys.argv[4:]))
    scenario = getattr(run, sys.argv[3], None)
    if scenario is None:
        print("SKIPPED")
        return
    await scenario()
    print("ok")


asyncio.run(main())
