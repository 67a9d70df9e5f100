//! What is exported: read by Python where there is one, and by eye.

use super::*;
use crate::{GraphStyle, Topology, graph};
use barewire_testing::{Needs, skip};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const LAB: &str = r#"
name = "mixed"
seed = 9
[[switch]]
name = "s1"
kind = "bridge"
[[switch]]
name = "s2"
kind = "barewire"
program = "p.p4"
entries = "e.txt"
port = "xdp"
arguments = ["--cpu-port", "it's 9"]
[[host]]
name = "h1"
addresses = ["10.0.0.1/24"]
[[host]]
name = "r"
forwarding = true
interface = [{ name = "eth0", addresses = ["10.0.0.254/24"] }, { name = "up", addresses = ["fd00::1/64"] }]
[[link]]
ends = ["h1", "s1"]
[[link]]
ends = ["r", "s1"]
mtu_bytes = 1400
queues = 2
tx_queue_frames = 77
offloads = { rx = true, gro = true }
[[link]]
ends = ["r:up", "s2:5"]
name = "wan"
[link.forward]
delay_us = 1500
loss = 0.015
[link.reverse]
rate_bps = 1000000
"#;

fn topology() -> Topology {
    Topology::parse(LAB, "mixed.toml", Path::new("")).unwrap()
}

#[test]
fn graphs_show_nodes_links_and_what_frames_suffer() {
    let dot = graph(&topology(), GraphStyle::Dot);
    assert_eq!(
        dot,
        "graph \"mixed\" {\n  node [shape=box];\n  \"h1\" [label=\"h1\\n10.0.0.1/24\"];\n  \"r\" \
         [label=\"r\\n10.0.0.254/24\\nfd00::1/64\"];\n  \"s1\" [label=\"s1\\nbridge\", shape=ellipse];\n  \"s2\" \
         [label=\"s2\\np\", shape=ellipse];\n  \"h1\" -- \"s1\" [taillabel=\"eth0\", headlabel=\"p1\", label=\"\"];\n  \
         \"r\" -- \"s1\" [taillabel=\"eth0\", headlabel=\"p2\", label=\"\"];\n  \"r\" -- \"s2\" [taillabel=\"up\", \
         headlabel=\"p5\", label=\"→ 1.50 ms, loss 1.5 %\\n← 1000000 bit/s, queue 1024\"];\n}\n"
    );
    let mermaid = graph(&topology(), GraphStyle::Mermaid);
    assert_eq!(
        mermaid,
        "graph LR\n  h0[\"h1<br/>10.0.0.1/24\"]\n  h1[\"r<br/>10.0.0.254/24<br/>fd00::1/64\"]\n  \
         s0([\"s1<br/>bridge\"])\n  s1([\"s2<br/>p\"])\n  h0 --- s0\n  h1 --- s0\n  h1 ---|\"→ 1.50 ms, loss 1.5 %<br/>← \
         1000000 bit/s, queue 1024\"| s1\n"
    );
}

#[test]
fn containerlab_gets_a_container_in_the_middle_of_an_impaired_link() {
    let Exported { files, notes } = export_containerlab(&topology(), "registry/barewire:1").unwrap();
    assert_eq!(
        notes,
        ["link r-s1: containerlab makes its interfaces, so they have its number of queues and not 2"]
    );
    let names: Vec<&str> = files.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["mixed.clab.yml", "link-wan.json"]);
    let yaml = &files[0].text;
    for line in [
        "name: \"mixed\"\n",
        "    image: \"registry/barewire:1\"\n",
        "    \"h1\":\n      cmd: \"sleep infinity\"\n      exec:\n",
        "        - \"ip address add 10.0.0.1/24 dev eth0\"\n",
        "        - \"sysctl -q -w net.ipv4.ip_forward=1\"\n",
        "        - \"ip link set dev p2 master br0\"\n",
        "        - \"ip link set dev p2 address 02:78:00:01:00:02\"\n        - \"ip link set dev p2 mtu 1400 txqueuelen 77\"\n        \
         - \"ethtool -K p2 rx on tx off sg off tso off gso off gro on rxvlan off txvlan off\"\n",
        "        - \"ip link set dev a mtu 1500\"\n        - \"ethtool -K a rx off",
        "        - \"p.p4:/barewire/program.p4:ro\"\n",
        "        - \"link-wan.json:/barewire/link.json:ro\"\n",
        "    - endpoints: [\"r:eth0\", \"s1:p2\"]\n      mtu: 1400\n",
        "    - endpoints: [\"r:up\", \"link-wan:a\"]\n",
        "    - endpoints: [\"link-wan:b\", \"s2:p5\"]\n",
    ] {
        assert!(yaml.contains(line), "{line}\n{yaml}");
    }
    // Quoted for the shell inside the shell's word, and that for YAML.
    let run =
        yaml.lines().find(|line| line.contains("switch run")).unwrap().trim().strip_prefix("- ").unwrap();
    let run: String = serde_json::from_str(run).unwrap();
    let split = "import json, shlex, sys; print(json.dumps(shlex.split(shlex.split(sys.argv[1])[2])))";
    if let Some(said) = python(Path::new("."), &["-c", split, &run]) {
        let words: Vec<String> = serde_json::from_str(&said).unwrap();
        let expected = [
            "barewire",
            "switch",
            "run",
            "/barewire/program.p4",
            "-i",
            "5@xdp:p5",
            "--cpu-port",
            "it's 9",
            ">/tmp/barewire.log",
            "2>&1",
            "&",
        ];
        assert_eq!(words, expected);
    }
    let config = crate::LinkNodeConfig::from_json(&files[1].text).unwrap();
    assert!(config.b.starts_with("fault+packet:b?") && config.b.contains("delay_us=1500"), "{config:?}");
    assert!(config.a.starts_with("fault+packet:a?") && config.a.contains("rate_bps=1000000"), "{config:?}");
    let taken = LAB.replace("name = \"h1\"", "name = \"link-wan\"").replace("[\"h1\",", "[\"link-wan\",");
    let taken = Topology::parse(&taken, "x", Path::new("")).unwrap();
    assert!(export_containerlab(&taken, "i").unwrap_err().to_string().contains("name of a host or switch"));
}

/// As much of Mininet as a topology and our classes touch, and what it was told.
const FAKE_MININET: &[(&str, &str)] = &[
    ("__init__.py", ""),
    ("cli.py", "class CLI: pass\n"),
    ("log.py", "def info(*a): pass\ndef setLogLevel(*a): pass\n"),
    ("net.py", "class Mininet: pass\n"),
    (
        "nodelib.py",
        "from mininet.node import Switch\nclass LinuxBridge(Switch):\n    def start(self, controllers):\n        \
         self.ran.append('started')\n",
    ),
    (
        "node.py",
        r#"
import subprocess
class Node:
    def __init__(self, name, **kw):
        self.name, self.kw, self.intfs, self.ran, self.popened = name, kw, {}, [], []
    def cmd(self, text):
        self.ran.append(text)
        return ""
    def config(self, **kw):
        return kw
    def intfNames(self):
        return [intf.name for intf in self.intfs.values()]
    def popen(self, argv, **kw):
        self.popened.append(subprocess.Popen(argv, **kw))
        return self.popened[-1]
class Host(Node): pass
class Switch(Node):
    def stop(self, deleteIntfs=True): pass
"#,
    ),
    (
        "topo.py",
        "class Topo:\n    def __init__(self):\n        self.nodes, self.links = {}, []\n        self.build()\n    def \
         addHost(self, name, cls=None, **kw):\n        self.nodes[name] = (cls, kw)\n    addSwitch = addHost\n    def \
         addLink(self, a, b, port1, port2):\n        assert a in self.nodes and b in self.nodes\n        self.links.append([a, \
         port1, b, port2])\n",
    ),
];

const CHECK: &str = r#"
import json, time, mixed_topo
import barewire_mininet as bw
lab = mixed_topo.topos["mixed"]()
made = {name: cls(name, **kw) for name, (cls, kw) in lab.nodes.items() if cls.__module__ == "barewire_mininet" and cls is not bw.BarewireHost}
class Intf:
    def __init__(self, name): self.name = name
made["s2"].intfs = {0: Intf("lo"), 5: Intf("s2-eth5")}
made["lk3"].intfs = {0: Intf("lo"), 1: Intf("lk3-eth1"), 2: Intf("lk3-eth2")}
host = bw.BarewireHost("r")
host.config(commands=lab.nodes["r"][1]["commands"])
node = made["lk3"]
node.log_file = "lk3.log"
node.path = "./node.sh"
node.start([])
assert node.process.poll() is None
assert "ip link set dev lk3-eth2 mtu 1500" in node.ran, node.ran
process = node.process
node.stop()
assert process.poll() is not None and node.process is None
node.path = "./bad.sh"
try:
    node.start([])
    raise SystemExit("a node that ends at once was taken for a good one")
except bw.BarewireError as error:
    assert "no such verb" in str(error), error
bridge = made["s1"]
bridge.intfs = {1: Intf("s1-eth1"), 2: Intf("s1-eth2")}
bridge.start([])
assert bridge.ran.index("ip link set dev s1-eth2 mtu 1400 txqueuelen 77") < bridge.ran.index("started"), bridge.ran
assert bridge.ran[-1] == "ip link set dev s1 type bridge mcast_snooping 0", bridge.ran
# What never gets ready is given up by the clock, and ended.
bw.START_WAIT_S = 0.5
node.path = "./hang.sh"
switch = made["s2"]
argv = switch.command_line()
switch.log_file, switch.sw_path, switch.cli_path = "s2.log", "./hang.sh", "./hang.sh"
for late in node, switch:
    before = time.monotonic()
    try:
        late.start([])
        raise SystemExit("%s was taken for one that works" % late.name)
    except bw.BarewireError as error:
        assert "within" in str(error), error
    assert 0.5 <= time.monotonic() - before < 60
    assert late.process is None and all(process.poll() is not None for process in late.popened), late.name
# Commands that are refused end the switch, too. They are run before the time is up, on a busy machine as well.
bw.START_WAIT_S = 60
switch.cli_path = "./cli.sh"
try:
    switch.start([])
    raise SystemExit("commands that were refused were taken for done")
except bw.BarewireError as error:
    assert "were refused" in str(error), error
assert switch.process is None and all(process.poll() is not None for process in switch.popened)
print(json.dumps({"links": lab.links, "argv": argv, "config": made["lk3"].configuration(),
                  "classes": {n: c.__name__ for n, (c, _) in lab.nodes.items()}, "said": host.ran}))
"#;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("barewire-lab-{name}-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("mininet")).unwrap();
    folder
}

fn python(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("python3").args(arguments).current_dir(folder).output();
    let Ok(output) = output else {
        skip(Needs::Tools, "there is no python3");
        return None;
    };
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn mininet_gets_a_script_that_python_runs() {
    let Exported { files, notes } = export_mininet(&topology()).unwrap();
    assert_eq!(
        notes,
        ["link r-s1: Mininet makes its interfaces, so they have its number of queues and not 2"]
    );
    let folder = folder("mininet");
    for file in &files {
        std::fs::write(folder.join(&file.name), &file.text).unwrap();
        python(&folder, &["-m", "py_compile", &file.name]);
    }
    for (name, text) in FAKE_MININET {
        std::fs::write(folder.join("mininet").join(name), text).unwrap();
    }
    // Programs in the place of `barewire`: one that is ready, when it has its configuration, and one that is not.
    let ready = format!(
        "#!/bin/sh\ntest \"$1 $2\" = 'lab link-node' || exit 1\ncat >config.json\necho\necho '{}'\nexec sleep 30\n",
        crate::READY_LINE
    );
    for (name, text) in [
        ("node.sh", ready.as_str()),
        ("bad.sh", "#!/bin/sh\ncat >config.json\necho no such verb >&2\n"),
        ("hang.sh", "#!/bin/sh\nexec sleep 30\n"),
        ("cli.sh", "#!/bin/sh\ntest \"$5\" != --stop-at-failure\n"),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    if let Some(said) = python(&folder, &["-c", CHECK]) {
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let links = serde_json::json!([
            ["h1", 0, "s1", 1],
            ["r", 0, "s1", 2],
            ["r", 1, "lk3", 1],
            ["lk3", 2, "s2", 5]
        ]);
        assert_eq!(said["links"], links);
        let argv = serde_json::json!([
            "barewire",
            "switch",
            "run",
            "-i",
            "5@xdp:s2-eth5",
            "--thrift-port",
            "9090",
            "--cpu-port",
            "it's 9",
            "p.p4"
        ]);
        assert_eq!(said["argv"], argv);
        let classes = serde_json::json!({"h1": "BarewireHost", "r": "BarewireHost", "s1": "BarewireBridge",
            "s2": "BarewireSwitch", "lk3": "BarewireLinkNode"});
        assert_eq!(said["classes"], classes);
        // The node's own reader takes what Python writes.
        let config = crate::LinkNodeConfig::from_json(&said["config"].to_string()).unwrap();
        assert!(
            config.a.starts_with("fault+packet:lk3-eth1?") && config.b.contains(":lk3-eth2?"),
            "{config:?}"
        );
        assert!(
            said["said"].as_array().unwrap().contains(&"ip address add fd00::1/64 dev r-eth1 nodad".into())
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let long = LAB.replace("\"h1\"", "\"a-host-with-a-name\"");
    let long = Topology::parse(&long, "x", Path::new("")).unwrap();
    assert!(export_mininet(&long).unwrap_err().to_string().contains("longer than 15 bytes"));
}

#[test]
fn what_a_lab_needs_to_work_is_in_both() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs/topologies/switch-router.toml");
    let topology = Topology::read(&file).unwrap();
    let clab = export_containerlab(&topology, IMAGE_DEFAULT).unwrap();
    let mininet = export_mininet(&topology).unwrap();
    assert_eq!((clab.notes, mininet.notes), (vec![], vec![]));
    let (yaml, script) = (&clab.files[0].text, &mininet.files[0].text);
    assert!(yaml.contains("image: \"barewire-lab:latest\""), "{yaml}");
    let off = "rx off tx off sg off tso off gso off gro off rxvlan off txvlan off";
    // Nobody answers ARP there: without the neighbours no frame is ever sent.
    for (text, names, quiet) in [
        (yaml, ["eth0", "eth0", "p1", "p2"], ""),
        (script, ["h1-eth0", "h2-eth0", "s1-eth1", "s1-eth2"], " >/dev/null"),
    ] {
        let [h1, h2, s1, s2] = names;
        for command in [
            format!("ip neigh replace 10.0.1.10 lladdr 00:04:00:00:00:01 dev {h1} nud permanent"),
            format!("ip neigh replace 10.0.0.10 lladdr 00:04:00:00:00:00 dev {h2} nud permanent"),
            format!("ip link set dev {s1} mtu 1500"),
            format!("ethtool -K {h1} {off}{quiet}"),
            format!("ethtool -K {s1} {off}{quiet}"),
            format!("ethtool -K {s2} {off}{quiet}"),
        ] {
            assert!(text.contains(&format!("\"{command}\"")), "{command}\n{text}");
        }
    }
    assert!(yaml.contains("1@packet:p1?promiscuous=1&tx=0"), "{yaml}");
    assert!(script.contains("port=\"packet:%s?promiscuous=1&tx=0\""), "{script}");
}
