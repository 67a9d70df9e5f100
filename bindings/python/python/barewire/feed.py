"""Market data (CME MDP 3.0), captured or live: iterators over books, trades and statistics, and tables for Arrow.

>>> for item in barewire.feed.Capture("morning.pcap"):
...     if isinstance(item, barewire.feed.Trade):
...         print(item.symbol, item.price, item.quantity)
>>> table = pyarrow.table(barewire.feed.Table("morning.pcap", "trades"))   # or polars.DataFrame(...)

>>> with barewire.feed.Live() as live:                                       # `barewire feed emulate` beside it
...     for item in live:
...         print(item)

Without a configuration the channel is that of `barewire feed emulate`. With one (barewire's TOML, which names CME's channel file) it is
what the file says. Memory is bounded by a few batches, whatever the captures' size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from . import _native

__all__ = ["Book", "Capture", "FeedError", "Level", "Live", "Statistic", "Table", "Trade"]

FeedError = _native.FeedError

_Path: TypeAlias = str | os.PathLike[str]
# What the emulator uses when it is not told otherwise.
_CHANNEL, _UDP_PORT = 901, 19010


def _price(mantissa: int | None) -> Decimal | None:
    return None if mantissa is None else Decimal(mantissa).scaleb(-9)


@dataclass(frozen=True, slots=True)
class Level:
    """A price level. `price_e9` is the price times 10^9; `None` where the message had none."""

    price_e9: int | None
    quantity: int
    orders: int | None

    @property
    def price(self) -> Decimal | None:
        return _price(self.price_e9)


@dataclass(frozen=True, slots=True)
class _Item:
    channel: int
    seq_num: int
    sending_time_ns: int
    stamp_ns: int
    stamp_source: str
    transact_time_ns: int
    security_id: int
    symbol: str


@dataclass(frozen=True, slots=True)
class Book(_Item):
    """An instrument's book at the end of an event that changed it: up to ten levels a side, best first."""

    state: str
    cause: str
    rpt_seq: int
    bids: list[Level]
    offers: list[Level]


@dataclass(frozen=True, slots=True)
class Trade(_Item):
    """A trade."""

    price_e9: int | None
    quantity: int
    orders: int
    aggressor: str | None
    action: str | None
    trade_id: int | None

    @property
    def price(self) -> Decimal | None:
        return _price(self.price_e9)


@dataclass(frozen=True, slots=True)
class Statistic(_Item):
    """A statistic or a volume; `transact_time_ns` is 0. `reference_date`: days since 1970."""

    kind: str
    price_e9: int | None
    quantity: int | None
    rpt_seq: int
    reference_date: int | None

    @property
    def price(self) -> Decimal | None:
        return _price(self.price_e9)


def _paths(captures: _Path | Iterable[_Path]) -> list[str]:
    if isinstance(captures, (str, os.PathLike)):
        captures = [captures]
    return [os.fspath(path) for path in captures]


def _item(told: tuple) -> Book | Trade | Statistic:
    kind, head, rest = told
    if kind == "book":
        state, cause, rpt_seq, bids, offers = rest
        return Book(*head, state, cause, rpt_seq, [Level(*level) for level in bids], [Level(*level) for level in offers])
    if kind == "trade":
        return Trade(*head, *rest)
    return Statistic(*head, *rest)


class Capture:
    """Items of captures (pcap, pcapng), merged by their stamps, in the order of the feed."""

    def __init__(
        self,
        captures: _Path | Iterable[_Path],
        *,
        config: _Path | None = None,
        channel: int = _CHANNEL,
        udp_port: int = _UDP_PORT,
        items: Iterable[str] = ("books", "trades", "statistics"),
    ) -> None:
        where = None if config is None else os.fspath(config)
        self._native = _native.Capture(_paths(captures), where, channel, udp_port, list(items))

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the replay; the iterator ends."""
        self._native.close()

    def __iter__(self) -> Iterator[Book | Trade | Statistic]:
        while batch := self._native.next_batch():
            yield from map(_item, batch)


class Live:
    """Items of channels as they arrive, from the kernel's sockets or from ports, as the configuration says. A thread of its own sleeps
    until packets arrive. The last 65,536 items are kept while nobody takes them; older ones are counted in `lost`."""

    def __init__(
        self,
        config: _Path | None = None,
        *,
        channel: int = _CHANNEL,
        udp_port: int = _UDP_PORT,
        interface: str | None = None,
        items: Iterable[str] = ("books", "trades", "statistics"),
    ) -> None:
        """`interface`: its name or one of its addresses, instead of what the configuration says; `lo` without one."""
        where = None if config is None else os.fspath(config)
        self._native = _native.Live(where, channel, udp_port, interface, list(items))

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def lost(self) -> int:
        """Items that nobody took in time."""
        return self._native.lost

    def close(self) -> None:
        """Ends the feed; the iterator ends when what was kept has been taken."""
        self._native.close()

    def next_batch(self, timeout: float | None = None) -> list[Book | Trade | Statistic] | None:
        """What has arrived, waiting for something (None: for ever). An empty list: the time was over. None: the feed has ended."""
        batch = self._native.next_batch(timeout)
        return None if batch is None else [_item(told) for told in batch]

    def __iter__(self) -> Iterator[Book | Trade | Statistic]:
        while (batch := self._native.next_batch(None)) is not None:
            yield from map(_item, batch)

    def listen(self, callback: Callable[[Book | Trade | Statistic], object]) -> None:
        """Calls back for each item, in this thread, until the feed ends (`close` by another thread, or by the callback)."""
        for item in self:
            callback(item)


class Table:
    """Books, trades or statistics as a table for whatever reads Arrow's C stream interface (pyarrow, Polars, DuckDB, pandas 3),
    without a copy. It can be read again and again; each time the captures are replayed."""

    def __init__(
        self,
        captures: _Path | Iterable[_Path],
        table: str,
        *,
        config: _Path | None = None,
        channel: int = _CHANNEL,
        udp_port: int = _UDP_PORT,
    ) -> None:
        where = None if config is None else os.fspath(config)
        self._args = (_paths(captures), where, channel, udp_port, table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's interface for capsules. Another schema than its own is not made: the consumer casts."""
        return _native.capture_stream(*self._args)
