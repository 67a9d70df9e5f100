//! Market data from the wire to the listener: what touches the world around the sans-IO feed channels of `barewire-feed`.
//!
//! ```text
//! kernel sockets (recvmmsg, IGMP, stamps) --+
//! ports (xdp, packet, mem, pcap) -----------+-> FeedHandler -> recorder (pcap)
//! captures at 1x, Nx, flat out -------------+               -> FeedChannel: arbitration, recovery, books -> Listener
//! ```
//! A [`Plan`] says what there is: it is read from TOML, with a channel file of the form of CME's `config.xml`
//! ([`ChannelFile`]), or written by the program. [`FeedHandler::builder`] opens its sources and makes a [`FeedChannel`]
//! for each channel, with a listener of the user's ([`barewire_feed::Listener`]). Several channels share one handler, and
//! several handlers one engine. Three ways to run one:
//! - as an [`Agent`](barewire_engine::Agent) of a [`barewire_engine::Engine`], with its idle strategies: `spin` and `yield`
//!   poll, `park` sleeps in epoll until a packet comes; [`FeedHandler::run`] makes the engine on the caller's thread;
//! - driven by the program: [`FeedHandler::process`] never blocks;
//! - over captures: [`FeedHandler::replay`], in the captures' own time.
//!
//! Every packet carries its receive stamp and who took it: the card, the kernel, or the engine that found it. The crate
//! `barewire-feed-emulator` makes channels out of a seed, with the truth beside them, so that all of it runs with no exchange.
//!
//! ```
//! use barewire_base::Duration;
//! use barewire_feed::{BookView, Listener};
//! use barewire_feed_emulator::{CaptureWriter, Emulator, EmulatorConfig, connections};
//! use barewire_feed_handler::{ChannelPlan, FeedHandler, Input, Plan, Replay, SocketOptions};
//! use barewire_port::Speed;
//!
//! #[derive(Default)]
//! struct Books(u64);
//! impl Listener for Books {
//!     fn on_book(&mut self, book: &BookView<'_>) {
//!         assert!(book.bids().len() <= 10);
//!         self.0 += 1;
//!     }
//! }
//!
//! // A second of an emulated channel, into a capture.
//! let config = EmulatorConfig { active: Duration::from_secs(1), ..EmulatorConfig::default() };
//! let lines = connections(config.channel_id, 19_010);
//! let mut emulator = Emulator::new(config, barewire_base::Instant::ZERO)?;
//! let path = std::env::temp_dir().join(format!("barewire-doc-{}.pcap", std::process::id()));
//! let mut capture = CaptureWriter::create(&path, &lines, &emulator)?;
//! emulator.next_packets(emulator.active_until() + Duration::from_secs(1), &mut |packet| {
//!     capture.write(packet).expect("there is room");
//! });
//! capture.finish()?;
//!
//! // The handler replays it: same packets, same stamps, same books.
//! let plan = Plan {
//!     name: "doc".into(),
//!     idle: Default::default(),
//!     core: None,
//!     input: Input::Sockets(SocketOptions::default()),
//!     channels: vec![ChannelPlan::new(901, lines)],
//!     record: None,
//! };
//! let mut replay = Replay::open(std::slice::from_ref(&path), &plan.channels, true)?;
//! let mut handler = FeedHandler::builder(plan)
//!     .sources(vec![])
//!     .start(replay.next_at().expect("packets"))
//!     .listen(|_, _| Books::default())?;
//! handler.replay(&mut replay, Speed::Flat, None)?;
//! let channel = &handler.channels()[0];
//! assert!(channel.listener().0 > 100);
//! assert!(emulator.truth().compare(channel.core(), true).is_empty());
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod channel_file;
mod check;
mod config;
mod error;
mod export;
#[cfg(feature = "parquet")]
mod export_parquet;
mod feed_channel;
mod handler;
mod line;
mod plan;
pub mod print;
mod publish;
mod record;
mod replay;
mod source;

pub use barewire_text::Place;
pub use channel_file::{CHANNEL_FILE_MAX, ChannelFile, Connection, FileChannel};
pub use check::{CheckCounts, Found, check};
pub use error::{ConfigError, SourceError};
pub use export::{CsvExport, EXPORT_DEPTH_MAX, action_word, aggressor_word, cause_word};
#[cfg(feature = "parquet")]
pub use export_parquet::{PARQUET_GROUP_ROWS, ParquetExport};
pub use feed_channel::FeedChannel;
pub use handler::{FeedHandler, FeedHandlerBuilder};
pub use line::{FeedType, LineId, Side};
pub use plan::{
    BURST_MAX, CHANNELS_MAX, ChannelPlan, INSTRUMENTS_MAX, Input, LineLayout, PACKET_BYTES_MAX, Plan,
    PortOptions, RecordPlan, Recovery, Selection, SocketOptions, StampBy,
};
pub use publish::FeedCounters;
pub use record::{RecordCounts, Recorder};
pub use replay::{Replay, ReplayCounts};
pub use source::interface::Interface;
pub use source::{Consumer, Packet, PortCounts, PortSource, SocketCounts, SocketSource, Source};
