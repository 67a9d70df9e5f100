"""Captured market data (CME MDP 3.0): an iterator over books, trades and statistics, and tables for Arrow.

>>> for item in barewire.feed.Capture("morning.pcap"):
...     if isinstance(item, barewire.feed.Trade):
...         print(item.symbol, item.price, item.quantity)
>>> table = pyarrow.table(barewire.feed.Table("morning.pcap", "trades"))   # or polars.DataFrame(...)

Without a configuration the channel is that of `barewire feed emulate`. With one (barewire's TOML, which names CME's channel file) it is
what the file says. Memory is bounded by a few batches, whatever the captures' size.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from . import _native

__all__ = ["Book", "Capture", "FeedError", "Level", "Statistic", "Table", "Trade"]

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
            for kind, head, rest in batch:
                if kind == "book":
                    state, cause, rpt_seq, bids, offers = rest
                    sides = [Level(*level) for level in bids], [Level(*level) for level in offers]
                    yield Book(*head, state, cause, rpt_seq, *sides)
                elif kind == "trade":
                    yield Trade(*head, *rest)
                else:
                    yield Statistic(*head, *rest)


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
