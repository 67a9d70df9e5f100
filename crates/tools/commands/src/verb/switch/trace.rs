//! `barewire switch trace`: what happens to a packet, step by step.

use super::source::SourceArgs;
use super::{load, prepare};
use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_p4::interp::trace::hex;
use barewire_port::PcapReader;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::harness::{Harness, Sent};
use barewire_switch::prepared::EngineKind;
use barewire_switch_control::cli::{ScriptOptions, Session, run_script};
use serde_json::json;
use std::io::BufReader;
use std::path::PathBuf;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// The program: P4 source (`.p4`), or JSON as p4c's bmv2 back end writes it
    program: PathBuf,
    /// A packet as hexadecimal digits, spaces allowed; may be repeated
    #[arg(long, value_name = "HEX", required_unless_present = "pcap")]
    packet: Vec<String>,
    /// Packets from a capture
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Ingress port of the packets
    #[arg(long, default_value_t = 1)]
    port: u32,
    /// Commands that fill the tables, as for `barewire switch cli`
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,
    /// Egress port that means drop
    #[arg(long, default_value_t = 511)]
    drop_port: u32,
    /// One JSON object for each packet instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceArgs,
}

fn packets(args: &Args) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut packets = Vec::new();
    for text in &args.packet {
        let digits: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let pair = |at: usize| digits.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(pair).collect();
        packets.push(bytes.ok_or_else(|| {
            Failure::new(
                Code::Usage,
                format!("--packet: '{text}' is not an even number of hexadecimal digits"),
            )
        })?);
    }
    if let Some(path) = &args.pcap {
        let mut reader = PcapReader::open(path).with_context(|| format!("reading {}", path.display()))?;
        while let Some(packet) =
            reader.next_packet().with_context(|| format!("reading {}", path.display()))?
        {
            packets.push(packet.data.to_vec());
        }
    }
    Ok(packets)
}

/// Runs it.
///
/// # Errors
/// When a file cannot be read, or an entry is refused.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let program = load(&args.program, &args.source.options(), console)?;
    let packets = packets(args)?;
    let target = TargetConfig { drop_port: args.drop_port, ..TargetConfig::default() };
    let refused = |error: &dyn std::fmt::Display| Failure::new(Code::Failed, error.to_string());
    let mut harness =
        Harness::new(prepare(&program, EngineKind::Interpreter)?, target).map_err(|e| refused(&e))?;
    if let Some(path) = &args.entries {
        let file = std::fs::File::open(path).with_context(|| format!("reading {}", path.display()))?;
        let mut session = Session::local(harness.switch().clone()).map_err(|e| refused(&e))?;
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let options = ScriptOptions::default();
        let report = run_script(&mut session, BufReader::new(file), &mut out, &mut notes, options)?;
        if let Some(line) = report.first_failure {
            let said = String::from_utf8_lossy(&out).into_owned();
            return Err(Failure::new(Code::Failed, format!("{}: line {line} was refused", path.display()))
                .hint(
                    said.lines()
                        .rfind(|l| l.contains("rror") || l.contains("nvalid"))
                        .unwrap_or("see its answer"),
                )
                .into());
        }
    }
    harness.trace();
    for (number, packet) in packets.iter().enumerate() {
        harness.advance_us(10);
        let sent =
            harness.send(args.port, packet).ok_or_else(|| refused(&"a packet is longer than a frame"))?;
        let events = harness.take_trace();
        let drops: Vec<_> = {
            let datapath = &harness.plane().datapath;
            datapath.drops().iter().filter(|(_, n)| *n > 0).map(|(reason, n)| (reason.as_str(), n)).collect()
        };
        let text = if args.json {
            let out: Vec<_> = sent.iter().map(|s| json!({"port": s.port, "bytes": hex(&s.bytes)})).collect();
            json!({
                "schema": 1,
                "packet": number,
                "port": args.port,
                "bytes": hex(packet),
                "events": events,
                "out": out,
                "drops_so_far": drops.iter().map(|(r, n)| json!({"reason": r, "count": n})).collect::<Vec<_>>(),
            })
            .to_string()
        } else {
            let mut text = format!("packet {number}: {} bytes in at port {}\n", packet.len(), args.port);
            for event in &events {
                text.push_str(&format!("  {event}\n"));
            }
            text.push_str(&fate(&sent, &drops));
            text
        };
        print(&text)?;
    }
    Ok(Code::Done)
}

fn fate(sent: &[Sent], drops: &[(&str, u64)]) -> String {
    let mut text = String::new();
    for packet in sent {
        text.push_str(&format!("  out at port {}: {}\n", packet.port, hex(&packet.bytes)));
    }
    if sent.is_empty() {
        let reasons: Vec<String> = drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        text.push_str(&format!("  nothing came out (drops so far: {})\n", reasons.join(", ")));
    }
    text
}
