//! `barewire feed emulate`: a feed channel made of a seed.

use super::{EMULATED_CHANNEL, EMULATED_UDP_PORT, probability, seconds};
use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use crate::signals;
use crate::verb::measured::millis;
use anyhow::Context as _;
use barewire_base::{Duration, Instant};
use barewire_engine::{IdleStrategy, now};
use barewire_feed_emulator::{
    CaptureWriter, Emulator, EmulatorConfig, LineFaults, Sender, Truth, connections,
};
use barewire_feed_handler::Connection;
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
The same seed and options give the same packets, byte for byte. Run the handler in another shell:

  barewire feed emulate --seed 1 --seconds 10 --truth truth.jsonl
  barewire feed run --seconds 12 --truth truth.jsonl")]
pub struct Args {
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long the market runs
    #[arg(long, value_parser = seconds, default_value = "10")]
    seconds: Duration,
    /// How long the recovery loops continue afterwards
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "3")]
    after: Duration,
    /// Instruments, 1 to 10,000
    #[arg(long, default_value_t = 20)]
    instruments: u32,
    /// Market events per second, over all instruments
    #[arg(long, value_name = "RATE", default_value_t = 1000)]
    events_per_s: u32,
    /// Publish changes within this many milliseconds (or a time with its unit) together; 0: each at once
    #[arg(long, value_name = "MS", default_value = "50", value_parser = millis)]
    conflation_ms: Duration,
    /// Probability that a packet is lost, independently on each line
    #[arg(long, value_name = "P", value_parser = probability, default_value_t = 0.0)]
    loss: f64,
    /// Probability that a packet is duplicated
    #[arg(long, value_name = "P", value_parser = probability, default_value_t = 0.0)]
    duplicate: f64,
    /// Probability that a packet is delayed by a millisecond, so that others overtake it
    #[arg(long, value_name = "P", value_parser = probability, default_value_t = 0.0)]
    reorder: f64,
    /// Channel resets, in seconds after the start; several with commas
    #[arg(long, value_name = "SECONDS", value_parser = seconds, value_delimiter = ',')]
    reset: Vec<Duration>,
    /// Weekly restarts of all numbering, in seconds after the start; several with commas
    #[arg(long, value_name = "SECONDS", value_parser = seconds, value_delimiter = ',')]
    week: Vec<Duration>,
    /// Instruments added, changed and deleted per second
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    definition_changes_per_s: u32,
    /// Begin with empty books and MsgSeqNum 1, as at the start of a week
    #[arg(long)]
    from_scratch: bool,
    /// The channel's number
    #[arg(long, value_name = "ID", default_value_t = EMULATED_CHANNEL)]
    channel: u16,
    /// The first UDP port of its lines
    #[arg(long, value_name = "PORT", default_value_t = EMULATED_UDP_PORT)]
    udp_port: u16,
    /// Interface, or one of its addresses, to send from
    #[arg(long, value_name = "NAME", default_value = "lo", conflicts_with = "pcap")]
    interface: String,
    /// Write a capture instead of sending, as fast as possible
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write the final state that every book must have
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// One JSON object about what was sent
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// When nothing can be sent or written.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let faults = LineFaults {
        loss: args.loss,
        duplicate: args.duplicate,
        reorder: args.reorder,
        reorder_delay: Duration::from_millis(1),
        ..LineFaults::default()
    };
    let config = EmulatorConfig {
        seed: args.seed,
        channel_id: args.channel,
        instruments: args.instruments,
        events_per_s: args.events_per_s,
        active: args.seconds,
        conflation: args.conflation_ms,
        resets: args.reset.clone(),
        weekly_resets: args.week.clone(),
        definition_changes_per_s: args.definition_changes_per_s,
        prefill: !args.from_scratch,
        faults_a: faults,
        faults_b: faults,
        ..EmulatorConfig::default()
    };
    config.check().map_err(|error| Failure::new(Code::Usage, error.to_string()))?;
    let lines = connections(args.channel, args.udp_port);
    let emulator = match &args.pcap {
        Some(path) => write_capture(path, config, &lines, args.after)?,
        None => send_live(args, config, &lines, console)?,
    };
    let truth = emulator.truth();
    if let Some(path) = &args.truth {
        let writing = || format!("writing {}", path.display());
        let mut out = BufWriter::new(File::create(path).with_context(writing)?);
        truth.write(&mut out).and_then(|()| out.flush()).with_context(writing)?;
    }
    summary(args, &emulator, &truth)?;
    Ok(Code::Done)
}

/// Sends nothing: all packets go to a capture at once.
fn write_capture(
    path: &Path,
    config: EmulatorConfig,
    lines: &[Connection],
    after: Duration,
) -> anyhow::Result<Emulator> {
    let mut emulator = Emulator::new(config, Instant::ZERO)?;
    let mut capture = CaptureWriter::create(path, lines, &emulator)?;
    let mut written = Ok(());
    emulator.next_packets(emulator.active_until() + after, &mut |packet| {
        if written.is_ok() {
            written = capture.write(packet);
        }
    });
    written?;
    capture.finish()?;
    Ok(emulator)
}

/// Sends by the clock, until the market ends or Ctrl-C.
fn send_live(
    args: &Args,
    config: EmulatorConfig,
    lines: &[Connection],
    console: &Console,
) -> anyhow::Result<Emulator> {
    signals::catch()?;
    let sender = Sender::open(lines, Some(&args.interface))?;
    let mut emulator = Emulator::new(config, now())?;
    console.note(&format!(
        "feed channel {} on {}: {}; seed {}",
        args.channel,
        args.interface,
        lines
            .iter()
            .map(|line| format!("{}{} {}", line.feed.letters(), line.side, line.to))
            .collect::<Vec<_>>()
            .join(", "),
        args.seed
    ));
    let end = emulator.active_until() + args.after;
    // In pieces: between them a Ctrl-C is seen.
    while now() < end && !barewire_bench::interrupted() {
        let until = end.min(now() + Duration::from_millis(100));
        sender.run(&mut emulator, until, IdleStrategy::default(), None)?;
    }
    if barewire_bench::interrupted() && now() < emulator.active_until() {
        console.note("the market was stopped before its end: the truth is that of now");
    }
    if sender.refused.get() > 0 {
        console.note(&format!("{} packets found the kernel's buffers full", sender.refused.get()));
    }
    Ok(emulator)
}

fn summary(args: &Args, emulator: &Emulator, truth: &Truth) -> anyhow::Result<()> {
    let [a, b] = emulator.line_counts();
    let counts = emulator.counts();
    let header = &truth.header;
    if args.json {
        print(
            &json!({
                "schema": 1, "channel": header.channel_id, "seed": header.seed, "packets": header.packets,
                "last_seq_num": header.last_seq_num, "resets": header.resets, "books": truth.books.len(),
                "lost_a": a.lost, "lost_b": b.lost,
                "weeks": counts.weeks, "listed": counts.listed, "delisted": counts.delisted,
            })
            .to_string(),
        )?;
    } else {
        print(&format!(
            "{} incremental packets, the last with MsgSeqNum {}; {} instruments ({} listed, {} delisted meanwhile), {} resets, {} weekly \
             restarts; lost on the way: {} on A, {} on B",
            header.packets,
            header.last_seq_num,
            truth.books.len(),
            counts.listed,
            counts.delisted,
            header.resets,
            counts.weeks,
            a.lost,
            b.lost
        ))?;
    }
    Ok(())
}
