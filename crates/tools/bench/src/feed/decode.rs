//! Our decoder beside the one that the SBE tool generates, on the same bytes, every field read.
//!
//! The tool's decoder is made for the run, in a temporary folder: it needs Java, the tool (a JAR, which Maven fetches when it is
//! not named), the exchange's schema and cargo. What is missing is said in the row.

use crate::cpu::Charge;
use crate::error::BenchError;
use crate::row::{Measure, Measured, Param, Row, Subject, Unit};
use crate::run::{Workload, interleave};
use barewire_base::Duration;
use barewire_measure::stamp;
use barewire_sbe::mdp3::{
    MatchEventIndicator, MdEntryTypeBook, MdIncrementalRefreshBook46, MdIncrementalRefreshBook46Encoder,
    MdUpdateAction, OrderUpdateAction,
};
use barewire_sbe::{EncodeError, Message, MessageView, Packet, PacketEncoder, Price9};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Entries of the message, as a captured one has.
const ENTRIES: u8 = 23;
/// Orders behind them.
const ORDERS: u8 = 16;
/// Messages of one timing.
const REPEATS: u32 = 1_000_000;
/// The tool, by its coordinates.
const TOOL: &str = "uk.co.real-logic:sbe-all:1.38.1";
/// What its rows are of.
const TOOL_NAME: &str = "sbe-tool";
const TOOL_FILE: &str = "sbe-all-1.38.1.jar";
const DRIVER: &str = include_str!("sbe_tool_driver.txt");
const DRIVER_MANIFEST: &str = "[package]\nname = \"driver\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[dependencies]\n\
    mktdata = { path = \"../generated/mktdata\" }\n\n[profile.release]\nlto = \"fat\"\ncodegen-units = 1\n\n[workspace]\n";

const MEASURES: &[Measure] = &[
    Measure::cost("ns_per_message", "ns/message", "time a message"),
    // Of the tool's rows: the median of the runs' ratios.
    Measure::rate("ours_is_times_faster", "", "ours is times faster").neutral().in_unit(Unit::None, 0.001),
];

/// Where the tool's decoder comes from.
#[derive(Clone, Debug, Default)]
pub struct SbeTool {
    /// The exchange's schema, as XML.
    pub schema: Option<PathBuf>,
    /// The tool's JAR. Without one Maven fetches it.
    pub jar: Option<PathBuf>,
}

/// A packet with one message of [`ENTRIES`] entries and `orders` orders.
fn packet(buf: &mut [u8], orders: u8) -> Result<&[u8], EncodeError> {
    let mut packet = PacketEncoder::new(buf, 1, 1_600_000_000_000_000_000)?;
    let mut book = MdIncrementalRefreshBook46Encoder::new(packet.room())?;
    book.transact_time(1_600_000_000_000_000_000).match_event_indicator(MatchEventIndicator::END_OF_EVENT);
    let mut entries = book.md_entries()?;
    for i in 0..ENTRIES {
        entries
            .push()?
            .md_entry_px(Price9(2_768_250_000_000 + i64::from(i) * 250_000_000))
            .md_entry_size(10 + i32::from(i))
            .security_id(23_252)
            .rpt_seq(1_000 + u32::from(i))
            .number_of_orders(1 + i32::from(i))
            .md_price_level(1 + i % 10)
            .md_update_action(MdUpdateAction(i % 3))
            .md_entry_type(if i % 2 == 0 { MdEntryTypeBook::BID } else { MdEntryTypeBook::OFFER });
    }
    let mut list = book.order_id_entries()?;
    for i in 0..orders {
        let mut order = list.push()?;
        let id = 8_000_000_000 + u64::from(i);
        order.order_id(id).md_order_priority(u64::from(i)).md_display_qty(i32::from(i));
        order.reference_id(1 + i).order_update_action(OrderUpdateAction(i % 3));
    }
    let len = book.finish()?;
    packet.advance(len);
    Ok(packet.finish())
}

/// Every field of the message, in one number; fields without a value count nothing. Begins where the tool's does, with the message's
/// own header, so that both are timed over the same span.
#[inline(never)]
fn read(bytes: &[u8]) -> u64 {
    let Ok(message) = Message::parse(bytes) else { return 0 };
    let Ok(book) = MdIncrementalRefreshBook46::decode(&message) else { return 0 };
    let mut sum = book.transact_time().wrapping_add(u64::from(book.match_event_indicator().0));
    for entry in book.md_entries() {
        sum = sum
            .wrapping_add(entry.md_entry_px().map_or(0, |price| price.0) as u64)
            .wrapping_add(entry.md_entry_size().unwrap_or(0) as u64)
            .wrapping_add(entry.security_id() as u64)
            .wrapping_add(u64::from(entry.rpt_seq()))
            .wrapping_add(entry.number_of_orders().unwrap_or(0) as u64)
            .wrapping_add(u64::from(entry.md_price_level()))
            .wrapping_add(u64::from(entry.md_update_action().0))
            .wrapping_add(u64::from(entry.md_entry_type().0))
            .wrapping_add(entry.tradeable_size().unwrap_or(0) as u64);
    }
    for order in book.order_id_entries() {
        sum = sum
            .wrapping_add(order.order_id())
            .wrapping_add(order.md_order_priority().unwrap_or(0))
            .wrapping_add(order.md_display_qty().unwrap_or(0) as u64)
            .wrapping_add(u64::from(order.reference_id().unwrap_or(0)))
            .wrapping_add(u64::from(order.order_update_action().0));
    }
    sum
}

/// Nanoseconds of one message. As the tool's driver does it.
fn time_ours(message: &[u8], repeats: u32) -> f64 {
    for _ in 0..repeats / 10 {
        black_box(read(black_box(message)));
    }
    let start = stamp();
    for _ in 0..repeats {
        black_box(read(black_box(message)));
    }
    stamp().since(start).as_nanos() as f64 / f64::from(repeats)
}

/// One decoder on one message, every field read.
struct Decoder<'a> {
    /// The message with its header, and what of a packet stands before it.
    packet: &'a [u8],
    orders: u8,
    /// The tool's program that times it, and the message as a file; `None`: ours.
    theirs: Option<(&'a Path, PathBuf)>,
    /// Why it has no figure: it reads other values, or failed.
    missing: Option<String>,
    command: &'a str,
}

impl Decoder<'_> {
    fn message(&self) -> Result<&[u8], BenchError> {
        Packet::parse(self.packet).map(|packet| packet.body()).map_err(|e| BenchError::Plan(e.to_string()))
    }

    fn subject(&self) -> Subject {
        let system = if self.theirs.is_some() { TOOL_NAME } else { "barewire" };
        let message = format!("MDIncrementalRefreshBook46, {ENTRIES} entries, {} orders", self.orders);
        let bytes = self.packet.len() - 12;
        Subject {
            bench: "feed-decoders",
            system: system.to_owned(),
            params: vec![
                Param::word("decoder", system),
                Param::word("message", message),
                Param::new("bytes", Unit::Bytes, bytes),
            ],
            command: self.command.to_owned(),
            ..Subject::default()
        }
    }
}

impl Workload for Decoder<'_> {
    fn subjects(&self) -> Vec<Subject> {
        vec![self.subject()]
    }

    fn measures(&self) -> &'static [Measure] {
        MEASURES
    }

    fn planned(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn slice(&mut self, _round: u32, cpu: &Charge) -> Result<Vec<Measured>, BenchError> {
        let message = self.message()?;
        cpu.begins();
        let ns = match &self.theirs {
            None => Some(time_ours(message, REPEATS)),
            Some(_) if self.missing.is_some() => None,
            Some((driver, file)) => match time_theirs(driver, file) {
                Ok((ns, sum)) if sum == read(message) => Some(ns),
                Ok((_, sum)) => {
                    self.missing = Some(format!("it reads other values: {sum:x}, ours {:x}", read(message)));
                    None
                }
                Err(why) => {
                    self.missing = Some(why);
                    None
                }
            },
        };
        cpu.ends();
        // A tenth more warms up, of ours and of the tool's.
        let measured =
            |ns| Measured::default().operations(REPEATS as u64 / 10 * 11).number("ns_per_message", ns);
        Ok(vec![ns.map_or_else(Measured::default, measured)])
    }

    fn judge(&self, row: &mut Row) {
        if let Some(why) = &self.missing {
            *row = Row::missing(self.subject(), MEASURES, why);
        }
    }
}

/// Times both, in turns, `runs` times, without orders and with them: ours first, then the tool's.
///
/// # Errors
/// [`BenchError`] when our own side fails; what the tool lacks is said in its row.
pub fn measure(
    tool: &SbeTool,
    runs: u32,
    command: &str,
    progress: &mut dyn FnMut(String),
) -> Result<Vec<Row>, BenchError> {
    let folder = Folder::new()?;
    let driver = build_driver(tool, &folder.0, progress);
    let mut buffers = [[0u8; 2048]; 2];
    let mut decoders: Vec<Box<dyn Workload + '_>> = Vec::new();
    for (orders, buffer) in [0, ORDERS].into_iter().zip(&mut buffers) {
        let packet = packet(buffer, orders).map_err(|e| BenchError::Plan(e.to_string()))?;
        let file = folder.0.join(format!("message-{orders}"));
        // Behind the packet's header and MsgSize: what the tool calls a message begins with its own header.
        std::fs::write(&file, &packet[14..]).map_err(BenchError::io("writing the message"))?;
        let decoder = |theirs, missing| Decoder { packet, orders, theirs, missing, command };
        decoders.push(Box::new(decoder(None, None)));
        let path = driver.as_deref().unwrap_or(Path::new(""));
        decoders.push(Box::new(decoder(Some((path, file)), driver.as_ref().err().cloned())));
    }
    let (mut rows, mut failures) = interleave(&mut decoders, runs, progress, &mut |_| {});
    for pair in rows.chunks_exact_mut(2) {
        let [ours, theirs] = pair else { continue };
        let ours = ours.each_run("ns_per_message");
        theirs.set_beside("ours_is_times_faster", "ns_per_message", &ours, |theirs, ours| theirs / ours);
    }
    match failures.pop() {
        Some(error) if rows.is_empty() => Err(error),
        _ => Ok(rows),
    }
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, BenchError> {
        let path = std::env::temp_dir().join(format!("barewire-sbe-tool-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .map_err(BenchError::io(format!("making the folder {}", path.display())))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(program: &str, command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("");
    Err(format!("{program} failed ({}): {last}", output.status))
}

/// Makes the tool's decoder, and gives the program that times it; or says what is missing.
fn build_driver(tool: &SbeTool, folder: &Path, progress: &mut dyn FnMut(String)) -> Result<PathBuf, String> {
    let schema = tool.schema.as_ref().ok_or("the exchange's schema is not given (`--schema FILE`)")?;
    let schema = schema.canonicalize().map_err(|e| format!("{}: {e}", schema.display()))?;
    run("java", Command::new("java").arg("-version"))?;
    let jar = match &tool.jar {
        Some(jar) => jar.canonicalize().map_err(|e| format!("{}: {e}", jar.display()))?,
        None => {
            progress(format!("fetching {TOOL}"));
            let mut maven = Command::new("mvn");
            maven.args(["-q", "-B", "dependency:copy"]);
            maven.arg(format!("-Dartifact={TOOL}")).arg(format!("-DoutputDirectory={}", folder.display()));
            run("mvn", &mut maven)?;
            folder.join(TOOL_FILE)
        }
    };
    progress("generating and building the SBE tool's decoder".to_owned());
    let mut java = Command::new("java");
    java.args(["--add-opens", "java.base/jdk.internal.misc=ALL-UNNAMED", "-Dsbe.target.language=Rust"]);
    java.arg(format!("-Dsbe.output.dir={}", folder.join("generated").display()));
    run("the SBE tool", java.arg("-jar").arg(jar).arg(schema))?;
    if !folder.join("generated/mktdata").is_dir() {
        return Err("the schema's package is not `mktdata`: another exchange's?".to_owned());
    }
    let source = folder.join("driver/src");
    let write = |path: PathBuf, text: &str| std::fs::write(path, text).map_err(|e| e.to_string());
    std::fs::create_dir_all(&source).map_err(|e| e.to_string())?;
    write(folder.join("driver/Cargo.toml"), DRIVER_MANIFEST)?;
    write(source.join("main.rs"), DRIVER)?;
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet"]).current_dir(folder.join("driver"));
    run("cargo", cargo.env("CARGO_TARGET_DIR", folder.join("target")))?;
    Ok(folder.join("target/release/driver"))
}

fn time_theirs(driver: &Path, message: &Path) -> Result<(f64, u64), String> {
    let said = run("the SBE tool's decoder", Command::new(driver).arg(message).arg(REPEATS.to_string()))?;
    let mut words = said.split_whitespace();
    let ns = words.next().and_then(|word| word.parse().ok());
    ns.zip(words.next().and_then(|word| word.parse().ok())).ok_or_else(|| format!("it said {said:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_side_reads_every_field_and_what_is_missing_is_said() {
        let rows = measure(&SbeTool::default(), 1, "", &mut |_| {}).unwrap();
        assert_eq!(rows.len(), 4);
        for pair in rows.chunks(2) {
            assert!(pair[0].number("ns_per_message").unwrap() > 0.0);
            assert_eq!(
                (pair[1].subject.system.as_str(), pair[1].number("ns_per_message")),
                ("sbe-tool", None)
            );
            assert!(pair[1].missing.as_deref().unwrap().contains("--schema"), "{pair:?}");
        }
        let mut buf = [0u8; 2048];
        let bytes = packet(&mut buf, 1).unwrap();
        let message = Packet::parse(bytes).unwrap().body();
        // The sum depends on every field: here on the order's alone.
        let with_one = read(message);
        let mut other = [0u8; 2048];
        let bytes = packet(&mut other, 0).unwrap();
        let message = Packet::parse(bytes).unwrap().body();
        // Cut before its end, or within its header, it has no sum: both are looked at inside.
        assert_eq!((read(&message[..message.len() - 1]), read(&message[..9])), (0, 0));
        assert_eq!(with_one.wrapping_sub(read(message)), 8_000_000_000 + 1);
    }
}
