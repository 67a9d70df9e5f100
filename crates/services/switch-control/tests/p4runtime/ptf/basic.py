"""Packets through the switch, entries through P4Runtime: a test that ptf runs."""
import p4runtime_sh.shell as sh
import ptf
import ptf.testutils as tu
from ptf.base_tests import BaseTest


class Switch(BaseTest):
    """The program pushed, a primary connected."""

    def setUp(self):
        BaseTest.setUp(self)
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        params = tu.test_params_get()
        data = params["data"]
        config = sh.FwdPipeConfig(data + "/control.p4info.txtpb", data + "/control.json")
        sh.setup(device_id=params["device"], grpc_addr=params["address"], election_id=(0, 1), config=config)

    def tearDown(self):
        sh.teardown()
        BaseTest.tearDown(self)

    def insert(self, table, action, args, priority=None, **matches):
        entry = sh.TableEntry(table)(action=action)
        for name, value in matches.items():
            entry.match[name.replace("__", ".")] = value
        for name, value in args.items():
            entry.action[name] = value
        if priority is not None:
            entry.priority = priority
        entry.insert()
        return entry


class Forward(Switch):
    """An exact entry forwards, a miss does not."""

    def runTest(self):
        packet = tu.simple_tcp_packet(eth_dst="02:00:00:00:00:01")
        tu.send_packet(self, 1, packet)
        tu.verify_no_other_packets(self)
        entry = self.insert(
            "exact_table", "counted_forward", {"port": "2"}, hdr__ethernet__dst="02:00:00:00:00:01"
        )
        tu.send_packet(self, 1, packet)
        tu.verify_packet(self, packet, 2)
        tu.verify_no_other_packets(self)
        counter = sh.DirectCounterEntry("forward_counter")
        counter.table_entry.match["hdr.ethernet.dst"] = "02:00:00:00:00:01"
        assert next(counter.read()).packet_count == 1
        entry.action["port"] = "3"
        entry.modify()
        tu.send_packet(self, 1, packet)
        tu.verify_packet(self, packet, 3)
        entry.delete()
        tu.send_packet(self, 1, packet)
        tu.verify_no_other_packets(self)


class Priority(Switch):
    """Of two entries that match, the one with the larger priority counts."""

    def runTest(self):
        self.insert("ternary_table", "forward", {"port": "2"}, 1, hdr__ethernet__ether_type="0x700..0x8ff")
        self.insert("ternary_table", "forward", {"port": "3"}, 2, hdr__ethernet__dst="02:00:00:00:00:07")
        seven = tu.simple_tcp_packet(eth_dst="02:00:00:00:00:07")
        eight = tu.simple_tcp_packet(eth_dst="02:00:00:00:00:08")
        tu.send_packet(self, 1, seven)
        tu.verify_packet(self, seven, 3)
        tu.send_packet(self, 1, eight)
        tu.verify_packet(self, eight, 2)
        tu.verify_no_other_packets(self)


class Multicast(Switch):
    """A group's replicas go out of their ports."""

    def runTest(self):
        group = sh.MulticastGroupEntry(4)
        group.add(2, 1).add(3, 2)
        group.insert()
        self.insert(
            "lpm_table",
            "flood",
            {"group": "4"},
            hdr__ethernet__src="06:00:00:00:00:00/8",
            sm__ingress_port="1",
        )
        packet = tu.simple_tcp_packet(eth_src="06:00:00:00:00:09")
        tu.send_packet(self, 1, packet)
        tu.verify_packets(self, packet, [2, 3])


class PacketIo(Switch):
    """Packets to the controller and from it."""

    def runTest(self):
        self.insert("lpm_table", "to_cpu", {}, sm__ingress_port="3")
        packet_in = sh.PacketIn()
        packet = tu.simple_tcp_packet(eth_dst="02:00:00:00:00:05")
        tu.send_packet(self, 3, packet)
        got = list(packet_in.sniff(timeout=2))
        assert [message.packet.payload for message in got] == [bytes(packet)], got
        metadata = {field.metadata_id: field.value for field in got[0].packet.metadata}
        assert metadata == {1: b"\x03", 2: b"\x00"}, metadata
        sh.PacketOut(bytes(packet), egress_port="2", pad="0").send()
        tu.verify_packet(self, packet, 2)
