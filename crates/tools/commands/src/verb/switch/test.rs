//! `barewire switch test`: an STF packet test through the engines in user space, or through the kernel.

use super::source::SourceArgs;
use super::{Engine, load, prepare};
use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::prepared::EngineKind;
use barewire_switch::stf::{self, Outcome};
use serde_json::json;
use std::path::PathBuf;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "Exit code 0 when the test passes on every engine asked for, 1 when not.")]
pub struct Args {
    /// The program: P4 source (`.p4`), or JSON as p4c's bmv2 back end writes it
    program: PathBuf,
    /// The test
    test: PathBuf,
    /// One engine only; with kernel the program runs in the kernel, on the test's packets and without an interface (root)
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// Egress port that means drop
    #[arg(long, default_value_t = 511)]
    drop_port: u32,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceArgs,
}

/// Runs it.
///
/// # Errors
/// When a file cannot be read, or the test cannot be run.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let program = load(&args.program, &args.source.options(), console)?;
    let text =
        std::fs::read_to_string(&args.test).with_context(|| format!("reading {}", args.test.display()))?;
    let engines = match args.engine {
        Some(engine) => vec![engine.into()],
        None => vec![EngineKind::Interpreter, EngineKind::Native],
    };
    let mut results = Vec::new();
    for engine in engines {
        let target = TargetConfig { drop_port: args.drop_port, ..TargetConfig::default() };
        let outcome = stf::run(prepare(&program, engine)?, target, &text)
            .map_err(|error| Failure::new(Code::Failed, format!("{}: {error}", args.test.display())))?;
        results.push((engine, outcome));
    }
    let passed = results.iter().all(|(_, outcome)| outcome.passed());
    if args.json {
        let engines: Vec<_> = results.iter().map(|(engine, outcome)| as_json(*engine, outcome)).collect();
        print(&json!({"schema": 1, "test": args.test, "passed": passed, "engines": engines}).to_string())?;
    } else {
        let mut lines = String::new();
        for (engine, outcome) in &results {
            let verdict = if outcome.passed() { "PASS" } else { "FAIL" };
            let (sent, received) = (outcome.sent, outcome.received);
            let handed_over = match (engine, outcome.handed_over) {
                (EngineKind::Kernel, count) => format!(", {count} handed over to user space"),
                _ => String::new(),
            };
            lines.push_str(&format!("{verdict} {engine}: {sent} packets in, {received} out{handed_over}\n"));
            for line in outcome.wrong.iter().chain(&outcome.shown) {
                lines.push_str(&format!("  {}\n", line.replace('\n', "\n  ")));
            }
        }
        print(&lines)?;
    }
    Ok(if passed { Code::Done } else { Code::Failed })
}

fn as_json(engine: EngineKind, outcome: &Outcome) -> serde_json::Value {
    json!({
        "engine": engine.to_string(),
        "passed": outcome.passed(),
        "packets_in": outcome.sent,
        "packets_out": outcome.received,
        "handed_over": outcome.handed_over,
        "wrong": outcome.wrong,
        "shown": outcome.shown,
    })
}
