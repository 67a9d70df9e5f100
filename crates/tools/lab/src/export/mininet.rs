//! For Mininet: a script with the topology, and the module with our classes.

use super::{ExportFile, Exported, host_commands, interface_commands, literal, notes, subnets};
use crate::LabError;
use crate::lab::{node_config, switch_port};
use crate::topology::{End, LinkPlan, Node, SwitchKind, Topology};
use std::fmt::Write as _;

/// The module with the classes, as it stands beside other bindings; the file here is a link to it, so that the crate can be packaged.
const MODULE: &str = include_str!("barewire_mininet.py");
/// Behind a command that says what it did: Mininet's hosts take every word for a complaint.
const QUIET: &str = " >/dev/null";
/// Longest name of an interface.
const INTERFACE_MAX: usize = 15;

/// Writes `NAME_topo.py` and `barewire_mininet.py`: `sudo python3 NAME_topo.py` starts the lab. Interfaces have the names
/// that Mininet gives them, `HOST-ethN`.
///
/// # Errors
/// [`LabError::BadName`] for a node whose interfaces would have names longer than the kernel takes.
pub fn export_mininet(topology: &Topology) -> Result<Exported, LabError> {
    let mut body = String::new();
    // Writing to a String cannot fail.
    let subnets = subnets(topology);
    for (at, host) in topology.hosts.iter().enumerate() {
        for ordinal in 0..host.interfaces.len() {
            interface(&host.name, ordinal as u32)?;
        }
        let name = |ordinal: usize| format!("{}-eth{ordinal}", host.name);
        let commands = host_commands(topology, at, subnets.as_ref(), QUIET, name);
        let _ = writeln!(
            body,
            "        self.addHost({}, cls=BarewireHost, ip=None, commands={})",
            literal(&host.name),
            list(&commands)
        );
    }
    for (i, switch) in topology.switches.iter().enumerate() {
        let (name, dpid) = (literal(&switch.name), format!("\"{:016x}\"", i + 1));
        let mut setup = Vec::new();
        for (link, end) in topology.ends_of(Node::Switch(i)) {
            let interface = interface(&switch.name, end.port)?;
            setup.extend(interface_commands(link, Some(end.mac), &interface, QUIET));
        }
        match &switch.kind {
            SwitchKind::Bridge => {
                let setup = list(&setup);
                let _ = writeln!(
                    body,
                    "        self.addSwitch({name}, cls=BarewireBridge, dpid={dpid}, setup={setup})"
                );
            }
            SwitchKind::Barewire { program, entries, port, arguments } => {
                let arguments: Vec<String> = arguments.iter().map(|a| literal(a)).collect();
                let commands =
                    entries.as_ref().map_or("None".to_owned(), |e| literal(&e.display().to_string()));
                let _ = writeln!(
                    body,
                    "        self.addSwitch({name}, cls=BarewireSwitch, dpid={dpid}, json_path={}, commands={commands}, \
                     port={}, run_arguments=[{}], setup={})",
                    literal(&program.display().to_string()),
                    // Python puts the interface's name in.
                    literal(&switch_port(*port, "%s")),
                    arguments.join(", "),
                    list(&setup)
                );
            }
        }
    }
    let mut hosts_ports = vec![0u32; topology.hosts.len()];
    for (i, link) in topology.links.iter().enumerate() {
        let [a, b] = link
            .ends
            .each_ref()
            .map(|end| (literal(topology.node_name(end.node)), port(end, &mut hosts_ports)));
        if !link.is_impaired() {
            let _ = writeln!(body, "        self.addLink({}, {}, port1={}, port2={})", a.0, b.0, a.1, b.1);
        } else {
            let name = format!("lk{}", i + 1);
            if topology.nodes_named(&name) {
                return Err(LabError::BadName {
                    what: "link node",
                    name,
                    why: "is the name of a host or switch, too",
                });
            }
            let node = literal(&name);
            let mut setup = Vec::new();
            for port in [1, 2] {
                setup.extend(interface_commands(link, None, &interface(&name, port)?, QUIET));
            }
            let setup = list(&setup);
            let dpid = format!("\"{:016x}\"", 0x1_0000 + i);
            let config = python_dict(link);
            let _ = writeln!(
                body,
                "        self.addSwitch({node}, cls=BarewireLinkNode, dpid={dpid}, link={config}, setup={setup})"
            );
            let _ = writeln!(body, "        self.addLink({}, {node}, port1={}, port2=1)", a.0, a.1);
            let _ = writeln!(body, "        self.addLink({node}, {}, port1=2, port2={})", b.0, b.1);
        }
    }
    let file: String = topology.file.chars().filter(|c| !c.is_control() && *c != '"' && *c != '\\').collect();
    let script = format!(
        "#!/usr/bin/env python3\n\"\"\"Lab {name} for Mininet. Written by barewire from {file}.\"\"\"\n\n\
         from mininet.topo import Topo\n\n\
         from barewire_mininet import (BarewireBridge, BarewireHost, BarewireLinkNode, BarewireSwitch,  # noqa: F401\n                              \
         run)\n\n\n\
         class Lab(Topo):\n    \"\"\"Hosts, switches, links, and what frames suffer on them.\"\"\"\n\n    \
         def build(self, **_opts):\n        \"\"\"Called by Mininet.\"\"\"\n{body}\n\n\
         # For `mn --custom`.\ntopos = {{{key}: Lab}}\n\nif __name__ == \"__main__\":\n    run(Lab())\n",
        name = topology.name,
        key = literal(&topology.name),
    );
    let files = vec![
        ExportFile { name: format!("{}_topo.py", topology.name.replace('-', "_")), text: script },
        ExportFile { name: "barewire_mininet.py".into(), text: MODULE.into() },
    ];
    Ok(Exported { files, notes: notes(topology, "Mininet") })
}

/// Commands as Python's list, a line each.
fn list(commands: &[String]) -> String {
    let lines: Vec<String> = commands.iter().map(|c| format!("\n            {},", literal(c))).collect();
    format!("[{}\n        ]", lines.concat())
}

/// Mininet's port number of an end: a switch's own, a host's counted from zero in the order of links.
fn port(end: &End, hosts: &mut [u32]) -> u32 {
    match end.node {
        Node::Switch(_) => end.port,
        Node::Host(i) => {
            let port = hosts[i];
            hosts[i] += 1;
            port
        }
    }
}

/// The name that Mininet gives an interface.
fn interface(node: &str, port: u32) -> Result<String, LabError> {
    let name = format!("{node}-eth{port}");
    if name.len() <= INTERFACE_MAX {
        return Ok(name);
    }
    Err(LabError::BadName {
        what: "Mininet interface",
        name,
        why: "longer than 15 bytes: shorten the node's name",
    })
}

/// A link node's configuration as Python writes it.
fn python_dict(link: &LinkPlan) -> String {
    let config = node_config(link, None);
    let trace = config.trace.as_ref().map_or("None".to_owned(), |t| literal(&t.display().to_string()));
    format!(
        "{{\n            \"name\": {}, \"mtu_bytes\": {}, \"trace\": {trace},\n            \"a\": {},\n            \"b\": {},\n        }}",
        literal(&config.name),
        config.mtu_bytes,
        literal(&config.a),
        literal(&config.b)
    )
}
