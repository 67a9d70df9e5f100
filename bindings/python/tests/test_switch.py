"""The P4 switch in process: `test_switch.py PROGRAMS COMPILED`, which have simple_router.p4 and .json. Prints `ok`."""

import struct
import sys
import tempfile
from pathlib import Path

import barewire
from expect import raises

PROGRAMS, COMPILED = Path(sys.argv[1]), Path(sys.argv[2])


def checksum(header: bytes) -> int:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(dst_mac: bytes, src_mac: bytes, ttl: int, dst: bytes) -> bytes:
    def header(sum_: int) -> bytes:
        return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 24, 7, 0, ttl, 17, sum_, bytes([10, 0, 0, 9]), dst)

    return dst_mac + src_mac + b"\x08\x00" + header(checksum(header(0))) + b"body"


def routes(s: barewire.Switch) -> int:
    handle = s.insert("ipv4_lpm", {"hdr.ipv4.dst_addr": "10.0.1.0/24"}, "set_next_hop", {"next_hop": "10.0.1.1", "port": 2})
    s.insert("ipv4_lpm", {"dst_addr": ("prefix", bytes([10, 0, 0, 0]), 8)}, "set_next_hop", {"next_hop": "10.9.9.9", "port": 3})
    s.insert("forward", {"meta.next_hop": "10.0.1.1"}, "set_dst_addr", {"dst_addr": "02:00:00:00:00:01"})
    s.insert("forward", {"meta.next_hop": 0x0A090909}, "set_dst_addr", {"dst_addr": 0x020000000003})
    s.insert("send_frame", {"egress_port": 2}, "set_src_addr", {"src_addr": "02:00:00:00:00:02"})
    s.set_default("send_frame", "set_src_addr", {"src_addr": 4})
    return handle


def router(program: Path, engine: str) -> None:
    mac = bytes.fromhex
    near, far = bytes([10, 0, 1, 7]), bytes([10, 7, 7, 7])
    with barewire.Switch(program, engine=engine) as s:
        handle = routes(s)
        sent = packet(mac("aaaaaaaaaaaa"), mac("bbbbbbbbbbbb"), 64, near)
        by_near = packet(mac("020000000001"), mac("020000000002"), 63, near)
        assert s.send(1, sent) == [(2, by_near)]
        assert s.send(1, packet(mac("aaaaaaaaaaaa"), mac("bbbbbbbbbbbb"), 9, far)) == [
            (3, packet(mac("020000000003"), mac("000000000004"), 8, far))
        ]
        # Its time is over; its sum is wrong; nobody knows the way.
        assert s.send(1, packet(mac("aaaaaaaaaaaa"), mac("bbbbbbbbbbbb"), 1, near)) == []
        assert s.send(1, sent[:24] + b"\xff\xff" + sent[26:]) == []
        assert s.send(1, packet(mac("aaaaaaaaaaaa"), mac("bbbbbbbbbbbb"), 64, bytes([11, 0, 0, 1]))) == []
        s.delete("ipv4_lpm", handle)
        assert s.send(1, sent)[0][0] == 3, "the shorter prefix is left"
        s.clear("ipv4_lpm")
        assert s.send(1, sent) == []
        assert "ipv4_lpm" in str(raises(barewire.SwitchError, s.insert, "ipv4_lpn", {}, "drop"))
        raises(barewire.SwitchError, s.insert, "ipv4_lpm", {"dst_addr": 1 << 32}, "drop")
        raises(ValueError, s.insert, "ipv4_lpm", {"dst_addr": -1}, "drop")
        raises(barewire.SwitchError, s.send, 1, bytes(70_000))
        s.test("add send_frame egress_port:1 set_src_addr(src_addr:5)\npacket 0 00\n")
        raises(AssertionError, s.test, "packet 0 00\nexpect 1 00\n")
    raises(barewire.SwitchError, s.send, 1, sent)


def refusals() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wrong = Path(folder) / "wrong.p4"
        wrong.write_text("#include <core.p4>\nheader h_t { bit<8> a; }\nconst bit<8> x = y;\n")
        said = str(raises(barewire.SwitchError, barewire.Switch, wrong))
        assert "wrong.p4:3" in said and "y" in said, said
        raises(FileNotFoundError, barewire.Switch, Path(folder) / "none.p4")
        (Path(folder) / "wrong.json").write_text("{}")
        raises(barewire.SwitchError, barewire.Switch, Path(folder) / "wrong.json")
    raises(barewire.SwitchError, barewire.Switch, PROGRAMS / "simple_router.p4", engine="steam")


for path in (PROGRAMS / "simple_router.p4", COMPILED / "simple_router.json"):
    for engine in ("native", "interpreter"):
        router(path, engine)
refusals()
print("ok")
