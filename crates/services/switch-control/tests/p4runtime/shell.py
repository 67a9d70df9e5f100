"""What a user of p4runtime-shell does: push a program, write and read one of each entity.

Arguments: address, device id, P4Info in text form, compiled program.
"""
import sys

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException

address, device, p4info, program = sys.argv[1:5]
sh.setup(device_id=int(device), grpc_addr=address, election_id=(0, 1), config=sh.FwdPipeConfig(p4info, program))
try:
    assert sh.APIVersion() == "1.4.1", sh.APIVersion()

    entry = sh.TableEntry("lpm_table")(action="forward")
    entry.match["hdr.ethernet.src"] = "0a:00:00:00:00:00/8"
    entry.match["sm.ingress_port"] = "1"
    entry.action["port"] = "2"
    entry.insert()
    try:
        entry.insert()
        raise SystemExit("a duplicate was taken")
    except P4RuntimeWriteException as error:
        assert "ALREADY_EXISTS" in str(error), error
    found = list(sh.TableEntry("lpm_table").read())
    assert len(found) == 1, found
    assert found[0].action["port"].value == b"\x02", found[0]
    entry.action["port"] = "1"
    entry.modify()

    ternary = sh.TableEntry("ternary_table")(action="tag")
    ternary.match["hdr.ethernet.src"] = "00:00:00:00:12:00&&&00:00:00:00:ff:00"
    ternary.match["hdr.ethernet.ether_type"] = "0x800..0x8ff"
    ternary.match["hdr.ethernet.dst"] = "00:00:00:00:00:09"
    ternary.action["mark"] = "3"
    ternary.action["dst"] = "11:22:33:44:55:66"
    ternary.priority = 10
    ternary.insert()
    assert [e.priority for e in sh.TableEntry("ternary_table").read()] == [10]

    default = sh.TableEntry("exact_table")(is_default=True, action="counted_forward")
    try:
        default.action["port"] = "1"
        default.modify()
    finally:
        reset = sh.TableEntry("exact_table")(is_default=True)
        reset.modify()

    counted = sh.TableEntry("exact_table")(action="counted_forward")
    counted.match["hdr.ethernet.dst"] = "00:00:00:00:00:01"
    counted.action["port"] = "1"
    counted.insert()
    direct = sh.DirectCounterEntry("forward_counter")
    direct.table_entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:01"
    direct.packet_count = 5
    direct.modify()
    assert next(direct.read()).packet_count == 5

    counter = sh.CounterEntry("port_counter")
    counter.index = 3
    counter.packet_count = 7
    counter.modify()
    assert len(list(sh.CounterEntry("port_counter").read())) == 16

    meter = sh.MeterEntry("port_meter")
    meter.index = 1
    meter.cir, meter.cburst, meter.pir, meter.pburst = 10, 20, 30, 40
    meter.modify()
    read = next(meter.read())
    assert (read.cir, read.pburst) == (10, 40), read

    member = sh.ActionProfileMember("ecmp")(member_id=1, action="forward")
    member.action["port"] = "1"
    member.insert()
    group = sh.ActionProfileGroup("ecmp")(group_id=1)
    group.add(1, 2)
    group.insert()
    indirect = sh.TableEntry("select_table")(group_id=1)
    indirect.match["hdr.ethernet.ether_type"] = "0x800"
    indirect.insert()
    indirect.delete()
    group.delete()
    member.delete()

    one_shot = sh.TableEntry("select_table")
    one_shot.match["hdr.ethernet.ether_type"] = "0x801"
    choice = sh.Action("forward")
    choice["port"] = "1"
    one_shot.oneshot.add(choice, weight=1)
    one_shot.insert()
    assert len(list(sh.TableEntry("select_table").read())) == 1
    one_shot.delete()

    multicast = sh.MulticastGroupEntry(1)
    multicast.add(1, 1).add(2, 2)
    multicast.insert()
    assert len(list(sh.MulticastGroupEntry().read())) == 1
    multicast.delete()

    clone = sh.CloneSessionEntry(10)
    clone.add(1, 1).add(2, 2)
    clone.insert()
    clone.delete()

    digest = sh.DigestEntry("learned_t")
    digest.ack_timeout_ns = 10
    digest.max_timeout_ns = 10
    digest.max_list_size = 100
    digest.insert()
    digest.delete()

    out = sh.PacketOut(b"\xaa" * 60, egress_port="1", pad="0")
    out.send()
    print("all done")
finally:
    # Its stream thread would keep a failed script alive.
    sh.teardown()
