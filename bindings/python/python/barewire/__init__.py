"""Low-latency messages through the barewire daemon.

>>> client = barewire.Client("hello")
>>> flow = client.connect("10.0.0.2:888")
>>> client.call(flow, b"price of ES?", timeout=0.005)

`barewire.aio` has the same for asyncio, `barewire.Switch` is a P4 switch in process, `barewire.feed` reads
captured market data, and `barewire.runs` what was measured.
"""

from __future__ import annotations

import enum
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import _native
from ._native import Event
from ._switch import Switch, SwitchError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__version__: str = _native.version
__all__ = [
    "BarewireError",
    "Client",
    "Closed",
    "DaemonGone",
    "Event",
    "Failure",
    "FlowEnded",
    "Full",
    "HandleError",
    "Identity",
    "Kind",
    "Refused",
    "SecurityError",
    "Switch",
    "SwitchError",
    "Timeout",
    "TooLarge",
]


class BarewireError(Exception):
    """A call failed. `code` is a BW_ERR_ number of barewire.h."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class HandleError(BarewireError):
    """The client was closed."""


class Full(BarewireError):
    """Memory or ring is full for now."""


class TooLarge(BarewireError):
    """The message is above 64 MiB, or larger than the channel's memory."""


class DaemonGone(BarewireError, ConnectionError):
    """The daemon is gone: make another client when it is back."""


class Refused(BarewireError, ConnectionRefusedError):
    """Nobody listens there."""


class SecurityError(BarewireError, ConnectionError):
    """The keys or the rules of the two hosts do not let the flow open."""


class Timeout(BarewireError, TimeoutError):
    """The time-out came first."""


class FlowEnded(ConnectionError):
    """The flow ended before the answer came. Whether the server acted is not known."""


class Failure(Exception):
    """The server's answer that it has no response: `code` and `text`."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"the server failed, code {code}: {text}")
        self.code = code
        self.text = text


_KINDS: dict[int, type[BarewireError]] = {
    -2: HandleError,
    -4: Full,
    -5: TooLarge,
    -8: DaemonGone,
    -9: Timeout,
    -15: Refused,
    -24: SecurityError,
}
_AGAIN, _BUSY, _INTERRUPTED = -4, -3, -10


def _error(e: _native.Error) -> BarewireError:
    code, text = e.args
    return _KINDS.get(code, BarewireError)(code, text)


class Kind(enum.IntEnum):
    """What an event is: the BW_EVENT_ numbers of barewire.h."""

    CONNECTED = 1
    CONNECT_FAILED = 2
    ACCEPTED = 3
    MESSAGE = 4
    DELIVERED = 5
    UNDELIVERED = 6
    LISTENING = 7
    LISTEN_FAILED = 8
    CLOSED = 9
    WRITABLE = 10
    WOKEN = 11
    REQUEST = 12
    RESPONSE = 13
    FAILURE = 14
    UNANSWERED = 15
    CANCELLED = 16


class Closed(enum.IntEnum):
    """Why a flow ended; later releases may have more numbers."""

    LOCAL = 0
    PEER = 1
    RESET = 2
    PEER_RESTARTED = 3
    TIMED_OUT = 4
    IDLE = 5
    LOCAL_RESET = 6


# How long a call that waits for room keeps the one place for waiting, and naps while another thread has it.
_TURN = 0.001
_NAP = 0.0001
_DEADLINE = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is at the other end of an encrypted flow, as the peer has proven it; `name`: what the configuration calls it."""

    name: str
    key: bytes


def _ms(timeout: float | None) -> int:
    # A wait may end late, and never early.
    return -1 if timeout is None else min(max(0, -int(-timeout * 1000 // 1)), 2**31 - 1)


class Client:
    """A channel to the daemon. Threads may share it. Events are for one of them at a time: `next` waits while another one is in `next` or
    `call`, and `call` is refused. A `send` that waits for room leaves them to it."""

    def __init__(self, name: str = "python", socket: str | None = None, *, calls_max: int = 1024) -> None:
        self._kept: deque[tuple] = deque()
        # Who takes events for the program.
        self._reader = threading.Lock()
        # Who waits in the library, where there is one place: the reader, or a call that waits for room. Held until an event is kept or
        # read, so that a reader finds it.
        self._turn = threading.Lock()
        self._closing = False
        self._closed = False
        try:
            self._ticket = _native.attach(name, socket)
            _native.requests(self._ticket, calls_max)
        except _native.Error as e:
            raise _error(e) from None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_ticket") and not self._closed:
            try:
                _native.free(self._ticket)
            except _native.Error:
                pass

    def _do(self, work, *args):
        try:
            return work(self._ticket, *args)
        except _native.Error as e:
            raise _error(e) from None

    def listen(self, udp_port: int, *, token: int = 0, timeout: float | None = 5.0) -> None:
        """Asks for connections on a UDP port."""
        self._do(_native.listen, udp_port, token, _ms(timeout))

    def connect(self, remote: str, *, ordered: bool = True, timeout: float | None = 5.0) -> int:
        """Opens a flow to an address such as 10.0.0.2:888."""
        return self._do(_native.connect, remote, not ordered, _ms(timeout))

    def close_flow(self, flow: int) -> None:
        """Ends a flow after everything sent on it was acknowledged; an event of kind CLOSED follows."""
        self._patiently(None, flow, _native.close, flow)

    def peer(self, flow: int) -> Identity | None:
        """Who is at the other end of a flow; None: it is not encrypted, or gone."""
        found = self._do(_native.peer, flow)
        return None if found is None else Identity(found[0], bytes(found[1]))

    def reset(self, flow: int) -> None:
        """Ends a flow at once."""
        self._patiently(None, flow, _native.reset, flow)

    def try_send(self, flow: int, data: Buffer) -> None:
        """Queues a message; `Full` while there is no room."""
        self._do(_native.send, flow, data)

    def send(self, flow: int, data: Buffer, *, timeout: float | None = None) -> None:
        """Queues a message (any object with a contiguous buffer), and waits for room while there is none."""
        try:
            _native.send(self._ticket, flow, data)
            return
        except _native.Error as e:
            if e.args[0] not in (_AGAIN, _BUSY):
                raise _error(e) from None
        self._patiently(timeout, flow, _native.send, flow, data)

    def request(self, flow: int, data: Buffer, *, timeout: float | None) -> int:
        """Asks. An event of kind RESPONSE, FAILURE or UNANSWERED follows, with this number as its token."""
        return self._request(False, flow, data, timeout)

    def _request(self, reads: bool, flow: int, data: Buffer, timeout: float | None) -> int:
        us = 0 if timeout is None else max(1, int(timeout * 1e6))
        return self._patiently(timeout, flow, _native.request, flow, data, us, reads=reads)

    def cancel(self, request: int) -> bool:
        """Gives a request up, and tells the server. False: it was over."""
        return self._do(_native.request_cancel, request) == 1

    def call(self, flow: int, data: Buffer, *, timeout: float | None) -> bytes:
        """Asks, and waits for the answer; other events stay for `next`. `TimeoutError`, `Failure`, `FlowEnded`."""
        if not self._reader.acquire(blocking=False):
            raise BarewireError(_BUSY, "another thread takes events, and would take the answer")
        aside: list[tuple] = []
        try:
            asked = self._request(True, flow, data, timeout)
            while True:
                told = self._wait(None, _native.wait_event, lambda told: told)
                if told is None:
                    continue
                if told[3] != asked or told[0] not in (Kind.RESPONSE, Kind.FAILURE, Kind.UNANSWERED):
                    aside.append(told)
                    continue
                return self._answer(self._event(told))
        finally:
            self._kept.extendleft(reversed(aside))
            self._reader.release()

    @staticmethod
    def _answer(event: Event) -> bytes:
        if event.kind == Kind.RESPONSE:
            return event.data
        if event.kind == Kind.FAILURE:
            raise Failure(event.reason, event.data.decode(errors="replace"))
        if event.reason == _DEADLINE:
            raise Timeout(-9, "no answer before the deadline")
        raise FlowEnded("the flow ended before the answer came")

    def respond(self, request: Event, data: Buffer, *, timeout: float | None = None) -> None:
        """Answers an event of kind REQUEST."""
        self._patiently(timeout, request.flow, _native.respond, request.flow, request.token, data)

    def fail(self, request: Event, code: int, why: str = "", *, timeout: float | None = None) -> None:
        """Says that a request has no response."""
        self._patiently(timeout, request.flow, _native.fail, request.flow, request.token, code, why)

    def _wait(self, timeout: float | None, work, kept):
        """The next event, for the reader: `work` waits for it, `kept` takes one that was kept. None also when a signal came."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            # A call that waits for room has the turn for a moment only, and leaves it to a reader.
            with self._turn:
                if self._kept:
                    return kept(self._kept.popleft())
                try:
                    return self._do_wait(None if end is None else max(0.0, end - time.monotonic()), work)
                except BarewireError as e:
                    # Another thread is inside, as in `connect`.
                    if e.code != _BUSY:
                        raise
            if end is not None and time.monotonic() >= end:
                return None
            time.sleep(_NAP)

    def _do_wait(self, timeout: float | None, work):
        if self._closing:
            raise HandleError(-2, "the client was closed")
        try:
            return work(self._ticket, -1 if timeout is None else _ms(timeout))
        except _native.Error as e:
            if e.args[0] == _INTERRUPTED:
                # Python's own handlers run between the two; they may raise.
                return None
            raise _error(e) from None

    def _event(self, told: tuple) -> Event:
        return self._do(_native.read, told)

    def next(self, timeout: float | None = None) -> Event | None:
        """The next event, waiting for it (None: for ever). None when the time was over."""
        end = None if timeout is None else time.monotonic() + timeout
        if timeout is None:
            self._reader.acquire()
        elif not self._reader.acquire(timeout=min(max(0.0, timeout), threading.TIMEOUT_MAX)):
            return None
        try:
            while True:
                left = None if end is None else max(0.0, end - time.monotonic())
                event = self._wait(left, _native.receive, self._event)
                if event is not None:
                    return event
                if left == 0.0:
                    return None
        finally:
            self._reader.release()

    def _patiently(self, timeout: float | None, flow: int, work, *args, reads: bool = False):
        """Tries again while there is no room. `reads`: this thread is the reader."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._do(work, *args)
            except BarewireError as e:
                if e.code not in (_AGAIN, _BUSY):
                    raise
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise
                busy = e.code == _BUSY
            # Another thread that takes events takes the word that there is room, too: so this one looks again before long.
            if busy or (self._reader.locked() and not reads) or not self._turn.acquire(blocking=False):
                time.sleep(_NAP)
                continue
            try:
                told = self._do_wait(_TURN if left is None else min(left, _TURN), _native.wait_event)
                # What comes meanwhile is kept unread: it holds up those who sent it, and takes no memory of ours.
                if told is not None and not (told[0] == Kind.WRITABLE and told[2] in (0, flow)):
                    self._kept.append(told)
            except BarewireError as e:
                if e.code != _BUSY:
                    raise
            finally:
                self._turn.release()

    def wake(self) -> None:
        """Ends a wait of another thread in `next`: it gets an event of kind WOKEN."""
        self._do(_native.wake)

    def close(self, *, wait: float | None = None) -> None:
        """Ends the client; calls on it raise `HandleError` from then on. With `wait`, everything sent arrives first."""
        if self._closed:
            return
        if wait is not None:
            self._do(_native.close_wait, _ms(wait))
        # A thread that waits is woken, and does not wait again.
        self._closing = True
        while True:
            try:
                _native.free(self._ticket)
                break
            except _native.Error as e:
                if e.args[0] != _BUSY:
                    break
            try:
                _native.wake(self._ticket)
            except _native.Error:
                pass
            time.sleep(0.001)
        self._closed = True
