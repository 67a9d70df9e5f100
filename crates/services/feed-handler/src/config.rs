//! The handler's TOML: what was typed, checked into a [`Plan`].
//!
//! ```toml
//! name = "feed"
//! channel_file = "channels.xml"    # the form of CME's config.xml; or [[channel.connection]] below
//!
//! [engine]
//! idle = "park"                    # spin | yield | park | park:50us
//! core = 1                         # default: not pinned
//!
//! [socket]                         # or [port]: port_a = "xdp:eth0", port_b = "xdp:eth1"
//! interface_a = "eth0"             # a name, or one of its addresses
//! interface_b = "eth1"
//! receive_buffer_bytes = 8388608
//! busy_poll_us = 50
//! stamps = "kernel"                # kernel | hardware | engine
//!
//! [[channel]]
//! id = 901
//! lines = "both"                   # both | a | b | a_then_b | b_then_a
//! recovery = "snapshot"            # snapshot | natural | either
//! orders = true                    # books by order; where a channel has the feed SMBO, all orders
//! groups = ["BW"]                  # which instruments; default: all
//!
//! [record]
//! path = "morning.pcap"
//! rotate_bytes = 1000000000
//! ```
//! Paths are relative to the configuration file's folder.

use crate::plan::{
    BURST_MAX, CHANNELS_MAX, ChannelPlan, INSTRUMENTS_MAX, Input, LineLayout, ORDERS_MAX, PACKET_BYTES_MAX,
    Plan, PortOptions, RecordPlan, Recovery, Selection, SocketOptions, StampBy,
};
use crate::{ChannelFile, ConfigError, Connection, FeedType, Side};
use barewire_base::Duration;
use barewire_engine::IdleStrategy;
use barewire_port::PortUri;
use barewire_text::{Place, suggest, with_nearest_key};
use serde::Deserialize;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use toml::Spanned;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    name: Option<String>,
    channel_file: Option<Spanned<PathBuf>>,
    engine: EngineTable,
    socket: Option<SocketTable>,
    port: Option<Spanned<PortTable>>,
    channel: Vec<Spanned<ChannelTable>>,
    record: Option<RecordTable>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct EngineTable {
    idle: Option<Spanned<String>>,
    core: Option<usize>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct SocketTable {
    interface_a: Option<String>,
    interface_b: Option<String>,
    receive_buffer_bytes: Option<Spanned<u64>>,
    busy_poll_us: Option<Spanned<u64>>,
    stamps: Option<Spanned<String>>,
    source_filter: Option<bool>,
    packet_bytes_max: Option<Spanned<u64>>,
    burst: Option<Spanned<u64>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct PortTable {
    port_a: Option<Spanned<String>>,
    port_b: Option<Spanned<String>>,
    join: Option<bool>,
    source_filter: Option<bool>,
    verify_checksums: Option<bool>,
    pool_frames: Option<Spanned<u64>>,
    chunk_bytes: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelTable {
    id: Spanned<u32>,
    label: Option<String>,
    lines: Option<Spanned<String>>,
    recovery: Option<Spanned<String>>,
    definitions: Option<bool>,
    orders: Option<bool>,
    orders_max: Option<Spanned<u64>>,
    instruments_max: Option<Spanned<u64>>,
    out_of_order_packets_max: Option<Spanned<u64>>,
    lost_packet_wait_us: Option<u64>,
    heartbeat_timeout_ms: Option<u64>,
    leave_loops: Option<bool>,
    keep_warm: Option<bool>,
    #[serde(default)]
    security_ids: Vec<i32>,
    #[serde(default)]
    symbols: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    assets: Vec<String>,
    #[serde(default)]
    connection: Vec<ConnectionTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConnectionTable {
    feed: Spanned<String>,
    side: Spanned<String>,
    group: Spanned<String>,
    udp_port: Spanned<u64>,
    #[serde(default)]
    sources: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordTable {
    path: PathBuf,
    #[serde(default)]
    rotate_bytes: u64,
}

impl Plan {
    /// Reads a configuration file, and the channel file that it names.
    ///
    /// # Errors
    /// [`ConfigError`], with file and place.
    pub fn read(path: &Path) -> Result<Plan, ConfigError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: shown.clone(), source })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Plan::parse(&text, &shown, &mut |named| ChannelFile::read(&folder.join(named))).map(|mut plan| {
            if let Some(record) = &mut plan.record {
                record.path = folder.join(&record.path);
            }
            plan
        })
    }

    /// Parses a configuration's text. `path` is for messages; `channel_file` reads the channel file that it names.
    ///
    /// # Errors
    /// [`ConfigError`], with file and place.
    pub fn parse(
        text: &str,
        path: &str,
        channel_file: &mut dyn FnMut(&Path) -> Result<ChannelFile, ConfigError>,
    ) -> Result<Plan, ConfigError> {
        let checker = Checker { text, path };
        let file: File = toml::from_str(text).map_err(|e| ConfigError::Syntax {
            path: path.to_owned(),
            message: with_nearest_key(&e.to_string()),
        })?;
        let idle = match &file.engine.idle {
            None => IdleStrategy::default(),
            Some(word) => word
                .get_ref()
                .parse()
                .map_err(|e| checker.at(word, format!("engine.idle = {:?}", word.get_ref()), e))?,
        };
        let input = match (&file.socket, &file.port) {
            (Some(_), Some(port)) => {
                return Err(checker.at(
                    port,
                    "[port]",
                    "there is a [socket] too; packets come from one of them",
                ));
            }
            (socket, None) => Input::Sockets(checker.sockets(socket.as_ref())?),
            (None, Some(port)) => Input::Ports(checker.ports(port)?),
        };
        let from_exchange = match &file.channel_file {
            None => None,
            Some(named) => Some(channel_file(named.get_ref())?),
        };
        if file.channel.is_empty() {
            return Err(
                checker.whole("[[channel]]", "missing: at least one, such as `[[channel]]` with `id = 310`")
            );
        }
        if file.channel.len() > CHANNELS_MAX {
            let why = format!("{} of them, more than {CHANNELS_MAX}", file.channel.len());
            return Err(checker.whole("[[channel]]", why));
        }
        let mut channels: Vec<ChannelPlan> = Vec::new();
        for table in &file.channel {
            let channel = checker.channel(table.get_ref(), from_exchange.as_ref())?;
            if channels.iter().any(|other| other.id == channel.id) {
                let what = format!("channel.id = {}", channel.id);
                return Err(checker.at(&table.get_ref().id, what, "a second channel of this id"));
            }
            channels.push(channel);
        }
        let plan = Plan {
            name: file.name.unwrap_or_else(|| "feed".to_owned()),
            idle,
            core: file.engine.core,
            input,
            channels,
            record: file.record.map(|r| RecordPlan { path: r.path, rotate_bytes: r.rotate_bytes }),
        };
        plan.check().map_err(|(what, why)| checker.whole(&what, why))?;
        Ok(plan)
    }

    /// The largest UDP payload that the input lets through.
    pub fn packet_bytes_max(&self) -> usize {
        match &self.input {
            Input::Sockets(options) => options.packet_bytes_max as usize,
            Input::Ports(options) => options.chunk_bytes as usize,
        }
    }

    /// What no single key shows: lines that would be told apart by nothing.
    ///
    /// # Errors
    /// What does not fit, and why.
    pub fn check(&self) -> Result<(), (String, String)> {
        let mut taken: HashMap<SocketAddr, String> = HashMap::new();
        for channel in &self.channels {
            channel
                .core_config(self.packet_bytes_max())
                .validate()
                .map_err(|e| (format!("channel {}", channel.id), e.to_string()))?;
            for line in channel.received() {
                let name = format!("channel {} {}{}", channel.id, line.feed.letters(), line.side);
                if let Some(other) = taken.insert(line.to, name.clone()) {
                    return Err((name, format!("{} is the group of {other} already", line.to)));
                }
            }
            if !channel.received().any(|line| line.feed == FeedType::Incremental) {
                let why =
                    format!("no incremental feed among the lines that `lines` leaves ({:?})", channel.lines);
                return Err((format!("channel {}", channel.id), why));
            }
        }
        Ok(())
    }
}

struct Checker<'a> {
    text: &'a str,
    path: &'a str,
}

impl Checker<'_> {
    fn at<T>(&self, of: &Spanned<T>, what: impl Into<String>, why: impl ToString) -> ConfigError {
        ConfigError::At {
            path: self.path.to_owned(),
            place: Place::of(self.text, of.span().start),
            what: what.into(),
            why: why.to_string(),
        }
    }

    fn whole(&self, what: &str, why: impl ToString) -> ConfigError {
        ConfigError::Whole { path: self.path.to_owned(), what: what.to_owned(), why: why.to_string() }
    }

    /// A number within bounds, or the default.
    fn number(
        &self,
        key: &str,
        given: Option<&Spanned<u64>>,
        default: u32,
        bounds: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, ConfigError> {
        let Some(given) = given else { return Ok(default) };
        let value = *given.get_ref();
        u32::try_from(value).ok().filter(|value| bounds.contains(value)).ok_or_else(|| {
            let why = format!("from {} to {}", bounds.start(), bounds.end());
            self.at(given, format!("{key} = {value}"), why)
        })
    }

    fn word<T: Copy + Default>(
        &self,
        key: &str,
        given: Option<&Spanned<String>>,
        words: &[(&str, T)],
    ) -> Result<T, ConfigError> {
        given.map_or(Ok(T::default()), |given| self.one_of(key, given, words))
    }

    fn one_of<T: Copy>(
        &self,
        key: &str,
        given: &Spanned<String>,
        words: &[(&str, T)],
    ) -> Result<T, ConfigError> {
        let word = given.get_ref();
        words.iter().find(|(known, _)| known == word).map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.at(given, format!("{key} = {word:?}"), suggest(word, &known))
        })
    }

    fn sockets(&self, table: Option<&SocketTable>) -> Result<SocketOptions, ConfigError> {
        let default = SocketOptions::default();
        let Some(t) = table else { return Ok(default) };
        let words =
            [("kernel", StampBy::Kernel), ("hardware", StampBy::Hardware), ("engine", StampBy::Engine)];
        Ok(SocketOptions {
            interface_a: t.interface_a.clone(),
            interface_b: t.interface_b.clone(),
            receive_buffer_bytes: self.number(
                "socket.receive_buffer_bytes",
                t.receive_buffer_bytes.as_ref(),
                default.receive_buffer_bytes,
                4096..=1 << 30,
            )?,
            busy_poll_us: self.number("socket.busy_poll_us", t.busy_poll_us.as_ref(), 0, 0..=1_000_000)?,
            stamps: self.word("socket.stamps", t.stamps.as_ref(), &words)?,
            source_filter: t.source_filter.unwrap_or(default.source_filter),
            packet_bytes_max: self.number(
                "socket.packet_bytes_max",
                t.packet_bytes_max.as_ref(),
                default.packet_bytes_max,
                64..=PACKET_BYTES_MAX,
            )?,
            burst: self.number("socket.burst", t.burst.as_ref(), default.burst, 1..=BURST_MAX)?,
        })
    }

    fn ports(&self, table: &Spanned<PortTable>) -> Result<PortOptions, ConfigError> {
        let t = table.get_ref();
        let uri = |key: &str, given: &Spanned<String>| -> Result<String, ConfigError> {
            given
                .get_ref()
                .parse::<PortUri>()
                .map_err(|e| self.at(given, format!("{key} = {:?}", given.get_ref()), e))?;
            Ok(given.get_ref().clone())
        };
        let Some(port_a) = &t.port_a else {
            return Err(self.at(table, "port.port_a", "missing: name a port, such as \"xdp:eth0\""));
        };
        let default = PortOptions::new(&uri("port.port_a", port_a)?);
        Ok(PortOptions {
            port_b: t.port_b.as_ref().map(|given| uri("port.port_b", given)).transpose()?,
            join: t.join.unwrap_or(default.join),
            source_filter: t.source_filter.unwrap_or(default.source_filter),
            verify_checksums: t.verify_checksums.unwrap_or(default.verify_checksums),
            pool_frames: self.number(
                "port.pool_frames",
                t.pool_frames.as_ref(),
                default.pool_frames,
                64..=1 << 20,
            )?,
            chunk_bytes: self.number(
                "port.chunk_bytes",
                t.chunk_bytes.as_ref(),
                default.chunk_bytes,
                2048..=1 << 16,
            )?,
            ..default
        })
    }

    fn channel(
        &self,
        table: &ChannelTable,
        exchange: Option<&ChannelFile>,
    ) -> Result<ChannelPlan, ConfigError> {
        let id = *table.id.get_ref();
        let what = format!("channel.id = {id}");
        let (label, connections) = match (exchange, table.connection.as_slice()) {
            (None, []) => {
                let why = "no lines: name a `channel_file`, or give each as [[channel.connection]]";
                return Err(self.at(&table.id, what, why));
            }
            (Some(file), []) => {
                let found = file.channel(id).map_err(|why| self.at(&table.id, what, why))?;
                (found.label.clone(), found.connections.clone())
            }
            (_, own) => {
                let mut connections: Vec<Connection> = Vec::new();
                for entry in own {
                    let connection = self.connection(id, entry)?;
                    let line = (connection.feed, connection.side);
                    if connections.iter().any(|c| (c.feed, c.side) == line) {
                        let what = format!("channel.connection {}", connection.id);
                        return Err(self.at(&entry.feed, what, "a second line of this feed and side"));
                    }
                    connections.push(connection);
                }
                (String::new(), connections)
            }
        };
        let default = ChannelPlan::new(id, connections);
        Ok(ChannelPlan {
            label: table.label.clone().unwrap_or(label),
            lines: self.word("channel.lines", table.lines.as_ref(), LineLayout::WORDS)?,
            recovery: self.word("channel.recovery", table.recovery.as_ref(), Recovery::WORDS)?,
            definitions: table.definitions.unwrap_or(default.definitions),
            instruments_max: self.number(
                "channel.instruments_max",
                table.instruments_max.as_ref(),
                default.instruments_max,
                1..=INSTRUMENTS_MAX,
            )?,
            orders: table.orders.unwrap_or(default.orders),
            orders_max: match &table.orders_max {
                None => default.orders_max,
                given => Some(self.number("channel.orders_max", given.as_ref(), 0, 0..=ORDERS_MAX)?),
            },
            out_of_order_packets_max: self.number(
                "channel.out_of_order_packets_max",
                table.out_of_order_packets_max.as_ref(),
                default.out_of_order_packets_max,
                1..=4096,
            )?,
            lost_packet_wait: table
                .lost_packet_wait_us
                .map_or(default.lost_packet_wait, Duration::from_micros),
            heartbeat_timeout: table
                .heartbeat_timeout_ms
                .map_or(default.heartbeat_timeout, Duration::from_millis),
            leave_loops: table.leave_loops.unwrap_or(default.leave_loops),
            keep_warm: table.keep_warm.unwrap_or(default.keep_warm),
            selection: Selection {
                security_ids: table.security_ids.clone(),
                symbols: table.symbols.clone(),
                groups: table.groups.clone(),
                assets: table.assets.clone(),
            },
            ..default
        })
    }

    fn connection(&self, id: u32, table: &ConnectionTable) -> Result<Connection, ConfigError> {
        let feed = self.one_of("channel.connection.feed", &table.feed, FeedType::WORDS)?;
        let side = self.one_of("channel.connection.side", &table.side, Side::WORDS)?;
        let address = |key: &str, given: &Spanned<String>| -> Result<IpAddr, ConfigError> {
            let text = given.get_ref();
            text.parse().map_err(|_| self.at(given, format!("{key} = {text:?}"), "not an IP address"))
        };
        let group = address("channel.connection.group", &table.group)?;
        if !group.is_multicast() {
            let what = format!("channel.connection.group = \"{group}\"");
            return Err(self.at(
                &table.group,
                what,
                "no multicast group: IPv4 groups are 224.0.0.0 to 239.255.255.255",
            ));
        }
        let port = self.number("channel.connection.udp_port", Some(&table.udp_port), 0, 1..=65_535)?;
        let mut sources = Vec::new();
        for given in &table.sources {
            let source = address("channel.connection.sources", given)?;
            if source.is_ipv4() != group.is_ipv4() {
                let what = format!("channel.connection.sources = \"{source}\"");
                return Err(self.at(given, what, "of another family than the group"));
            }
            sources.push(source);
        }
        let name = format!("{id}{}{side}", feed.letters());
        Ok(Connection { id: name, feed, side, to: SocketAddr::new(group, port as u16), sources })
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
