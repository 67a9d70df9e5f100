"""Feed channels as they are sent. Part of `barewire.feed`."""

from __future__ import annotations

import atexit
import logging
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias, TypeVar, cast

from . import _native
from ._items import Book, Item, _item, _price

__all__ = ["Instrument", "Live"]

_Path: TypeAlias = str | os.PathLike[str]
_Table: TypeAlias = Literal["books", "trades", "statistics"]
_Callback = TypeVar("_Callback", bound=Callable[..., object])
_log = logging.getLogger("barewire.feed")


@dataclass(frozen=True, slots=True)
class Instrument:
    """What is known of an instrument. `state`: of its book. `trading_status`: CME's tag 326; 255 where it is not known."""

    channel: int
    security_id: int
    symbol: str
    group: str
    asset: str
    security_type: str
    currency: str
    state: str
    trading_status: int
    tick_e9: int

    @property
    def tick(self) -> Decimal | None:
        """The smallest step of a price; `None` without a definition."""
        return _price(self.tick_e9) if self.tick_e9 else None


def _ms(timeout: float | None) -> int | None:
    return None if timeout is None else max(0, min(math.ceil(timeout * 1000), 2**53))


class Live:
    """A feed handler on a thread of its own: lines A and B are one, gaps are repaired, books are kept.

    Read it by iterating, by `next`, or by callbacks (`on`, then `start`). It never waits for its reader: of more than `queue` items
    that nobody has taken the oldest go, counted (`dropped`). A book is whole, so a reader that misses some has the right one with the
    next. `book`, `instruments` and `counters` ask the handler, between two packets; `table` has the rows of the tables named by
    `collect`, of which the latest `collect_rows` are kept.

    Channels and sources come from a configuration file of `barewire feed run`, or from arguments: `channel`, one or several, from CME's
    `channel_file`, or as `barewire feed emulate` sends them on `lo`; received by the kernel's sockets on `interface` (and `interface_b`),
    or by a `port` such as `xdp:eth0` (and `port_b`).
    """

    def __init__(
        self,
        config: _Path | None = None,
        *,
        channel: int | Iterable[int] | None = None,
        channel_file: _Path | None = None,
        udp_port: int | None = None,
        interface: str | None = None,
        interface_b: str | None = None,
        port: str | None = None,
        port_b: str | None = None,
        items: Iterable[str] = ("books", "trades", "statistics", "status", "recovery", "lines"),
        queue: int = 65536,
        collect: Iterable[_Table] = (),
        collect_rows: int = 100_000,
    ) -> None:
        arguments = (channel, channel_file, udp_port, interface, interface_b, port, port_b)
        if config is not None and any(argument is not None for argument in arguments):
            raise FeedError("the configuration file says which channels and from where; give either it or arguments")
        if port is None and port_b is not None:
            raise FeedError("port_b is the port of the B lines; that of the A lines, port, is missing")
        if port is not None and (interface is not None or interface_b is not None):
            raise FeedError("packets come from interfaces, by the kernel's sockets, or from ports; not from both")
        if channel_file is not None and channel is None:
            raise FeedError("which channels of the file? channel=310, or channel=[310, 318]")
        if queue < 1 or collect_rows < 1:
            raise FeedError("queue and collect_rows are at least 1")
        if channel_file is None and port is None and interface is None:
            # Where `barewire feed emulate` sends, and `barewire feed run` listens.
            interface = "lo"
        if channel is None:
            channel = _CHANNEL
        self._native = _native.Live(
            {
                "config": None if config is None else os.fspath(config),
                "channels": [channel] if isinstance(channel, int) else list(channel),
                "channel_file": None if channel_file is None else os.fspath(channel_file),
                "udp_port": _UDP_PORT if udp_port is None else udp_port,
                "interfaces": (interface, interface_b),
                "ports": (port, port_b),
                "items": list(items),
                "queue": queue,
                "collect": list(collect),
                "collect_rows": collect_rows,
            }
        )
        self._closed = False
        # Taken from the handler, and not yet given to the reader.
        self._ready: deque[Item] = deque()
        self._callbacks: list[tuple[tuple[type[Item], ...], Callable[[Item], object]]] = []
        self._errors = 0
        self._thread: threading.Thread | None = None
        _open.add(self)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the handler. Whatever waits for it ends; what is called later raises `FeedError`."""
        self._closed = True
        self._native.close()
        self._ready.clear()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            # A callback that waits for the caller of this must not hold it up for ever.
            thread.join(timeout=5)

    @property
    def closed(self) -> bool:
        return self._closed

    def _check(self) -> None:
        if self._closed:
            raise FeedError("the feed is closed")

    def _check_reader(self) -> None:
        self._check()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            raise FeedError("callbacks take the items; use either them or an iterator")

    def _take(self, timeout: float | None) -> tuple[Item | None, bool]:
        """An item, or whether there will be no more."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._ready.popleft(), False
            except IndexError:
                pass
            left = None if end is None else max(0.0, end - time.monotonic())
            try:
                batch = self._native.next_batch(_ms(left))
            except FeedError:
                if self._closed:
                    return None, True
                raise
            if batch is None:
                return None, True
            if not batch and left is not None:
                return None, False
            self._ready.extend(map(_item, batch))

    def __iter__(self) -> Iterator[Item]:
        """Items as they come. It ends when the feed is closed, and where sources have an end (captures as ports)."""
        self._check_reader()
        return self._all()

    def _all(self) -> Iterator[Item]:
        while True:
            item, ended = self._take(None)
            if item is not None:
                yield item
            elif ended:
                return

    def next(self, timeout: float | None = None) -> Item | None:
        """The next item, waiting for it (None: for ever). None when the time was over, or there will be no more."""
        self._check_reader()
        return self._take(timeout)[0]

    def on(self, *kinds: type[Item]) -> Callable[[_Callback], _Callback]:
        """Decorates a callback for items of these kinds; without any, for all.

        >>> @feed.on(barewire.feed.Trade)
        ... def traded(trade): print(trade.symbol, trade.price)
        >>> feed.start()
        """

        def register(callback: _Callback) -> _Callback:
            self._callbacks.append((kinds, callback))
            return callback

        return register

    def start(self) -> threading.Thread:
        """Begins to call back, on a thread of its own, which ends with the feed. What a callback raises is logged (`barewire.feed`) and
        counted (`errors`); the next item follows."""
        self._check()
        if self._thread is not None:
            raise FeedError("callbacks were started already")
        self._thread = threading.Thread(target=self._call, name="barewire-feed", daemon=True)
        self._thread.start()
        return self._thread

    def _call(self) -> None:
        try:
            for item in self._all():
                for kinds, callback in tuple(self._callbacks):
                    if kinds and not isinstance(item, kinds):
                        continue
                    try:
                        callback(item)
                    except Exception:
                        self._errors += 1
                        _log.exception("a callback failed at %s", item)
        except FeedError:
            if not self._closed:
                self._errors += 1
                _log.exception("the feed ended")

    @property
    def errors(self) -> int:
        """Exceptions that callbacks raised."""
        return self._errors

    @property
    def dropped(self) -> int:
        """Items that went because nobody took them in time."""
        return self.counters()["queue.dropped"]

    def book(self, instrument: int | str, *, channel: int | None = None) -> Book | None:
        """An instrument's book now, by SecurityID or symbol; `channel` where there are several. None: there is no such instrument."""
        self._check()
        by_id, symbol = (None, instrument) if isinstance(instrument, str) else (instrument, None)
        told = self._native.book(by_id, symbol, channel)
        return None if told is None else cast(Book, _item(told))

    def instruments(self, channel: int | None = None) -> list[Instrument]:
        """The instruments of a channel, or of all."""
        self._check()
        return [Instrument(*told) for told in self._native.instruments(channel)]

    def counters(self) -> dict[str, int]:
        """What the handler has counted, by the names of `barewire stat` (`feed_channel.901.gaps`); `queue.*`, `collected.*`: items that
        wait, rows that are kept, and how many of each were dropped."""
        self._check()
        return self._native.counters()

    def table(self, table: _Table, *, clear: bool = False) -> _native.Collected:
        """The rows of a table that were collected so far, for whatever reads Arrow's C stream interface; it may be read again and again.
        `clear`: they are forgotten here, and the next table begins behind them."""
        self._check()
        return self._native.collected(table, clear)


FeedError = _native.FeedError
# What the emulator uses when it is not told otherwise.
_CHANNEL, _UDP_PORT = 901, 19010

_open: weakref.WeakSet[Live] = weakref.WeakSet()


def _close_all() -> None:
    # No thread may wait for the interpreter's lock when the interpreter ends.
    for feed in list(_open):
        feed.close()


atexit.register(_close_all)
