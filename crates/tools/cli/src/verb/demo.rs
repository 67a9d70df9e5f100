//! `barewire demo`: barewire beside the kernel's TCP, in half a minute.

use super::bench_seeds::place;
use super::measured::{self, Measured, machine, pin, warn_of_debug_build};
use crate::console::{Console, print};
use crate::failure::{self, Code};
use crate::signals;
use barewire_base::Duration;
use barewire_bench::plan::{Settings, cells_for, demo_systems};
use barewire_bench::reading::{ratios, reading};
use barewire_bench::render::{markdown_table, text_table};
use barewire_bench::{Cell, MsgWorkload, interrupted};
use barewire_measure::Fingerprint;

/// Each row is measured in two halves, so that its ratio has a range.
const ROUNDS: u32 = 2;
/// Requests in flight: E1 and E2 of the published tables.
const WINDOWS: [u32; 2] = [1, 32];

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Measured time of a row
    #[arg(long, default_value = "2", value_parser = measured::seconds)]
    seconds: Duration,
}

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    signals::catch()?;
    let cores = pin(None, console)?;
    let (place, with_hosts) = place(console)?;
    match &place.hosts {
        Some(hosts) => console.tell(&format!(
            "Two hosts on this machine, a veth pair between them: {} and {}. A second pair is the kernel's own, so that \
             nothing of ours is in its way.",
            hosts.eth_a.v4, hosts.eth_b.v4
        )),
        None => console.tell("Two threads of this process, memory between them. The kernel's TCP runs over loopback."),
    }
    console.tell("1024-byte requests, answered one by one; all systems take turns. Embedded: the application polls the port itself; daemon: a process of its own does.");
    let command = Fingerprint::collect().run.command_line;
    let mut cells: Vec<Box<dyn Cell>> = Vec::new();
    // System by system, as the table shows them.
    for system in demo_systems(with_hosts) {
        for window in WINDOWS {
            let workload = MsgWorkload {
                window,
                duration: args.seconds.div(u64::from(ROUNDS)),
                warmup: Duration::from_millis(200),
                runs: ROUNDS,
                ..MsgWorkload::default()
            };
            workload.validate()?;
            let settings = Settings {
                workload,
                idle: None,
                idle_state: None,
                cores,
                options: String::new(),
                command: command.clone(),
            };
            cells.extend(cells_for(std::slice::from_ref(&system), &place, &settings)?);
        }
    }
    drop(place);
    let measured = Measured::run(&mut cells, ROUNDS, console);
    drop(cells);
    if with_hosts {
        console.tell("The hosts are gone again.\n");
    }
    if interrupted() && measured.rows.is_empty() {
        return Ok(Code::Interrupted);
    }
    let rows = &measured.rows;
    print(&markdown_table(rows))?;
    print(&format!(
        "\nMeasured on: {}\n\n{}\n{}\n{}",
        machine(&measured.fingerprint),
        text_table(rows),
        ratios(rows),
        reading(rows)
    ))?;
    // A kernel without AF_XDP still has a demonstration: over `packet`.
    let ours = rows.iter().any(|r| r.system == "barewire" && r.void.is_none());
    let theirs = rows.iter().any(|r| r.system != "barewire" && r.void.is_none());
    if ours && theirs && !interrupted() {
        for error in &measured.failures {
            console.note(&format!("left out: {}", failure::text(error)));
        }
        return Ok(Code::Done);
    }
    Ok(measured.conclude(console))
}
