"""Messages and requests for asyncio.

>>> async with barewire.aio.Client("hello") as client:
...     flow = await client.connect("10.0.0.2:888")
...     answer = await client.call(flow, b"price of ES?", timeout=0.005)

A client belongs to the loop that it was made in; its loop watches a descriptor, and no thread is needed. A task that is cancelled gives
up what it waits for, and the server of a call is told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from . import (
    _BUSY,
    _DEADLINE,
    _KINDS,
    BarewireError,
    Event,
    Failure,
    FlowEnded,
    Full,
    HandleError,
    Identity,
    Kind,
    Timeout,
    _error,
    _native,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Client"]

# BW_CONNECT_ reasons up to 5 are the codes from -15 on, in the same order; keys and rules have one code.
_SECURITY = -24
_CONNECT_TEXTS = (
    "",
    "nobody listens there",
    "no room for another flow",
    "the peer does not answer",
    "the next hop does not answer, or there is no route",
    "given up",
    "the peer takes encrypted flows only",
    "the peer does not trust this host's key",
    "the peer has another key than the trusted one",
    "the peer does not encrypt",
    "this host does not trust the peer's key",
    "this user may not connect there",
)
_PORT_TAKEN = -14
# What programs read. Numbers, as comparing members of an enumeration takes long.
_READ = frozenset(map(int, (Kind.ACCEPTED, Kind.MESSAGE, Kind.CLOSED, Kind.REQUEST, Kind.CANCELLED)))
_NEVER_MS = 2**31 - 1
# How soon to look again whether the ring of requests, found full, has room: nothing becomes readable then.
_RING_CHECK_MS = 1


def _not_connected(reason: int) -> BarewireError:
    code = -14 - reason if reason < 6 else _SECURITY
    text = _CONNECT_TEXTS[reason] if reason < len(_CONNECT_TEXTS) else f"not connected: reason {reason}"
    return _KINDS.get(code, BarewireError)(code, text)


class Client:
    """A channel to the daemon, for the tasks of one loop."""

    def __init__(self, name: str = "python", socket: str | None = None, *, calls_max: int = 1024) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: deque[tuple] = deque()
        self._readers: deque[asyncio.Future[None]] = deque()
        self._writers: list[asyncio.Future[None]] = []
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._opening: dict[int, asyncio.Future[int]] = {}
        # Ports that were given up before the daemon had answered, by token.
        self._unwanted: dict[int, int] = {}
        self._tokens = 0
        self._ended: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._kicked = False
        self._closed = False
        try:
            self._ticket = _native.attach(name, socket)
            _native.requests(self._ticket, calls_max)
            self._fd = _native.event_fd(self._ticket)
        except _native.Error as e:
            raise _error(e) from None
        self._loop.add_reader(self._fd, self._pump)
        self._kick()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _do(self, work, *args):
        if self._ended is not None:
            raise self._ended
        try:
            return work(self._ticket, *args)
        except _native.Error as e:
            raise _error(e) from None

    def _kick(self) -> None:
        """Looks for events soon: a call of our own may have brought one, or a deadline."""
        if not self._kicked and not self._closed:
            self._kicked = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._kicked = False
        if self._ended is not None:
            return
        try:
            _native.disarm(self._ticket)
            looked, left_ms = False, _NEVER_MS
            while True:
                told = _native.next_event(self._ticket)
                if told is not None:
                    self._dispatch(told)
                    looked = False
                elif self._ended is not None or _native.arm(self._ticket):
                    break
                elif looked:
                    # No event, and no sleep: it waits for room in the ring. The loop is others' meanwhile.
                    left_ms = _RING_CHECK_MS
                    break
                else:
                    looked = True
            if self._ended is None:
                left_ms = min(left_ms, _native.sleep_max_ms(self._ticket))
        except _native.Error as e:
            if e.args[0] == _BUSY:
                self._kick()
            else:
                self._end(_error(e))
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if left_ms != _NEVER_MS:
            self._timer = self._loop.call_later(left_ms / 1000, self._pump)

    def _end(self, why: BaseException) -> None:
        if self._ended is not None:
            return
        self._ended = why
        self._loop.remove_reader(self._fd)
        if self._timer is not None:
            self._timer.cancel()
        futures: list[asyncio.Future[bytes] | asyncio.Future[int]] = [*self._asked.values(), *self._opening.values()]
        for future in futures:
            if not future.done():
                future.set_exception(why)
        for waiter in [*self._readers, *self._writers]:
            if not waiter.done():
                waiter.set_result(None)

    def _dispatch(self, told: tuple) -> None:
        kind, reason, flow, token = told[:4]
        if kind in _READ:
            self._events.append(told)
            self._wake_reader()
        elif kind == Kind.CONNECTED:
            if not self._opened(token, lambda to: to.set_result(flow)):
                self._quietly(_native.reset, flow)
        elif kind == Kind.LISTENING:
            udp_port = self._unwanted.pop(token, None)
            if not self._opened(token, lambda to: to.set_result(flow)) and udp_port is not None:
                self._quietly(_native.unlisten, udp_port)
        elif kind == Kind.CONNECT_FAILED:
            self._opened(token, lambda to: to.set_exception(_not_connected(reason)))
        elif kind == Kind.LISTEN_FAILED:
            self._unwanted.pop(token, None)
            self._opened(token, lambda to: to.set_exception(BarewireError(_PORT_TAKEN, "the UDP port is taken")))
        elif kind == Kind.WRITABLE:
            for waiter in self._writers:
                if not waiter.done():
                    waiter.set_result(None)
            self._writers.clear()
        elif kind in (Kind.RESPONSE, Kind.FAILURE, Kind.UNANSWERED):
            self._answered(told)

    def _wake_reader(self) -> None:
        while self._readers:
            reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(None)
                return

    def _opened(self, token: int, settle) -> bool:
        """Tells who waits for it. False: nobody does any more."""
        to = self._opening.pop(token, None)
        if to is None or to.done():
            return False
        settle(to)
        return True

    def _quietly(self, work, *args) -> None:
        """Takes something back: what is the matter, the next event says."""
        try:
            work(self._ticket, *args)
        except _native.Error:
            pass

    def _answered(self, told: tuple) -> None:
        kind, reason, _, token = told[:4]
        to = self._asked.pop(token, None)
        # The memory goes back to its sender whether or not somebody still waits.
        try:
            body = _native.read(self._ticket, told).data
        except _native.Error as e:
            if to is not None and not to.done():
                to.set_exception(_error(e))
            return
        if to is None or to.done():
            return
        if kind == Kind.RESPONSE:
            to.set_result(body)
        elif kind == Kind.FAILURE:
            to.set_exception(Failure(reason, body.decode(errors="replace")))
        elif reason == _DEADLINE:
            to.set_exception(Timeout(-9, "no answer before the deadline"))
        else:
            to.set_exception(FlowEnded("the flow ended before the answer came"))

    async def _patiently(self, work, *args):
        while True:
            try:
                return self._do(work, *args)
            except Full:
                waiter = self._loop.create_future()
                self._writers.append(waiter)
                self._kick()
                await waiter
            except BarewireError as e:
                if e.code != _BUSY:
                    raise
                await asyncio.sleep(0)

    async def _open(self, undo, work, *args) -> int:
        """Starts what the daemon answers by an event, and waits for that. `undo` takes back what comes of it when nobody waits any more."""
        self._tokens += 1
        token = self._tokens
        to = self._opening[token] = self._loop.create_future()
        asked = False
        try:
            await self._patiently(work, *args, token)
            asked = True
            self._kick()
            return await to
        except asyncio.CancelledError:
            if asked and self._ended is None:
                # The answer may have come in the turn in which the task was cancelled.
                if to.done() and not to.cancelled():
                    if to.exception() is None:
                        undo(token, to.result())
                else:
                    undo(token, None)
                self._kick()
            raise
        finally:
            self._opening.pop(token, None)
            if to.done() and not to.cancelled():
                to.exception()

    async def listen(self, udp_port: int) -> None:
        """Asks for connections on a UDP port."""

        def undo(token: int, there: int | None) -> None:
            if there is None:
                self._unwanted[token] = udp_port
            else:
                self._quietly(_native.unlisten, udp_port)

        await self._open(undo, _native.listen_start, udp_port)

    async def connect(self, remote: str, *, ordered: bool = True) -> int:
        """Opens a flow to an address such as 10.0.0.2:888."""

        def undo(token: int, flow: int | None) -> None:
            if flow is None:
                self._quietly(_native.cancel, token)
            else:
                self._quietly(_native.reset, flow)

        return await self._open(undo, _native.connect_start, remote, not ordered)

    def try_send(self, flow: int, data: Buffer) -> None:
        """Queues a message; `Full` while there is no room."""
        self._do(_native.send, flow, data)

    async def send(self, flow: int, data: Buffer) -> None:
        """Queues a message (any object with a contiguous buffer), and waits for room while there is none."""
        await self._patiently(_native.send, flow, data)

    async def call(self, flow: int, data: Buffer, *, timeout: float | None) -> bytes:
        """Asks, and waits for the answer: `TimeoutError`, `Failure`, `FlowEnded`. The deadline goes to the server."""
        us = 0 if timeout is None else max(1, int(timeout * 1e6))
        number = await self._patiently(_native.request, flow, data, us)
        to = self._asked[number] = self._loop.create_future()
        if timeout is not None:
            self._kick()
        try:
            return await to
        except asyncio.CancelledError:
            if self._ended is None:
                _native.request_cancel(self._ticket, number)
                self._kick()
            raise
        finally:
            self._asked.pop(number, None)

    async def respond(self, request: Event, data: Buffer) -> None:
        """Answers an event of kind REQUEST."""
        await self._patiently(_native.respond, request.flow, request.token, data)

    async def fail(self, request: Event, code: int, why: str = "") -> None:
        """Says that a request has no response."""
        await self._patiently(_native.fail, request.flow, request.token, code, why)

    async def close_flow(self, flow: int) -> None:
        """Ends a flow after everything sent on it was acknowledged; an event of kind CLOSED follows."""
        await self._patiently(_native.close, flow)
        self._kick()

    def peer(self, flow: int) -> Identity | None:
        """Who is at the other end of a flow; None: it is not encrypted, or gone."""
        found = self._do(_native.peer, flow)
        return None if found is None else Identity(found[0], bytes(found[1]))

    async def reset(self, flow: int) -> None:
        """Ends a flow at once."""
        await self._patiently(_native.reset, flow)
        self._kick()

    async def next(self) -> Event:
        """The next event: ACCEPTED, MESSAGE, CLOSED, REQUEST or CANCELLED. What nobody reads holds up its sender."""
        while not self._events:
            if self._ended is not None:
                raise self._ended
            reader = self._loop.create_future()
            self._readers.append(reader)
            try:
                await reader
            except asyncio.CancelledError:
                # It was woken, and does not come: another one takes its event.
                if reader.done() and not reader.cancelled() and self._events:
                    self._wake_reader()
                raise
        told = self._events.popleft()
        try:
            event = _native.read(self._ticket, told)
        except _native.Error as e:
            raise _error(e) from None
        if told[4][0]:
            # The sender hears of the room of its message with our next sleep.
            self._kick()
        return event

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Events, until the client is closed."""
        while True:
            try:
                yield await self.next()
            except HandleError:
                return

    def close(self) -> None:
        """Ends the client: flows are reset, waits end, and calls on it raise `HandleError` from then on."""
        if self._closed:
            return
        self._closed = True
        self._end(HandleError(-2, "the client was closed"))
        self._events.clear()
        # A client whose daemon is gone ended for another reason, and says so no longer.
        self._ended = HandleError(-2, "the client was closed")
        while True:
            try:
                _native.free(self._ticket)
                return
            except _native.Error as e:
                if e.args[0] != _BUSY:
                    return
