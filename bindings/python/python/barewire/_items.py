"""What a feed channel tells: one class a kind."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

__all__ = ["Book", "Gap", "Item", "Level", "Line", "Recovery", "Reset", "Statistic", "Status", "Trade"]


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
    """An instrument's book at the end of an event that changed it: up to ten levels a side, best first.

    Only a book whose `state` is `latest` or `naturally_refreshed` is good (`is_good`)."""

    state: str
    cause: str
    rpt_seq: int
    bids: list[Level]
    offers: list[Level]

    @property
    def is_good(self) -> bool:
        return self.state in ("latest", "naturally_refreshed")


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


@dataclass(frozen=True, slots=True)
class Status(_Item):
    """An instrument's trading status, by the numbers of CME's tags 326 (`status`), 327 (`halt_reason`) and 1174 (`event`)."""

    status: int
    halt_reason: int
    event: int


@dataclass(frozen=True, slots=True)
class Gap(_Item):
    """Packets `first` to `last` of the incremental feed are lost, on both lines."""

    first: int
    last: int
    cause: str


@dataclass(frozen=True, slots=True)
class Recovery(_Item):
    """`phase` is `begin` when some books are not good, `end` when all are; `unsettled` is how many are not."""

    phase: str
    instruments: int
    unsettled: int


@dataclass(frozen=True, slots=True)
class Reset(_Item):
    """The exchange emptied all books (`channel`), or packet numbers began anew (`sequence`). No `Book` tells of it."""

    what: str


@dataclass(frozen=True, slots=True)
class Line(_Item):
    """A line came up or went down: `line` as channel files name it (`IA`), `state` `up` or `down`."""

    line: str
    state: str


Item: TypeAlias = Book | Trade | Statistic | Status | Gap | Recovery | Reset | Line

_KINDS: dict[str, type[Item]] = {
    "trade": Trade,
    "statistic": Statistic,
    "status": Status,
    "gap": Gap,
    "recovery": Recovery,
    "reset": Reset,
    "line": Line,
}


def _item(told: tuple) -> Item:
    kind, head, rest = told
    if kind == "book":
        *rest, bids, offers = rest
        sides = [Level(*level) for level in bids], [Level(*level) for level in offers]
        return Book(*(*head, *rest, *sides))
    return _KINDS[kind](*head, *rest)
