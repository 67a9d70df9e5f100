//! For containerlab: a topology file, and a configuration for each link node.
//!
//! A link on which frames suffer something becomes two links with a container between them that runs our link node; a
//! bridge becomes a container with a bridge in it, so that nothing has to be there beforehand. No node has a management
//! network: its links are those of the topology.

use super::{ExportFile, Exported, host_commands, interface_commands, literal, notes, subnets};
use crate::LabError;
use crate::lab::{node_config, switch_port};
use crate::topology::{LinkPlan, Node, SwitchKind, SwitchPlan, Topology};
use std::fmt::Write as _;

/// Where files are inside a container.
const FOLDER: &str = "/barewire";

/// Writes `NAME.clab.yml` and what it needs. `image` is the container image of all nodes: it has the `barewire` binary in its
/// path, iproute2, ethtool and a shell ([`IMAGE_DEFAULT`](super::IMAGE_DEFAULT)).
///
/// # Errors
/// [`LabError::BadName`] when a link node's name is that of another node.
pub fn export_containerlab(topology: &Topology, image: &str) -> Result<Exported, LabError> {
    let mut out = Out { yaml: String::new(), files: Vec::new() };
    let mut notes = notes(topology, "containerlab");
    let subnets = subnets(topology);
    let head = format!("# Written by barewire from {}.\n", topology.file.replace(char::is_control, "_"));
    out.yaml.push_str(&head);
    out.line(0, &format!("name: {}", literal(&topology.name)));
    out.line(0, "topology:");
    out.line(1, "defaults:");
    out.line(2, "kind: linux");
    out.line(2, &format!("image: {}", literal(image)));
    out.line(2, "network-mode: none");
    out.line(1, "nodes:");
    for (at, host) in topology.hosts.iter().enumerate() {
        let name = |i: usize| host.interfaces[i].name.clone();
        let commands = host_commands(topology, at, subnets.as_ref(), "", name);
        out.node(&host.name, &[], &commands);
    }
    for (i, switch) in topology.switches.iter().enumerate() {
        out.switch(topology, i, switch);
    }
    let mut links = String::new();
    for link in &topology.links {
        let [a, b] =
            link.ends.each_ref().map(|end| format!("{}:{}", topology.node_name(end.node), end.interface));
        let mut wire = |a: &str, b: &str| {
            let _ = writeln!(links, "    - endpoints: [{}, {}]", literal(a), literal(b));
            let _ = writeln!(links, "      mtu: {}", link.mtu);
        };
        if !link.is_impaired() {
            wire(&a, &b);
            continue;
        }
        let node = format!("link-{}", link.name);
        if topology.nodes_named(&node) {
            return Err(LabError::BadName {
                what: "link node",
                name: node,
                why: "is the name of a host or switch, too; give the link another name",
            });
        }
        if link.trace.is_some() {
            notes.push(format!("link {}: its trace is written inside {node}, as /tmp/trace", link.name));
        }
        out.link(link, &node);
        wire(&a, &format!("{node}:a"));
        wire(&format!("{node}:b"), &b);
    }
    if !links.is_empty() {
        out.line(1, "links:");
        out.yaml.push_str(&links);
    }
    out.files.insert(0, ExportFile { name: format!("{}.clab.yml", topology.name), text: out.yaml });
    Ok(Exported { files: out.files, notes })
}

/// Keeps the kernel from speaking on an interface by itself.
fn silence(interface: &str) -> String {
    format!("sysctl -q -w net.ipv6.conf.{interface}.disable_ipv6=1")
}

/// A command that goes on when its shell has ended.
fn background(command: &str) -> String {
    format!("sh -c {}", shell_quoted(&format!("{command} >/tmp/barewire.log 2>&1 &")))
}

fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

struct Out {
    yaml: String,
    files: Vec<ExportFile>,
}

impl Out {
    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.yaml, "{:width$}{text}", "", width = 2 * depth);
    }

    fn node(&mut self, name: &str, binds: &[String], commands: &[String]) {
        self.line(2, &format!("{}:", literal(name)));
        self.line(3, "cmd: \"sleep infinity\"");
        for (key, values) in [("binds", binds), ("exec", commands)] {
            if !values.is_empty() {
                self.line(3, &format!("{key}:"));
                for value in values {
                    self.line(4, &format!("- {}", literal(value)));
                }
            }
        }
    }

    /// The node of a switch: a bridge, or `barewire switch run`.
    fn switch(&mut self, topology: &Topology, i: usize, switch: &SwitchPlan) {
        let ends: Vec<_> = topology.ends_of(Node::Switch(i)).map(|(_, end)| end).collect();
        let mut commands = Vec::new();
        for (link, end) in topology.ends_of(Node::Switch(i)) {
            commands.push(silence(&end.interface));
            commands.extend(interface_commands(link, Some(end.mac), &end.interface, ""));
        }
        let mut binds = Vec::new();
        match &switch.kind {
            SwitchKind::Bridge => {
                commands.push("ip link add br0 type bridge mcast_snooping 0".into());
                commands
                    .extend(ends.iter().map(|end| format!("ip link set dev {} master br0", end.interface)));
                commands.push("ip link set dev br0 up".into());
            }
            SwitchKind::Barewire { program, entries, port, arguments } => {
                // Its ending tells the switch what it is.
                let ending = program.extension().and_then(|e| e.to_str()).unwrap_or("json");
                binds.push(format!("{}:{FOLDER}/program.{ending}:ro", program.display()));
                let mut run = format!("barewire switch run {FOLDER}/program.{ending}");
                for end in &ends {
                    let port = format!("{}@{}", end.port, switch_port(*port, &end.interface));
                    let _ = write!(run, " -i {}", shell_quoted(&port));
                }
                for argument in arguments {
                    let _ = write!(run, " {}", shell_quoted(argument));
                }
                commands.push(background(&run));
                if let Some(entries) = entries {
                    binds.push(format!("{}:{FOLDER}/entries.txt:ro", entries.display()));
                    // The switch compiles its program first.
                    let fill = format!("barewire switch cli --stop-at-failure {FOLDER}/entries.txt");
                    let wait = "for i in $(seq 300); do barewire switch cli </dev/null >/dev/null 2>&1 && break; sleep 0.1; done";
                    commands.push(format!("sh -c {}", shell_quoted(&format!("{wait}; {fill}"))));
                }
            }
        }
        self.node(&switch.name, &binds, &commands);
    }

    /// The node `node` of an impaired link: frames come in at one of its interfaces and leave by the other.
    fn link(&mut self, link: &LinkPlan, node: &str) {
        let file = format!("{node}.json");
        let mut config = node_config(link, None);
        // A path of this machine is none of the container's.
        if link.trace.is_some() {
            config.trace = Some("/tmp/trace".into());
        }
        config.wait_ms = 10_000;
        self.files.push(ExportFile { name: file.clone(), text: config.to_json() + "\n" });
        let mut commands = Vec::new();
        for name in ["a", "b"] {
            commands.push(silence(name));
            commands.extend(interface_commands(link, None, name, ""));
        }
        commands.push(background(&format!("barewire lab link-node <{FOLDER}/link.json")));
        self.node(node, &[format!("{file}:{FOLDER}/link.json:ro")], &commands);
    }
}
