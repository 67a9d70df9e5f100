//! `barewire bench seeds`: the published message-service tables beside the same experiments run here.

use super::measured::{self, Measured, machine, pin, warn_of_debug_build};
use crate::console::{Console, print};
use crate::failure::Code;
use crate::signals;
use barewire_base::Duration;
use barewire_bench::plan::{Place, Settings, cells_for, seed_systems};
use barewire_bench::reading::ratios;
use barewire_bench::seeds::message_tables;
use barewire_bench::seeds_data::{HardwareClass, PUBLISHED_SIZE};
use barewire_bench::{Cell, MsgWorkload};
use barewire_measure::Fingerprint;
use std::path::PathBuf;

/// Requests in flight: E1 and E2 of the published tables.
const WINDOWS: [u32; 2] = [1, 32];

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// One run of a second for each row, instead of three of three seconds
    #[arg(long)]
    quick: bool,
    /// Measured time of a run
    #[arg(long, value_parser = measured::seconds)]
    seconds: Option<Duration>,
    /// Runs of each system
    #[arg(long)]
    runs: Option<u32>,
    /// Print one JSON object with the rows measured here, instead of tables
    #[arg(long)]
    json: bool,
    /// Write the JSON object to a file, too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    signals::catch()?;
    let cores = pin(None, console)?;
    let (seconds, runs) = if args.quick { (1, 1) } else { (3, 3) };
    let runs = args.runs.unwrap_or(runs);
    let (place, with_hosts) = place(console)?;
    let mut cells: Vec<Box<dyn Cell>> = Vec::new();
    for window in WINDOWS {
        let workload = MsgWorkload {
            size: PUBLISHED_SIZE,
            window,
            duration: args.seconds.unwrap_or(Duration::from_secs(seconds)),
            warmup: Duration::from_millis(200),
            runs,
            ..MsgWorkload::default()
        };
        workload.validate()?;
        let settings = Settings {
            workload,
            idle: None,
            idle_state: None,
            cores,
            options: String::new(),
            command: Fingerprint::collect().run.command_line,
        };
        cells.extend(cells_for(&seed_systems(with_hosts), &place, &settings)?);
    }
    drop(place);
    let measured = Measured::run(&mut cells, runs, console);
    drop(cells);
    measured.save(args.out.as_deref())?;
    if args.json {
        print(&measured.document())?;
    } else {
        let machine = machine(&measured.fingerprint);
        print(&message_tables(&measured.rows, &machine, HardwareClass::OneMachine))?;
        print(&format!("\n## Ratios\n\n```text\n{}```\n", ratios(&measured.rows)))?;
    }
    Ok(measured.conclude(console))
}

/// Hosts where they can be made; else memory and loopback, and a loud note why.
pub fn place(console: &Console) -> anyhow::Result<(Place, bool)> {
    match Place::prepare(&seed_systems(true)) {
        Ok(place) => Ok((place, true)),
        Err(why) => {
            console
                .note(&format!("WITHOUT packets: memory and loopback only, as no hosts can be made: {why}"));
            if let Some(hint) = why.hint() {
                console.hint(hint);
            }
            Ok((Place::nothing(), false))
        }
    }
}
