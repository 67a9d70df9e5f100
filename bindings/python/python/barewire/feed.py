"""Market data (CME MDP 3.0), captured and live: books, trades and statistics as items, and as tables for Arrow.

>>> for item in barewire.feed.Capture("morning.pcap"):
...     if isinstance(item, barewire.feed.Trade):
...         print(item.symbol, item.price, item.quantity)
>>> table = pyarrow.table(barewire.feed.Table("morning.pcap", "trades"))   # or polars.DataFrame(...)

>>> with barewire.feed.Live("feed.toml", collect=["trades"]) as feed:
...     for item in feed:
...         print(item)

Without a configuration the channel is that of `barewire feed emulate`. With one (barewire's TOML, which names CME's channel file) it is
what the file says. Memory is bounded: of captures by a few batches, whatever their size; of live channels by the arguments of `Live`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from . import _native
from ._items import Book, Gap, Item, Level, Line, Recovery, Reset, Statistic, Status, Trade, _item
from ._live import _CHANNEL, _UDP_PORT, FeedError, Instrument, Live

__all__ = [
    "Book",
    "Capture",
    "FeedError",
    "Gap",
    "Instrument",
    "Item",
    "Level",
    "Line",
    "Live",
    "Recovery",
    "Reset",
    "Statistic",
    "Status",
    "Table",
    "Trade",
]

_Path: TypeAlias = str | os.PathLike[str]


def _paths(captures: _Path | Iterable[_Path]) -> list[str]:
    if isinstance(captures, (str, os.PathLike)):
        captures = [captures]
    return [os.fspath(path) for path in captures]


class Capture:
    """Items of captures (pcap, pcapng), merged by their stamps, in the order of the feed. `items` may also name `status`, `recovery`
    and `lines`."""

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

    def __iter__(self) -> Iterator[Item]:
        while batch := self._native.next_batch():
            yield from map(_item, batch)


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
