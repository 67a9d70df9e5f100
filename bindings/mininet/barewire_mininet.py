"""barewire in Mininet: a P4 switch, a link with seeded impairments, a host with commands.

BarewireSwitch takes the arguments of the usual bmv2 switch classes (sw_path, json_path, thrift_port), so a lab that has one
needs no other change than the class:

    from barewire_mininet import BarewireSwitch
    topo.addSwitch("s1", cls=BarewireSwitch, json_path="simple_router.p4", commands="s1.txt")

The programs `barewire` and `barewire-simple-switch` (a link to the first) must be in the path. Mininet 2.3, Python 3.6.
"""

import json
import os
import select
import subprocess
import time

from mininet.cli import CLI
from mininet.log import info, setLogLevel
from mininet.net import Mininet
from mininet.node import Host, Switch
from mininet.nodelib import LinuxBridge

# How long a program may take until it forwards, in seconds.
START_WAIT_S = 30
# Between two looks whether it does, in seconds.
LOOK_S = 0.1
# The line that a link node prints when frames pass.
READY_LINE = "barewire link node: ready"


class BarewireError(Exception):
    """A program did not start; the text says what it said."""


def _stop(process):
    """End a process: ask, then kill."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _set_up(node, commands):
    """Run commands in a node; each must be silent."""
    for command in commands:
        said = node.cmd(command).strip()
        if said:
            raise BarewireError("%s: %s: %s" % (node.name, command, said))


def _disable_ipv6(node):
    """Keep the kernel from speaking on the interfaces by itself: a seed replays only with the same frames."""
    for intf in node.intfNames():
        if intf != "lo":
            node.cmd("sysctl -q -w net.ipv6.conf.%s.disable_ipv6=1" % intf.replace(".", "/"))


class BarewireSwitch(Switch):
    """A P4 switch of barewire, with the command line of bmv2's simple_switch, or with that of `barewire switch run`.

    arguments are added to the first; with run_arguments it is the second, and they are added to that.
    """

    next_thrift_port = 9090

    def __init__(self, name, sw_path="barewire-simple-switch", json_path=None, thrift_port=None,
                 commands=None, cli_path="barewire", pcap_dump=None, arguments=(), log_file=None, port="%s",
                 setup=(), run_arguments=(), **kwargs):
        kwargs.setdefault("dpid", None)
        Switch.__init__(self, name, **kwargs)
        if json_path is None:
            raise BarewireError("%s: json_path is missing: the program, P4-16 source or bmv2 JSON" % name)
        self.sw_path = sw_path
        self.json_path = json_path
        self.commands = commands
        self.cli_path = cli_path
        self.pcap_dump = pcap_dump
        self.arguments = list(arguments)
        self.run_arguments = list(run_arguments)
        if self.arguments and self.run_arguments:
            raise BarewireError("%s: arguments are simple_switch's, run_arguments those of `barewire switch run`: one of them"
                                % name)
        # How it takes its frames: a port's URI with %s for the interface; a name alone is the port that suits best.
        self.port = port
        # What its interfaces need, run before it starts.
        self.setup = list(setup)
        self.log_file = log_file or "/tmp/barewire-%s.log" % name
        self.process = None
        if thrift_port is None:
            thrift_port = BarewireSwitch.next_thrift_port
            BarewireSwitch.next_thrift_port += 1
        self.thrift_port = thrift_port

    def command_line(self):
        """The program and its arguments: every interface but lo, by its Mininet port number."""
        argv = [self.cli_path, "switch", "run"] if self.run_arguments else [self.sw_path]
        for port, intf in sorted(self.intfs.items()):
            if intf.name != "lo":
                argv += ["-i", "%d@%s" % (port, self.port % intf.name)]
        argv += ["--thrift-port", str(self.thrift_port)]
        if self.pcap_dump:
            argv += ["--pcap=%s" % self.pcap_dump]
        return argv + self.arguments + self.run_arguments + [self.json_path]

    def start(self, controllers):
        """Start the switch, wait until it forwards, fill its tables."""
        info("%s:%d " % (self.name, self.thrift_port))
        _disable_ipv6(self)
        _set_up(self, self.setup)
        deadline = time.monotonic() + START_WAIT_S
        with open(self.log_file, "wb") as log:
            self.process = self.popen(self.command_line(), stdin=subprocess.DEVNULL, stdout=log,
                                      stderr=subprocess.STDOUT)
        try:
            # Thrift answers for a switch that forwards.
            while self._cli([], deadline) != 0:
                if self.process.poll() is not None:
                    raise BarewireError("%s ended: %s" % (self.name, self.said()))
                if time.monotonic() >= deadline:
                    raise BarewireError("%s does not answer on Thrift port %d within %d s"
                                        % (self.name, self.thrift_port, START_WAIT_S))
                time.sleep(LOOK_S)
            if self.commands and self._cli(["--stop-at-failure", self.commands]) != 0:
                raise BarewireError("%s: commands in %s were refused" % (self.name, self.commands))
        except BaseException:
            # Nobody else knows of it yet; also when it is the user who wants no more.
            _stop(self.process)
            self.process = None
            raise

    def _cli(self, arguments, deadline=None):
        """The exit code of a call; None when it took until the deadline."""
        argv = [self.cli_path, "switch", "cli", "--thrift-port", str(self.thrift_port)] + arguments
        process = self.popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        try:
            return process.wait(None if deadline is None else max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        finally:
            _stop(process)

    def said(self):
        """The end of what the switch has to say."""
        with open(self.log_file, "rb") as log:
            return log.read()[-2000:].decode("utf-8", "replace")

    def stop(self, deleteIntfs=True):
        """End the switch."""
        _stop(self.process)
        self.process = None
        Switch.stop(self, deleteIntfs)


class BarewireLinkNode(Switch):
    """What frames suffer on a link, as a node in its middle. `link` is a link node's configuration (a dict), with `a` and
    `b` for the interfaces of its first and second link."""

    def __init__(self, name, link=None, path="barewire", log_file=None, setup=(), **kwargs):
        kwargs["inNamespace"] = True
        Switch.__init__(self, name, **kwargs)
        if link is None:
            raise BarewireError("%s: link is missing: the configuration" % name)
        self.link_config = dict(link)
        self.path = path
        # What its interfaces need, run before it starts.
        self.setup = list(setup)
        self.log_file = log_file or "/tmp/barewire-%s.log" % name
        self.process = None

    def configuration(self):
        """The configuration with the interfaces that Mininet has made."""
        names = [intf.name for _, intf in sorted(self.intfs.items()) if intf.name != "lo"]
        if len(names) != 2:
            raise BarewireError("%s: a link node stands between two, not %d" % (self.name, len(names)))
        config = dict(self.link_config)
        for end, name in zip("ab", names):
            before, colon, rest = config[end].partition(":%s" % end)
            if not colon:
                raise BarewireError("%s: %r names no interface %s" % (self.name, config[end], end))
            config[end] = "%s:%s%s" % (before, name, rest)
        return config

    def start(self, controllers):
        """Start the node and wait until frames pass."""
        _disable_ipv6(self)
        _set_up(self, self.setup)
        configuration = json.dumps(self.configuration()).encode()
        with open(self.log_file, "wb") as log:
            self.process = self.popen([self.path, "lab", "link-node"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=log)
        try:
            self._await(configuration)
        except BaseException:
            # Nobody else knows of it yet; also when it is the user who wants no more.
            _stop(self.process)
            self.process = None
            raise

    def _await(self, configuration):
        """Hand over the configuration, and read until the node says that it is ready."""
        deadline = time.monotonic() + START_WAIT_S
        try:
            self.process.stdin.write(configuration)
            self.process.stdin.close()
        except BrokenPipeError:
            # It ended: below is told with which words.
            pass
        said = b""
        while True:
            # Not by lines: a node that says nothing would be waited for without an end.
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise BarewireError("%s did not start within %d s: %s" % (self.name, START_WAIT_S, self.said()))
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                self.process.wait()
                raise BarewireError("%s did not start: %s" % (self.name, self.said()))
            said += part
            if READY_LINE.encode() in (line.strip() for line in said.split(b"\n")[:-1]):
                return

    def said(self):
        """The end of what the node has to say."""
        with open(self.log_file, "rb") as log:
            return log.read()[-2000:].decode("utf-8", "replace")

    def stop(self, deleteIntfs=True):
        """End the node."""
        _stop(self.process)
        self.process = None
        Switch.stop(self, deleteIntfs)


class BarewireBridge(LinuxBridge):
    """The kernel's bridge, without multicast snooping, with interfaces as a lab has them."""

    def __init__(self, name, setup=(), **kwargs):
        LinuxBridge.__init__(self, name, **kwargs)
        # What its interfaces need, run before it starts.
        self.setup = list(setup)

    def start(self, controllers):
        """Start the bridge."""
        _disable_ipv6(self)
        _set_up(self, self.setup)
        LinuxBridge.start(self, controllers)
        _set_up(self, ["ip link set dev %s type bridge mcast_snooping 0" % self.name])


class BarewireHost(Host):
    """A host that runs commands when its links are there."""

    def config(self, commands=(), **params):
        """Configure as Mininet does, then run the commands; each must be silent."""
        result = Host.config(self, **params)
        _set_up(self, commands)
        return result


def run(topo):
    """Start a topology, hand over to Mininet's command line, stop it."""
    setLogLevel("info")
    net = Mininet(topo=topo, controller=None)
    try:
        net.start()
        CLI(net)
    finally:
        net.stop()
