//! A topology as a picture, in text.

use crate::topology::{LinkPlan, Node, SwitchKind, Topology};
use barewire_base::Duration;
use barewire_port::FaultSettings;
use std::fmt::Write as _;

/// The language of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphStyle {
    /// Graphviz.
    Dot,
    /// Mermaid, as Markdown viewers show it.
    Mermaid,
}

impl GraphStyle {
    /// Each with its word.
    pub const WORDS: &'static [(&'static str, GraphStyle)] =
        &[("dot", GraphStyle::Dot), ("mermaid", GraphStyle::Mermaid)];
}

/// The topology as a picture: nodes with their addresses, links with their interfaces and what frames suffer on them.
pub fn graph(topology: &Topology, style: GraphStyle) -> String {
    match style {
        GraphStyle::Dot => dot(topology),
        GraphStyle::Mermaid => mermaid(topology),
    }
}

/// The lines that a node shows.
fn node_lines(topology: &Topology, node: Node) -> Vec<String> {
    let mut lines = vec![topology.node_name(node).to_owned()];
    match node {
        Node::Host(i) => {
            for interface in &topology.hosts[i].interfaces {
                lines.extend(interface.addresses.iter().map(|(a, prefix)| format!("{a}/{prefix}")));
            }
        }
        Node::Switch(i) => match &topology.switches[i].kind {
            SwitchKind::Bridge => lines.push("bridge".into()),
            SwitchKind::Barewire { program, .. } => {
                let name = program.file_stem().unwrap_or_default();
                lines.push(name.to_string_lossy().into_owned());
            }
        },
    }
    lines
}

fn nodes(topology: &Topology) -> impl Iterator<Item = Node> {
    (0..topology.hosts.len()).map(Node::Host).chain((0..topology.switches.len()).map(Node::Switch))
}

/// Whatever a file name may hold: a program's is the one text here that nobody has checked.
fn quoted(text: &str) -> String {
    text.chars().map(|c| if c == '"' || c == '\\' || c.is_control() { '_' } else { c }).collect()
}

fn dot(topology: &Topology) -> String {
    let mut out = format!("graph \"{}\" {{\n  node [shape=box];\n", topology.name);
    for node in nodes(topology) {
        let shape = if matches!(node, Node::Switch(_)) { ", shape=ellipse" } else { "" };
        let label: Vec<String> = node_lines(topology, node).iter().map(|line| quoted(line)).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  \"{}\" [label=\"{}\"{shape}];", topology.node_name(node), label.join("\\n"));
    }
    for link in &topology.links {
        let [a, b] = link.ends.each_ref().map(|end| topology.node_name(end.node));
        let [tail, head] = link.ends.each_ref().map(|end| &end.interface);
        let _ = writeln!(
            out,
            "  \"{a}\" -- \"{b}\" [taillabel=\"{tail}\", headlabel=\"{head}\", label=\"{}\"];",
            link_lines(link).join("\\n")
        );
    }
    out.push_str("}\n");
    out
}

fn mermaid(topology: &Topology) -> String {
    let mut out = String::from("graph LR\n");
    // Names may be words of the language; numbers are not.
    let id = |node: Node| match node {
        Node::Host(i) => format!("h{i}"),
        Node::Switch(i) => format!("s{i}"),
    };
    for node in nodes(topology) {
        let (open, close) = if matches!(node, Node::Switch(_)) { ("([", "])") } else { ("[", "]") };
        let label: Vec<String> = node_lines(topology, node).iter().map(|line| quoted(line)).collect();
        let _ = writeln!(out, "  {}{open}\"{}\"{close}", id(node), label.join("<br/>"));
    }
    for link in &topology.links {
        let [a, b] = link.ends.each_ref().map(|end| id(end.node));
        let lines = link_lines(link);
        let label = if lines.is_empty() { String::new() } else { format!("|\"{}\"|", lines.join("<br/>")) };
        let _ = writeln!(out, "  {a} ---{label} {b}");
    }
    out
}

/// What frames suffer on a link, in words: one line when both directions are alike.
fn link_lines(link: &LinkPlan) -> Vec<String> {
    let [forward, reverse] = link.faults.each_ref().map(describe);
    if forward == reverse {
        return if forward.is_empty() { vec![] } else { vec![forward] };
    }
    let arrow = |sign: &str, text: String| {
        format!("{sign} {}", if text.is_empty() { "nothing" } else { text.as_str() })
    };
    vec![arrow("→", forward), arrow("←", reverse)]
}

fn describe(s: &FaultSettings) -> String {
    let mut words = Vec::new();
    let percent = |p: f64| format!("{} %", (p * 1e8).round() / 1e6);
    if s.delay > Duration::ZERO || s.jitter > Duration::ZERO {
        let jitter = if s.jitter > Duration::ZERO { format!(" + 0..{}", s.jitter) } else { String::new() };
        words.push(format!("{}{jitter}", s.delay));
    }
    for (name, p) in [
        ("loss", s.loss),
        ("reorder", s.reorder),
        ("duplicate", s.duplicate),
        ("corrupt", s.corrupt),
        ("ECN", s.ecn),
    ] {
        if p > 0.0 {
            words.push(format!("{name} {}", percent(p)));
        }
    }
    if let Some(b) = s.burst_loss {
        words.push(format!("bursts p {} r {}", percent(b.to_bad), percent(b.to_good)));
    }
    if s.rate_bps > 0 {
        words.push(format!("{} bit/s, queue {}", s.rate_bps, s.limit_frames));
    }
    if s.ecn_frames > 0 {
        words.push(format!("ECN from {} frames", s.ecn_frames));
    }
    if let Some(o) = s.outage {
        let every = if o.every > Duration::ZERO { format!(" every {}", o.every) } else { String::new() };
        words.push(format!("out {}{every}", o.length));
    }
    words.join(", ")
}
