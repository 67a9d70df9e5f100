//! `barewire feed`: market data, from the wire or a capture to books; and an emulated exchange.

pub mod check;
pub mod emulate;
pub mod live;
pub mod replay;
pub mod run;
pub mod show;

use crate::console::Console;
use crate::failure::{Code, Failure};
pub use crate::verb::measured::seconds;
use anyhow::Context as _;
use barewire_feed_emulator::{Truth, connections};
use barewire_feed_handler::{ChannelPlan, Input, Plan, SocketOptions};
use clap::Subcommand;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The first UDP port of an emulated channel's lines.
pub const EMULATED_UDP_PORT: u16 = 19_010;
/// The number of an emulated channel.
pub const EMULATED_CHANNEL: u16 = 901;

/// What to do with market data.
#[derive(Subcommand)]
pub enum Feed {
    /// Receive feed channels and keep their books
    Run(Box<run::Args>),
    /// Receive feed channels and write their packets into a capture
    Record(Box<run::RecordArgs>),
    /// Replay captures through the handler, in the captures' own time
    Replay(Box<replay::Args>),
    /// Decode every message of captures completely
    Check(check::Args),
    /// Emulate an exchange: a feed channel generated from a seed, with the truth about its books
    Emulate(Box<emulate::Args>),
}

/// Runs it.
///
/// # Errors
/// What the verb could not do.
pub fn run(feed: &Feed, console: &Console) -> anyhow::Result<Code> {
    match feed {
        Feed::Run(args) => run::run(args, console),
        Feed::Record(args) => run::record(args, console),
        Feed::Replay(args) => replay::run(args, console),
        Feed::Check(args) => check::run(args, console),
        Feed::Emulate(args) => emulate::run(args, console),
    }
}

/// What helps whoever has no configuration yet.
const NO_CONFIG: &str = "without a file the channel of `barewire feed emulate` is received; the book's page Configuration files has examples";

/// Which feed channels.
#[derive(clap::Args)]
pub struct Channels {
    /// The handler's configuration (TOML; it names a channel file of the form of CME's config.xml). Without one, the
    /// channel of `feed emulate`
    #[arg(value_name = "CONFIG.toml")]
    config: Option<PathBuf>,
    /// Interface, or one of its addresses, to receive on, instead of what the configuration says
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// The emulated channel's number, when there is no configuration
    #[arg(long, value_name = "ID", default_value_t = EMULATED_CHANNEL, conflicts_with = "config")]
    channel: u16,
    /// The first UDP port of the emulated channel's lines
    #[arg(long, value_name = "PORT", default_value_t = EMULATED_UDP_PORT, conflicts_with = "config")]
    udp_port: u16,
}

impl Channels {
    /// The plan that they make.
    ///
    /// # Errors
    /// A configuration that is not right, with its place.
    pub fn plan(&self) -> anyhow::Result<Plan> {
        let mut plan = match &self.config {
            Some(path) => Plan::read(path).map_err(|error| {
                let failure = Failure::new(Code::Usage, error.to_string());
                if path.exists() { failure } else { failure.hint(NO_CONFIG) }
            })?,
            None => Plan {
                name: "feed".into(),
                idle: Default::default(),
                core: None,
                input: Input::Sockets(SocketOptions {
                    interface_a: Some("lo".into()),
                    ..SocketOptions::default()
                }),
                channels: vec![ChannelPlan::new(
                    self.channel.into(),
                    connections(self.channel, self.udp_port),
                )],
                record: None,
            },
        };
        match (&self.interface, &mut plan.input) {
            (Some(name), Input::Sockets(options)) => options.interface_a = Some(name.clone()),
            (Some(_), Input::Ports(_)) => {
                let why = "--interface is for sockets; this configuration receives from ports";
                return Err(Failure::new(Code::Usage, why).into());
            }
            (None, _) => {}
        }
        Ok(plan)
    }
}

/// Reads a truth file.
///
/// # Errors
/// When it cannot be read.
pub fn truth(path: &Path) -> anyhow::Result<Truth> {
    let shown = || format!("reading {}", path.display());
    let file = File::open(path).with_context(shown)?;
    Truth::read(&mut BufReader::new(file)).with_context(shown)
}

/// A probability.
///
/// # Errors
/// When it is none.
pub fn probability(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err("a probability from 0 to 1".to_owned()),
    }
}
