//! The registry: what each counter on a page is, by its name.
//!
//! A name on a page says where and what: `port.rx_frames`, `port.1.rx_frames` (of a daemon's second port),
//! `1.transport.drop.bad_crc` (of its second engine),
//! `switch0.port3.tx_bytes`, `feed_channel.901.line_a.lost`. [`place`] takes it apart: the [`Family`], which has a kind, a unit and a
//! help text, and the labels that tell one of its counters from another. Metrics, dashboards and the live view read this and nothing
//! else, so a counter that is missing here is shown without a text; the tests of whoever publishes see to it that none is.

use crate::CounterKind;
use crate::counters::EngineCounters;
use CounterKind::{Counter, Gauge};
use std::sync::OnceLock;

/// What a value is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// Things: frames, messages, times.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds; exported as seconds, as is the custom.
    Nanoseconds,
}

/// Counters of one name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Family {
    /// Which part of the engine counts: `port`, `transport`, `feed_line`.
    pub group: &'static str,
    /// The counter's name in its group; `drops` for the counters by reason.
    pub name: &'static str,
    /// How to read it.
    pub kind: CounterKind,
    /// What it is counted in.
    pub unit: Unit,
    /// What it counts, in a sentence.
    pub help: &'static str,
    /// Labels that its counters have, beside the page's name (see [`Family::has_page`]).
    pub labels: &'static [&'static str],
}

impl Family {
    /// The name under which metrics show it, without the `_total` of counters: the unit stands at the end.
    pub fn metric(&self) -> String {
        let unit = match self.unit {
            Unit::Count => "",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "seconds",
        };
        // The one that counts the group itself.
        let name = if self.name == "count" { "" } else { self.name };
        let words = name.split('_').filter(|word| !matches!(*word, "bytes" | "ns" | ""));
        let parts = ["barewire", self.group].into_iter().chain(words).chain([unit]);
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
    }

    /// The name of its samples: that of the metric, with `_total` for counters.
    pub fn sample(&self) -> String {
        let total = if self.kind == Counter { "_total" } else { "" };
        self.metric() + total
    }

    /// Whether its samples tell of which page they are: all but those about the look itself.
    pub fn has_page(&self) -> bool {
        self.group != "pages"
    }

    /// Whether it counts what was dropped.
    pub fn counts_drops(&self) -> bool {
        self.name == "drops" || self.name.ends_with("_drops") || self.name.ends_with("_dropped")
    }
}

/// A counter's name, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place<'a> {
    /// What it counts.
    pub family: &'static Family,
    /// Which one of its family, in the order of [`Family::labels`].
    pub labels: Vec<(&'static str, &'a str)>,
}

/// All families, those of one group together.
pub fn families() -> &'static [Family] {
    static ALL: OnceLock<Vec<Family>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Vec::new();
        let mut add = |group, name, kind, unit, help: &'static str, labels| {
            all.push(Family { group, name, kind, unit, help: help.trim(), labels });
        };
        for &(name, kind, help) in EngineCounters::HELP {
            let unit = if name.ends_with("_ns") { Unit::Nanoseconds } else { Unit::Count };
            add("engine", name, kind, unit, help, ENGINE);
        }
        for &(name, help) in barewire_transport::Counters::HELP {
            let unit = if name.starts_with("bytes_") { Unit::Bytes } else { Unit::Count };
            add("transport", name, Counter, unit, help, ENGINE);
        }
        for &(name, help) in barewire_roce::Counters::HELP {
            add("rdma", name, Counter, Unit::Count, help, ENGINE);
        }
        for &(group, name, kind, unit, help, labels) in TABLE {
            add(group, name, kind, unit, help, labels);
        }
        // The groups in a fixed order, each in the order in which it was told.
        all.sort_by_key(|family| GROUPS.iter().position(|group| *group == family.group));
        all
    })
}

/// Groups in the order in which they are shown: inwards from the wire.
const GROUPS: &[&str] = &[
    "engine",
    "port",
    "host",
    "stack",
    "pool",
    "transport",
    "applications",
    "rdma",
    "switch_port",
    "switch",
    "feed",
    "feed_line",
    "feed_source",
    "link",
    "link_port",
    "page",
    "pages",
];

/// Groups of a stack: port, host and endpoints.
const STACK: &[&str] = &["port", "host", "stack", "pool", "transport", "applications", "rdma"];

/// Those of which each port of a stack has its own. The first port's have no number in their names.
const OF_PORTS: &[&str] = &["port", "host"];

const ENGINE: &[&str] = &["engine"];
const PORT: &[&str] = &["engine", "port"];
const PORT_REASON: &[&str] = &["engine", "port", "reason"];
const REASON: &[&str] = &["engine", "reason"];
const SWITCH_PORT: &[&str] = &["engine", "port"];
const FEED: &[&str] = &["feed_channel"];
const FEED_REASON: &[&str] = &["feed_channel", "reason"];
const FEED_LINE: &[&str] = &["feed_channel", "line"];
const LINK: &[&str] = &["direction"];
const LINK_REASON: &[&str] = &["direction", "reason"];
const LINK_PORT_REASON: &[&str] = &["port", "reason"];
const SOURCE: &[&str] = &["source"];
const SOURCE_REASON: &[&str] = &["source", "reason"];

type Row = (&'static str, &'static str, CounterKind, Unit, &'static str, &'static [&'static str]);

/// Families whose counters have no list of their own that this crate can see.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("port", "rx_frames", Counter, Unit::Count, "Frames received by the port.", PORT),
    ("port", "rx_bytes", Counter, Unit::Bytes, "Bytes received by the port.", PORT),
    ("port", "tx_frames", Counter, Unit::Count, "Frames sent by the port.", PORT),
    ("port", "tx_bytes", Counter, Unit::Bytes, "Bytes sent by the port.", PORT),
    ("port", "syscalls", Counter, Unit::Count, "System calls made for I/O, the count that explains most latencies.", PORT),
    ("port", "tx_full", Counter, Unit::Count, "Times that a transmit found no room.", PORT),
    ("port", "link_downs", Counter, Unit::Count, "Times that the port's interface went down or away.", PORT),
    ("port", "carrier_losses", Counter, Unit::Count, "Times that the port's interface lost its carrier while it was up.", PORT),
    ("port", "reopened", Counter, Unit::Count, "Times that the port was opened again, on an interface that was created again.", PORT),
    ("port", "mtu_changes", Counter, Unit::Count, "Times that the MTU of the port's interface changed.", PORT),
    ("port", "mac_changes", Counter, Unit::Count, "Times that the MAC address of the port's interface changed.", PORT),
    ("port", "drops", Counter, Unit::Count, "Frames dropped by the port, by reason.", PORT_REASON),
    ("host", "neighbours_resolved", Counter, Unit::Count, "Neighbours resolved.", PORT),
    ("host", "neighbours_failed", Counter, Unit::Count, "Neighbours that did not answer, or stopped answering.", PORT),
    ("host", "neighbours_doubted", Counter, Unit::Count, "Times that a known neighbour was asked again, because another MAC claimed its address or nothing came back through it.", PORT),
    ("host", "neighbours_moved", Counter, Unit::Count, "Known neighbours that were found at another MAC: a router that took over, a card that was replaced.", PORT),
    ("host", "address_conflicts", Counter, Unit::Count, "Times that another host claimed an address of ours.", PORT),
    ("host", "drops", Counter, Unit::Count, "Frames dropped by the host (ARP, ND, ICMP, IP, UDP), by reason.", PORT_REASON),
    ("stack", "drops", Counter, Unit::Count, "Frames dropped between port and endpoint, by reason.", REASON),
    ("stack", "looped", Counter, Unit::Count, "Frames from us to us, which the port never saw.", ENGINE),
    ("stack", "forwarded", Counter, Unit::Count, "Frames handed to another engine that owns their flow.", ENGINE),
    ("pool", "frames_free", Gauge, Unit::Count, "Frames of the pool that are not in use.", ENGINE),
    ("transport", "drops", Counter, Unit::Count, "Packets dropped by the message transport, by reason.", REASON),
    ("transport", "flows", Gauge, Unit::Count, "Flows in use.", ENGINE),
    ("transport", "listeners", Gauge, Unit::Count, "Ports that applications listen on.", ENGINE),
    ("transport", "messages_under_way", Gauge, Unit::Count, "Messages accepted and not yet acknowledged.", ENGINE),
    ("transport", "received_messages", Gauge, Unit::Count, "Messages being received or not yet released.", ENGINE),
    ("applications", "count", Gauge, Unit::Count, "Applications attached to the daemon.", ENGINE),
    ("applications", "recv_bytes_used", Gauge, Unit::Bytes, "Receive memory in use, of all applications.", ENGINE),
    ("applications", "promised", Gauge, Unit::Count, "Completions that are sure to come: one for each open flow when all is quiet.", ENGINE),
    ("applications", "waiting", Gauge, Unit::Count, "Completions that wait for room in their application's ring.", ENGINE),
    ("applications", "bad_entries", Counter, Unit::Count, "Requests of applications that made no sense.", ENGINE),
    ("applications", "not_theirs", Counter, Unit::Count, "Requests that named something of another application.", ENGINE),
    ("applications", "corrupt_channels", Counter, Unit::Count, "Channels ended because their rings made no sense.", ENGINE),
    ("rdma", "drops", Counter, Unit::Count, "RoCE frames that went no further, by reason.", REASON),
    ("rdma", "queue_pairs", Gauge, Unit::Count, "Queue pairs in existence.", ENGINE),
    ("rdma", "open_connections", Gauge, Unit::Count, "Connections in whatever state.", ENGINE),
    ("rdma", "objects", Gauge, Unit::Count, "Objects of applications: domains, regions, queues, queue pairs, listeners.", ENGINE),
    ("rdma", "waiting", Gauge, Unit::Count, "Events and answers that wait for room in their application's ring.", ENGINE),
    ("rdma", "requests_refused", Counter, Unit::Count, "Verbs of applications that were refused.", ENGINE),
    ("rdma", "over_quota", Counter, Unit::Count, "Verbs refused because a quota was used up.", ENGINE),
    ("rdma", "turned_away", Counter, Unit::Count, "Requests for connections that no application could take.", ENGINE),
    ("switch_port", "rx_frames", Counter, Unit::Count, "Frames received by the switch port.", SWITCH_PORT),
    ("switch_port", "rx_bytes", Counter, Unit::Bytes, "Bytes received by the switch port.", SWITCH_PORT),
    ("switch_port", "tx_frames", Counter, Unit::Count, "Frames sent by the switch port.", SWITCH_PORT),
    ("switch_port", "tx_bytes", Counter, Unit::Bytes, "Bytes sent by the switch port.", SWITCH_PORT),
    ("switch_port", "syscalls", Counter, Unit::Count, "System calls made for I/O at the switch port.", SWITCH_PORT),
    ("switch_port", "rx_dropped", Counter, Unit::Count, "Frames dropped by the switch port itself.", SWITCH_PORT),
    ("switch_port", "tx_dropped", Counter, Unit::Count, "Frames that the switch port refused to send.", SWITCH_PORT),
    ("switch", "drops", Counter, Unit::Count, "Packets dropped by the switch, by reason.", REASON),
    ("feed", "packets", Counter, Unit::Count, "Incremental packets processed in order.", FEED),
    ("feed", "messages", Counter, Unit::Count, "Messages processed, on every feed.", FEED),
    ("feed", "book_entries", Counter, Unit::Count, "Book entries applied to books.", FEED),
    ("feed", "events", Counter, Unit::Count, "Events ended.", FEED),
    ("feed", "abandoned_events", Counter, Unit::Count, "Events that a gap or a reset cut.", FEED),
    ("feed", "gaps", Counter, Unit::Count, "Gaps declared.", FEED),
    ("feed", "lost_packets", Counter, Unit::Count, "Incremental packets lost on all lines.", FEED),
    ("feed", "held_packets", Counter, Unit::Count, "Packets that waited for their turn.", FEED),
    ("feed", "snapshots_applied", Counter, Unit::Count, "Books set from a snapshot.", FEED),
    ("feed", "order_snapshots_applied", Counter, Unit::Count, "Books by order set from a snapshot.", FEED),
    ("feed", "natural_refreshes", Counter, Unit::Count, "Books that natural refresh completed.", FEED),
    ("feed", "loops_completed", Counter, Unit::Count, "Snapshot loops heard from the first packet to the last.", FEED),
    ("feed", "resets", Counter, Unit::Count, "Channel and sequence resets.", FEED),
    ("feed", "instruments", Gauge, Unit::Count, "Instruments known.", FEED),
    ("feed", "unsettled_instruments", Gauge, Unit::Count, "Instruments in recovery.", FEED),
    ("feed", "unsettled_orders", Gauge, Unit::Count, "Books by order in recovery.", FEED),
    ("feed", "up", Gauge, Unit::Count, "1 while packets come on some line.", FEED),
    ("feed", "drops", Counter, Unit::Count, "Packets, messages and entries that were not used, by reason.", FEED_REASON),
    ("feed_line", "packets", Counter, Unit::Count, "Packets received on the incremental line.", FEED_LINE),
    ("feed_line", "bytes", Counter, Unit::Bytes, "Bytes received on the incremental line.", FEED_LINE),
    ("feed_line", "first", Counter, Unit::Count, "Packets of which this line brought the first good copy.", FEED_LINE),
    ("feed_line", "duplicates", Counter, Unit::Count, "Packets that another line had brought before, or this one twice.", FEED_LINE),
    ("feed_line", "lost", Counter, Unit::Count, "Packets that never came by this line.", FEED_LINE),
    ("feed_line", "reordered", Counter, Unit::Count, "Packets that came behind a later one of the same line.", FEED_LINE),
    ("feed_line", "up", Gauge, Unit::Count, "1 while packets come on this line.", FEED_LINE),
    ("feed_source", "packets", Counter, Unit::Count, "Packets that came from the source.", SOURCE),
    ("feed_source", "bytes", Counter, Unit::Bytes, "Bytes that came from the source.", SOURCE),
    ("feed_source", "syscalls", Counter, Unit::Count, "System calls made to receive.", SOURCE),
    ("feed_source", "kernel_drops", Counter, Unit::Count, "Packets that the kernel dropped because the socket was full.", SOURCE),
    ("feed_source", "truncated", Counter, Unit::Count, "Packets that were cut off, or shorter than their headers say.", SOURCE),
    ("feed_source", "unstamped", Counter, Unit::Count, "Packets without a receive stamp of the kernel.", SOURCE),
    ("feed_source", "headers_renewed", Counter, Unit::Count, "Times that the receive headers were prepared again.", SOURCE),
    ("feed_source", "line_faults", Counter, Unit::Count, "Times that a line, or the source, failed and was tried again.", SOURCE),
    ("feed_source", "lines_failed", Gauge, Unit::Count, "Lines that have failed and are being tried again.", SOURCE),
    ("feed_source", "port_rx_frames", Counter, Unit::Count, "Frames received by the source's port.", SOURCE),
    ("feed_source", "port_syscalls", Counter, Unit::Count, "System calls made by the source's port.", SOURCE),
    ("feed_source", "port_drops", Counter, Unit::Count, "Frames dropped by the source's port.", SOURCE),
    ("feed_source", "drops", Counter, Unit::Count, "Frames of the source's port that were no packets of the feed, by reason.", SOURCE_REASON),
    ("link", "received", Counter, Unit::Count, "Frames that came in to go this way over the link.", LINK),
    ("link", "sent", Counter, Unit::Count, "Frames that went out this way, copies included.", LINK),
    ("link", "sent_bytes", Counter, Unit::Bytes, "Bytes that went out this way, copies included.", LINK),
    ("link", "corrupted", Counter, Unit::Count, "Frames damaged on purpose.", LINK),
    ("link", "duplicated", Counter, Unit::Count, "Frames sent twice on purpose.", LINK),
    ("link", "reordered", Counter, Unit::Count, "Frames held back on purpose, behind later ones.", LINK),
    ("link", "marked", Counter, Unit::Count, "Frames marked with congestion experienced.", LINK),
    ("link", "drops", Counter, Unit::Count, "Frames that the link lost, as its plan says or because its way out was down, by reason.", LINK_REASON),
    ("link_port", "drops", Counter, Unit::Count, "Frames dropped by a port of the link's node, by reason, beside what the link itself loses.", LINK_PORT_REASON),
    ("page", "alive", Gauge, Unit::Count, "1 while the process that writes the counters page runs.", &[]),
    ("page", "age_ns", Gauge, Unit::Nanoseconds, "Time since the counters page was made.", &[]),
    ("page", "unregistered", Gauge, Unit::Count, "Counters on the page whose meaning this build does not know.", &[]),
    ("page", "left_out", Gauge, Unit::Count, "Counters of the page that are not shown because it has too many.", &[]),
    ("pages", "left_out", Gauge, Unit::Count, "Counters pages that are not shown because there are too many.", &[]),
];

fn find(group: &str, name: &str) -> Option<&'static Family> {
    // The groups are sorted by their place in the list, not by name: a table would gain nothing at this length but at start.
    families().iter().find(|family| family.group == group && family.name == name)
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// What the counter `name` of a page is; `None`: this build does not know.
pub fn place(name: &str) -> Option<Place<'_>> {
    let (head, rest) = name.split_once('.')?;
    match head {
        "engine" => {
            let (engine, name) = rest.rsplit_once('.')?;
            Some(Place { family: find("engine", name)?, labels: vec![("engine", engine)] })
        }
        "feed_channel" => {
            let (channel, rest) = rest.split_once('.')?;
            let id = ("feed_channel", channel);
            match rest.split_once('.') {
                None => Some(Place { family: find("feed", rest)?, labels: vec![id] }),
                Some(("drop", reason)) => by_reason("feed", vec![id], reason),
                Some((line, name)) => {
                    let line = line.strip_prefix("line_")?;
                    Some(Place { family: find("feed_line", name)?, labels: vec![id, ("line", line)] })
                }
            }
        }
        "link" => {
            let (way, name) = rest.split_once('.')?;
            let reason = name.strip_prefix("drop.");
            match (way, reason) {
                ("forward" | "reverse", None) => {
                    let family = find("link", name).filter(|family| family.labels == LINK)?;
                    Some(Place { family, labels: vec![("direction", way)] })
                }
                ("forward" | "reverse", Some(reason)) => by_reason("link", vec![("direction", way)], reason),
                ("a" | "b", Some(reason)) => by_reason("link_port", vec![("port", way)], reason),
                _ => None,
            }
        }
        "source" => {
            let (source, name) = rest.split_once('.')?;
            let id = ("source", source);
            match find("feed_source", name).filter(|family| family.name != "drops") {
                Some(family) => Some(Place { family, labels: vec![id] }),
                None if barewire_base::DropReason::ALL.iter().any(|reason| reason.as_str() == name) => {
                    by_reason("feed_source", vec![id], name)
                }
                None => None,
            }
        }
        _ => match head.strip_prefix("switch").filter(|number| digits(number)) {
            Some(engine) => of_switch(engine, rest),
            // Several engines of a daemon have their number in front.
            None if digits(head) => of_stack(head, rest),
            None => of_stack("0", name),
        },
    }
}

fn by_reason<'a>(group: &str, mut ids: Vec<(&'static str, &'a str)>, reason: &'a str) -> Option<Place<'a>> {
    let family = find(group, "drops").filter(|_| !reason.is_empty() && !reason.contains('.'))?;
    ids.push(("reason", reason));
    Some(Place { family, labels: ids })
}

fn of_stack<'a>(engine: &'a str, name: &'a str) -> Option<Place<'a>> {
    let (group, name) = name.split_once('.')?;
    if !STACK.contains(&group) {
        return None;
    }
    let mut ids = vec![("engine", engine)];
    let mut rest = name;
    if OF_PORTS.contains(&group) {
        let numbered = name.split_once('.').filter(|(number, _)| digits(number) && !number.starts_with('0'));
        let (port, name) = numbered.unwrap_or(("0", name));
        ids.push(("port", port));
        rest = name;
    }
    if let Some(reason) = rest.strip_prefix("drop.") {
        return by_reason(group, ids, reason);
    }
    let family = find(group, rest).filter(|family| !family.labels.contains(&"reason"))?;
    Some(Place { family, labels: ids })
}

fn of_switch<'a>(engine: &'a str, name: &'a str) -> Option<Place<'a>> {
    let (part, name) = name.split_once('.')?;
    let id = ("engine", engine);
    if part == "drop" {
        return by_reason("switch", vec![id], name);
    }
    let port = part.strip_prefix("port").filter(|number| digits(number))?;
    Some(Place { family: find("switch_port", name)?, labels: vec![id, ("port", port)] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_taken_apart() {
        for (name, sample, labels) in [
            ("port.rx_frames", "barewire_port_rx_frames_total", &[("engine", "0"), ("port", "0")][..]),
            ("3.port.rx_bytes", "barewire_port_rx_bytes_total", &[("engine", "3"), ("port", "0")]),
            ("port.1.rx_bytes", "barewire_port_rx_bytes_total", &[("engine", "0"), ("port", "1")]),
            (
                "host.12.drop.bad_crc",
                "barewire_host_drops_total",
                &[("engine", "0"), ("port", "12"), ("reason", "bad_crc")],
            ),
            ("transport.bytes_sent", "barewire_transport_sent_bytes_total", &[("engine", "0")]),
            (
                "1.host.drop.bad_crc",
                "barewire_host_drops_total",
                &[("engine", "1"), ("port", "0"), ("reason", "bad_crc")],
            ),
            ("engine.a.b.max_cycle_ns", "barewire_engine_max_cycle_seconds", &[("engine", "a.b")]),
            ("applications.count", "barewire_applications", &[("engine", "0")]),
            ("applications.recv_bytes_used", "barewire_applications_recv_used_bytes", &[("engine", "0")]),
            (
                "switch1.port511.tx_bytes",
                "barewire_switch_port_tx_bytes_total",
                &[("engine", "1"), ("port", "511")],
            ),
            (
                "switch0.drop.no_program",
                "barewire_switch_drops_total",
                &[("engine", "0"), ("reason", "no_program")],
            ),
            ("feed_channel.901.gaps", "barewire_feed_gaps_total", &[("feed_channel", "901")]),
            (
                "feed_channel.9.line_b.lost",
                "barewire_feed_line_lost_total",
                &[("feed_channel", "9"), ("line", "b")],
            ),
            (
                "feed_channel.9.drop.late",
                "barewire_feed_drops_total",
                &[("feed_channel", "9"), ("reason", "late")],
            ),
            ("link.forward.sent_bytes", "barewire_link_sent_bytes_total", &[("direction", "forward")]),
            (
                "link.reverse.drop.queue_full",
                "barewire_link_drops_total",
                &[("direction", "reverse"), ("reason", "queue_full")],
            ),
            (
                "link.b.drop.ring_full",
                "barewire_link_port_drops_total",
                &[("port", "b"), ("reason", "ring_full")],
            ),
            ("source.2.kernel_drops", "barewire_feed_source_kernel_drops_total", &[("source", "2")]),
            (
                "source.2.not_our_mac",
                "barewire_feed_source_drops_total",
                &[("source", "2"), ("reason", "not_our_mac")],
            ),
        ] {
            let place = place(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((place.family.sample().as_str(), &place.labels[..]), (sample, labels), "{name}");
            let keys: Vec<&str> = place.labels.iter().map(|(key, _)| *key).collect();
            assert_eq!(keys, place.family.labels, "{name}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        for name in [
            "",
            ".",
            "port",
            "port.",
            "port.drops",
            "port.drop.",
            "port.drop.a.b",
            "engine.0.rx_frames",
            "engine.cycles",
            "switch.drop.x",
            "switchx.port1.rx_frames",
            "switch0.portx.rx_frames",
            "feed_channel.1",
            "source.1.drops",
            "feed_channel.1.line_a",
            "page.alive",
            "pages.left_out",
            "link.forward.drops",
            "link.forward.drop.",
            "link.c.drop.ring_full",
            "link.a.received",
            "link.sideways.received",
            "1.2.port.rx_frames",
            "port.0.rx_frames",
            "port.1.2.rx_frames",
            "transport.1.flows",
            "0.engine.cycles",
            "feed.gaps",
            "é.é",
        ] {
            assert_eq!(place(name), None, "{name}");
        }
    }

    #[test]
    fn what_counts_drops_is_known_as_such() {
        let drops: Vec<String> = families().iter().filter(|f| f.counts_drops()).map(Family::sample).collect();
        let expected = [
            "barewire_port_drops_total",
            "barewire_host_drops_total",
            "barewire_stack_drops_total",
            "barewire_transport_drops_total",
            "barewire_rdma_drops_total",
            "barewire_switch_port_rx_dropped_total",
            "barewire_switch_port_tx_dropped_total",
            "barewire_switch_drops_total",
            "barewire_feed_drops_total",
            "barewire_feed_source_kernel_drops_total",
            "barewire_feed_source_port_drops_total",
            "barewire_feed_source_drops_total",
            "barewire_link_drops_total",
            "barewire_link_port_drops_total",
        ];
        assert_eq!(drops, expected);
    }

    #[test]
    fn families_are_whole_and_different() {
        let samples: BTreeSet<String> = families().iter().map(Family::sample).collect();
        assert_eq!(samples.len(), families().len(), "two families of one name");
        for family in families() {
            let sample = family.sample();
            assert!(GROUPS.contains(&family.group), "{sample}");
            assert!(family.help.len() > 10 && family.help.ends_with('.'), "{sample}: {}", family.help);
            assert!(
                !family.help.contains(['\n', '`', '[']),
                "{sample}: a text for a page, not for a document: {}",
                family.help
            );
            assert!(
                sample.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{sample}"
            );
            assert_eq!(sample.ends_with("_total"), family.kind == Counter, "{sample}");
            // The unit stands at the end of the name; a text that names another one contradicts it.
            let help = family.help.to_lowercase();
            assert!(family.unit != Unit::Nanoseconds || !help.contains("nanosecond"), "{sample}: {help}");
            assert_eq!(family.name == "drops", family.labels.contains(&"reason"), "{sample}");
        }
        for reason in barewire_base::DropReason::ALL {
            assert!(reason.help().trim().ends_with('.'), "{reason}");
        }
    }
}
