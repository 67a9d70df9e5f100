//! Prints the best of every book as it changes.
//!
//! `print_book FEED.toml` handles the feed channels of a configuration until it is interrupted. Without a file, an emulated
//! channel is sent over the loopback interface for `SECONDS` (default 2) and handled beside it; then every book is compared
//! with the emulator's truth: `print_book [--seconds SECONDS] [--seed SEED]`.

use barewire_base::Duration;
use barewire_engine::{Engine, IdleStrategy, StopFlag, now};
use barewire_feed::{BookView, Gap, Level, Listener, RecoveryInfo};
use barewire_feed_emulator::{Emulator, EmulatorConfig, LineFaults, Sender, connections};
use barewire_feed_handler::{ChannelPlan, FeedHandler, Input, Plan, SocketOptions, SourceError};
use barewire_sbe::Price9;
use std::error::Error;
use std::io::Write as _;
use std::path::Path;

/// Prints; counts what it has printed.
#[derive(Default)]
struct Print {
    books: u64,
}

impl Listener for Print {
    fn on_book(&mut self, book: &BookView<'_>) {
        self.books += 1;
        let show = |level: Option<&Level>| match level {
            Some(level) => format!("{} x {}", Price9(level.price), level.quantity),
            None => "-".to_owned(),
        };
        let (bid, offer) = (show(book.bids().first()), show(book.offers().first()));
        let name = book.instrument.symbol.as_str();
        // A closed pipe ends the printing, not the handler.
        let _ = writeln!(
            std::io::stdout(),
            "{:>8} {name:<10} {bid:>24} | {offer:<24} {:?}",
            book.instrument.security_id,
            book.state
        );
    }

    fn on_gap(&mut self, gap: &Gap) {
        eprintln!("packets {} to {} are lost", gap.first, gap.last);
    }

    fn on_recovery_end(&mut self, info: &RecoveryInfo) {
        eprintln!("all {} instruments are good", info.instruments);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut file, mut seconds, mut seed) = (None, 2, 1);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => seconds = arguments.next().ok_or("--seconds SECONDS")?.parse()?,
            "--seed" => seed = arguments.next().ok_or("--seed SEED")?.parse()?,
            _ => file = Some(argument),
        }
    }
    match file {
        Some(file) => live(Path::new(&file)),
        None => emulated(seed, Duration::from_secs(seconds)),
    }
}

/// The channels of a configuration, on an engine of their own.
fn live(path: &Path) -> Result<(), Box<dyn Error>> {
    let plan = Plan::read(path)?;
    let stop = StopFlag::new()?;
    let config = plan.engine_config();
    let at_end = stop.clone();
    let build = move || {
        let handler = FeedHandler::builder(plan).stop_at_end(at_end).listen(|_, _| Print::default())?;
        Ok::<_, SourceError>(vec![Box::new(handler) as Box<dyn barewire_engine::Agent>])
    };
    Engine::spawn(config, build, &stop)?.join()?;
    Ok(())
}

/// An emulated channel over the loopback interface, in one thread: the handler is driven by this loop.
fn emulated(seed: u64, active: Duration) -> Result<(), Box<dyn Error>> {
    let loss = LineFaults { loss: 0.01, ..LineFaults::default() };
    let config = EmulatorConfig { seed, active, faults_a: loss, faults_b: loss, ..EmulatorConfig::default() };
    let lines = connections(config.channel_id, 19_010);
    let plan = Plan {
        name: "print_book".into(),
        idle: IdleStrategy::Yield,
        core: None,
        input: Input::Sockets(SocketOptions { interface_a: Some("lo".into()), ..SocketOptions::default() }),
        channels: vec![ChannelPlan::new(config.channel_id.into(), lines.clone())],
        record: None,
    };
    let mut handler = FeedHandler::builder(plan).listen(|_, _| Print::default())?;
    let sender = Sender::open(&lines, Some("lo"))?;
    let mut emulator = Emulator::new(config, now())?;
    // The loops go on a little longer than the market: what was lost last is made good.
    let end = emulator.active_until() + Duration::from_secs(1);
    while now() < end {
        let mut sent = Ok(());
        emulator.next_packets(now(), &mut |packet| {
            if sent.is_ok() {
                sent = sender.send(packet);
            }
        });
        sent?;
        if handler.process(now())? == 0 {
            std::thread::yield_now();
        }
    }
    let channel = &handler.channels()[0];
    let differences = emulator.truth().compare(channel.core(), true);
    for difference in &differences {
        eprintln!("{difference}");
    }
    eprintln!("{} books shown; {} differ from the truth", channel.listener().books, differences.len());
    if differences.is_empty() { Ok(()) } else { Err("the books are not the truth".into()) }
}
