"""A P4 switch in process, for tests: no interface, no daemon, no root.

>>> with barewire.Switch("router.p4") as s:
...     s.insert("ipv4_lpm", {"hdr.ipv4.dstAddr": "10.0.1.0/24"}, "set_next_hop", {"nhop_ipv4": "10.0.1.1", "port": 2})
...     assert s.send(1, packet) == [(2, forwarded)]
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

from . import _native

__all__ = ["Switch", "SwitchError"]

SwitchError = _native.SwitchError

# A number, an address (IPv4, IPv6, MAC), digits with or without a prefix such as 0x, or bytes with the highest first.
Value: TypeAlias = int | str | bytes
# Also "10.0.0.0/8" or ("prefix", value, length), (value, mask), and range(low, high + 1).
Match: TypeAlias = Value | tuple[Value, Value] | tuple[str, Value, int] | range

_MAC = re.compile(r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")


def _int(value: Value) -> int:
    if isinstance(value, bytes):
        return int.from_bytes(value)
    if not isinstance(value, str):
        return int(value)
    if _MAC.fullmatch(value):
        return int(value.replace(":", ""), 16)
    if "." in value or ":" in value:
        return int(ipaddress.ip_address(value))
    return int(value, 0)


def _part(name: str, match: Match) -> tuple[str, str, str, str]:
    how: str
    a: Value
    b: Value
    if isinstance(match, range):
        if match.step != 1 or len(match) == 0:
            raise ValueError(f"{name}: a range has a first number and one after its last: range(low, high + 1)")
        how, a, b = "range", match.start, match.stop - 1
    elif isinstance(match, tuple) and len(match) == 3 and match[0] == "prefix":
        how, a, b = match
    elif isinstance(match, tuple):
        how, (a, b) = "mask", cast(tuple[Value, Value], match)
    elif isinstance(match, str) and "/" in match:
        how, (a, b) = "prefix", match.split("/", 1)
    else:
        how, a, b = "value", cast(Value, match), 0
    values = _int(a), _int(b)
    if min(values) < 0:
        raise ValueError(f"{name}: negative")
    return name, how, str(values[0]), str(values[1])


def _args(args: Mapping[str, Value]) -> list[tuple[str, str]]:
    return [(name, str(_int(value))) for name, value in args.items()]


class Switch:
    """A program on a switch, from P4 source (`.p4`, v1model) or bmv2 JSON, compiled to machine code unless `engine` is "interpreter".

    Only the thread that made it may use it. Time stands still until `advance`. What is refused raises `SwitchError`.
    """

    def __init__(
        self,
        program: str | os.PathLike[str],
        *,
        include: Iterable[str] = (),
        define: Iterable[str] = (),
        engine: str = "native",
        drop_port: int = 511,
    ) -> None:
        self._native: _native.Switch | None = _native.Switch(os.fspath(program), list(include), list(define), engine, drop_port)

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _switch(self) -> _native.Switch:
        if self._native is None:
            raise SwitchError("the switch was closed")
        return self._native

    def insert(
        self, table: str, key: Mapping[str, Match], action: str, args: Mapping[str, Value] = {}, *, priority: int | None = None
    ) -> int:
        """Adds an entry; its handle. Key fields that are not named match anything that their kind can leave open. The larger priority
        (0 to 10000) wins, in tables with masks or ranges."""
        parts = [_part(name, match) for name, match in key.items()]
        return self._switch.insert(table, parts, action, _args(args), priority)

    def set_default(self, table: str, action: str, args: Mapping[str, Value] = {}) -> None:
        """What happens to packets that no entry matches."""
        self._switch.set_default(table, action, _args(args))

    def delete(self, table: str, handle: int) -> None:
        """Takes an entry away."""
        self._switch.delete(table, handle)

    def clear(self, table: str) -> None:
        """Takes all entries of a table away; its default stays."""
        self._switch.clear(table)

    def send(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Hands a packet in; ports with the packets that come out."""
        return self._switch.send(port, packet)

    def advance(self, seconds: float) -> list[tuple[int, bytes]]:
        """Moves the clock; what comes out of queues whose time has come."""
        return self._switch.advance(round(seconds * 1e6))

    def counter(self, name: str, index: int = 0) -> tuple[int, int]:
        """Packets and bytes."""
        return self._switch.counter(name, index)

    def register(self, name: str, index: int = 0) -> int:
        """A register's value."""
        return int.from_bytes(self._switch.register(name, index))

    def multicast(self, group: int, ports: Iterable[int]) -> None:
        """Makes a multicast group."""
        self._switch.multicast(group, list(ports))

    def mirror(self, session: int, port: int) -> None:
        """Where clones of a session go."""
        self._switch.mirror(session, port)

    def test(self, stf: str) -> None:
        """Runs a packet test in STF on a switch of its own; `AssertionError` says what was not as expected."""
        wrong, shown = self._switch.test(stf)
        if wrong:
            raise AssertionError("\n".join([*wrong, *shown]))

    def close(self) -> None:
        """Gives its memory back; calls raise `SwitchError` from then on."""
        self._native = None
