//! `barewire feed check`: is every byte of a capture understood?

use crate::console::{self, Console, print};
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_feed_handler::Found;
use barewire_sbe::layout::Schema;
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "Exit code 0 when every message was decoded to its last byte, 1 when not.")]
pub struct Args {
    /// Captures of market data (pcap or pcapng)
    #[arg(required = true)]
    captures: Vec<PathBuf>,
    /// The exchange's templates_FixBinary.xml instead of the schema that is built in
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// A JSON object for each message, with all its fields
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// When a file cannot be read.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let loaded;
    let schema = match &args.schema {
        Some(path) => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            loaded = Schema::from_xml(&text)
                .map_err(|error| Failure::new(Code::Failed, format!("{}: {error}", path.display())))?;
            &loaded
        }
        None => barewire_sbe::mdp3::schema(),
    };
    let mut good = true;
    for path in &args.captures {
        let mut out = std::io::BufWriter::new(console::out());
        let mut written = Ok(());
        let mut line = |text: std::fmt::Arguments<'_>| {
            if written.is_ok() {
                written = writeln!(out, "{text}");
            }
            written.is_ok()
        };
        let capture = path.display();
        let counts = barewire_feed_handler::check(path, schema, &mut |found| match found {
            Found::Message { frame, stamp_ns, seq_num, sending_time_ns, message, name, json } => {
                if args.json {
                    line(format_args!(
                        "{{\"frame\":{frame},\"stamp_ns\":{stamp_ns},\"seq_num\":{seq_num},\
                         \"sending_time_ns\":{sending_time_ns},\"bytes\":{},\"message\":{json}}}",
                        message.size()
                    ))
                } else {
                    line(format_args!(
                        "{capture} frame {frame} seq {seq_num} {name} v{} {} B",
                        message.version,
                        message.size()
                    ))
                }
            }
            Found::Faulty { frame, why } => {
                if args.json {
                    line(format_args!("{}", json!({"frame": frame, "faulty": why})))
                } else {
                    line(format_args!("{capture} frame {frame} FAULTY {why}"))
                }
            }
            _ => true,
        })?;
        out.flush()?;
        drop(out);
        written?;
        let whole = counts.faulty == 0;
        good &= whole;
        let summary = format!(
            "{capture}: {} messages in {} frames decoded to the last byte, {} faulty, {} frames of something else",
            counts.messages, counts.frames, counts.faulty, counts.others
        );
        if args.json { console.tell(&summary) } else { print(&summary)? }
    }
    Ok(if good { Code::Done } else { Code::Failed })
}
