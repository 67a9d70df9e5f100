"""A router of barewire in the kernel between two hosts of Mininet: streams, a link down and up, the switch again.

Arguments: the folder of barewire_mininet.py, the binary, the program, a folder for files; then perhaps a folder with p4lang's own
p4_mininet.py, whose classes are used in place of ours, with a link to the binary for a program.
"""

import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[1])
BAREWIRE, PROGRAM, FOLDER = sys.argv[2:5]
P4LANG = sys.argv[5] if len(sys.argv) > 5 else None

if P4LANG:
    sys.path.insert(0, P4LANG)
    from p4_mininet import P4Host, P4Switch
else:
    from barewire_mininet import BarewireHost, BarewireSwitch
from mininet.net import Mininet
from mininet.topo import Topo

COMMANDS = os.path.join(FOLDER, "s1.txt")
PATIENCE_S = 60
SERVER = """
import socket
s = socket.create_server(("10.0.1.10", 5001))
print("listening", flush=True)
c, _ = s.accept()
total = 0
while True:
    part = c.recv(65536)
    if not part:
        break
    total += len(part)
c.sendall(total.to_bytes(8, "big"))
c.close()
"""
CLIENT = """
import socket, sys
want = int(sys.argv[1])
s = socket.create_connection(("10.0.1.10", 5001), timeout=10)
s.settimeout(60)
sent = 0
while sent < want:
    s.sendall(bytes(65536))
    sent += 65536
s.shutdown(socket.SHUT_WR)
got = int.from_bytes(s.recv(8), "big")
sys.exit(0 if got == sent else 1)
"""


def far_side(host):
    other = 1 - host
    # p4lang's class renames it.
    interface = "eth0" if P4LANG else "h%d-eth0" % (host + 1)
    return ["ip route add 10.0.%d.0/24 via 10.0.%d.1" % (other, host),
            "ip neigh replace 10.0.%d.1 lladdr 00:aa:bb:00:00:0%d dev %s" % (host, host, interface)]


class TwoHosts(Topo):
    def build(self):
        with open(COMMANDS, "w") as file:
            for host in range(2):
                file.write("table_add send_frame set_src_addr %d => 00:aa:bb:00:00:0%d\n" % (host + 1, host))
                file.write("table_add forward set_dst_addr 10.0.%d.10 => 00:04:00:00:00:0%d\n" % (host, host))
                file.write("table_add ipv4_lpm set_next_hop 10.0.%d.10/32 => 10.0.%d.10 %d\n" % (host, host, host + 1))
        if P4LANG:
            link = os.path.join(FOLDER, "simple_switch")
            os.symlink(BAREWIRE, link)
            switch = self.addSwitch("s1", cls=P4Switch, sw_path=link, json_path=PROGRAM, thrift_port=9090)
        else:
            switch = self.addSwitch("s1", cls=BarewireSwitch, json_path=PROGRAM, cli_path=BAREWIRE, commands=COMMANDS,
                                log_file=os.path.join(FOLDER, "s1.log"), run_arguments=["--engine", "kernel"])
        for host in range(2):
            node = self.addHost("h%d" % (host + 1), cls=P4Host if P4LANG else BarewireHost, ip="10.0.%d.10/24" % host,
                                mac="00:04:00:00:00:0%d" % host)
            self.addLink(node, switch)


def configure(net):
    for host in range(2):
        for command in far_side(host):
            said = net["h%d" % (host + 1)].cmd(command).strip()
            assert not said, "%s: %s" % (command, said)
    if P4LANG:
        filled = subprocess.run([BAREWIRE, "switch", "cli", "--thrift-port", "9090", "--stop-at-failure", COMMANDS])
        assert filled.returncode == 0, "the tables are not filled"


def stream(net, size):
    """Whether so many bytes go from the first host to the second."""
    server = net["h2"].popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
    try:
        assert server.stdout.readline().strip() == b"listening"
        client = net["h1"].popen([sys.executable, "-c", CLIENT, str(size)], stderr=subprocess.DEVNULL)
        return client.wait(PATIENCE_S) == 0
    finally:
        server.kill()
        server.wait()


def until(what, net, size=1 << 16):
    end = time.monotonic() + PATIENCE_S
    while not stream(net, size):
        assert time.monotonic() < end, what
    print("done: " + what, flush=True)


net = Mininet(topo=TwoHosts(), controller=None)
try:
    net.start()
    configure(net)
    # The first large segment moves it to tc.
    assert "xdp" in net["s1"].cmd("ip -d link show dev s1-eth1"), "the program is not in the kernel"
    until("a first stream", net)
    # The program has no ICMP of its own: pings are packets like others.
    if shutil.which("ping"):
        assert net.pingAll(timeout="5") == 0, "a ping is lost"
        print("done: pings", flush=True)
    assert stream(net, 32 << 20), "a long stream with the hosts' offloads as they are"
    print("done: a long stream", flush=True)
    net.configLinkStatus("h2", "s1", "down")
    assert not stream(net, 1), "nothing goes over a link that is down"
    net.configLinkStatus("h2", "s1", "up")
    net["h2"].cmd("ip route replace 10.0.1.0/24 dev h2-eth0")
    for command in far_side(1):
        net["h2"].cmd(command)
    until("a link down and up", net)
    # p4lang's class takes the interfaces away with the switch.
    if not P4LANG:
        net["s1"].stop(deleteIntfs=False)
        assert "xdp" not in net["s1"].cmd("ip -d link show dev s1-eth1"), "nothing is left of it"
        assert not stream(net, 1), "nothing goes without a switch"
        net["s1"].start([])
        until("the switch again", net)
finally:
    net.stop()
print("mininet: all well", flush=True)
