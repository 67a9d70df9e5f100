//! `barewire demo`: the four programs beside what is known, in about four minutes.

use super::bench_published::place;
use super::measured::{self, MeasuredOutputArgs, SoFar, machine, pin, warn_of_debug_build};
use super::programs::{Measuring, Programs};
use super::report;
use crate::console::{Console, print};
use crate::failure::{self, Code};
use crate::signals;
use anyhow::anyhow;
use barewire_base::Duration;
use barewire_bench::demo::{Demo, ROUNDS, SWEEP_ROUNDS};
use barewire_bench::messages::plan::{Place, Settings, System, cells_for};
use barewire_bench::messages::reading::{ratios, reading};
use barewire_bench::messages::render::text_table;
use barewire_bench::{Cell, Results, Ticker, feed, interrupted, rdma, render, time_text};
use barewire_report::report::Options;
use barewire_report::run::HardwareClass;
use std::path::PathBuf;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Measured time of a row
    #[arg(long, default_value = "2", value_parser = measured::seconds)]
    seconds: Duration,
    /// Write one HTML page that works offline
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    output: MeasuredOutputArgs,
}

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    signals::catch()?;
    let cores = pin(None, console)?;
    let mut results = Results::begin();
    let (place, no_hosts) = place(console)?;
    match &place.hosts {
        Some(hosts) => console.tell(&format!(
            "Two hosts on this machine, a veth pair between them: {} and {}. The kernel's baselines have a second pair, \
             without an XDP program.",
            hosts.eth_a.v4, hosts.eth_b.v4
        )),
        None => console.tell("Two threads of this process, memory between them. The kernel's TCP runs over loopback."),
    }
    let demo = Demo {
        seconds: args.seconds,
        with_hosts: no_hosts.is_none(),
        cores,
        command: results.fingerprint().run.command_line.clone(),
    };
    let times = demo.planned_times().map_err(|why| anyhow!(why))?;
    let whole = times.iter().fold(Duration::ZERO, |a, b| a + *b);
    console.tell(&format!(
        "Messages, a P4 switch, market data, RDMA connections: at most {}. Requests of 1,024 bytes; all systems take turns. Embedded: the application polls the port itself; daemon: a process of its own does.",
        time_text(whole)
    ));
    args.output.control(&mut results, console);
    if let Some(why) = &no_hosts {
        results.caveat(format!("without packets: memory and loopback only, as no hosts can be made: {why}"));
    }
    results.caveat(
        "a demonstration: five runs of less than a second for each row; `barewire bench` measures longer",
    );
    let mut ticker = console.ticker(whole);
    let so_far = args.output.so_far("demo", &results, HardwareClass::OneMachine);
    let (shown, so_far) = measure(&demo, place, times, &mut ticker, so_far)?;
    drop(ticker);
    if demo.with_hosts {
        console.tell("Removed the hosts.\n");
    }
    if interrupted() && shown.messages.is_empty() {
        return Ok(Code::Interrupted);
    }
    shown.add_to(&mut results)?;
    let text = || text(&shown, &machine(results.fingerprint()));
    let folder = args.output.end(&results, "demo", HardwareClass::OneMachine, &[], console, text)?;
    so_far.end();
    if let Some(path) = &args.report {
        let options = Options { title: "barewire demo".to_owned(), all_published: true };
        let head = args.output.head("demo", HardwareClass::OneMachine);
        report::page_of(&results, folder.as_deref(), &head, &options, path)?;
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        if !args.output.json {
            print(&format!("\nThe report with its pictures: {}", whole.display()))?;
        }
    }
    Ok(conclude(shown, console))
}

/// A kernel without AF_XDP still has a demonstration, over `packet`, but not the whole of it.
fn conclude(shown: Programs, console: &Console) -> Code {
    let rows = &shown.messages;
    let ours = rows.iter().any(|r| r.subject.system == "barewire" && r.void.is_none());
    let theirs = rows.iter().any(|r| r.subject.system != "barewire" && r.void.is_none());
    if ours && theirs && !interrupted() {
        for (_, error) in &shown.failures {
            console.note(&format!("not whole: {}", failure::text(error)));
        }
        let code = measured::conclude(shown.ended().void, &[], console);
        return if code == Code::Done && !shown.failures.is_empty() { Code::Void } else { code };
    }
    measured::conclude(shown.ended().void, &shown.errors(), console)
}

fn cells(of: &[(System, Settings)], place: &Place) -> anyhow::Result<Vec<Box<dyn Cell>>> {
    let mut cells = Vec::new();
    for (system, settings) in of {
        cells.extend(cells_for(std::slice::from_ref(system), place, settings)?);
    }
    Ok(cells)
}

fn measure(
    demo: &Demo,
    place: Place,
    times: [Duration; 5],
    ticker: &mut Ticker,
    so_far: SoFar,
) -> anyhow::Result<(Programs, SoFar)> {
    let mut all = Measuring { ticker, so_far, rows: Programs::default() };
    all.ticker.part("messages", times[0]);
    all.rows.messages = all.messages(&mut cells(&demo.messages(), &place)?, ROUNDS);
    all.ticker.part("messages under load", times[1]);
    all.rows.sweep = all.messages(&mut cells(&demo.sweep(&all.rows.messages), &place)?, SWEEP_ROUNDS);
    // The others make hosts of their own.
    drop(place);
    all.ticker.part("switch", times[2]);
    demo.switches().map_err(|why| anyhow!(why))?.iter().for_each(|request| all.switch(request));
    all.ticker.part("market data", times[3]);
    demo.feeds().iter().for_each(|request| all.feed(request));
    all.ticker.part("RDMA connections", times[4]);
    demo.connections().iter().for_each(|request| all.connections(request));
    Ok((all.rows, all.so_far))
}

/// The verdicts that people ask for first, of those that stand below the tables.
fn in_short(shown: &Programs) -> String {
    let messages = ratios(&shown.messages);
    // The first port stands for all; the daemon as it is by default, which sleeps, on cores that are awake.
    let first = messages.lines().next().and_then(|line| line.split(" is ").next()).unwrap_or_default();
    let one = |line: &&str| {
        let ours = line.split(" is ").next().unwrap_or_default();
        let default = ours.starts_with("barewire daemon park") && line.ends_with("warm cores");
        line.contains(", window 1,") && (ours == first || default)
    };
    let (switches, feeds) = (render::ratios(&shown.switches), feed::render::ratios(&shown.feeds));
    let connections = rdma::render::ratios(&shown.connections);
    let parts: [(&str, Vec<&str>); 4] = [
        ("Messages", messages.lines().filter(one).collect()),
        ("P4 switch", switches.lines().filter(|l| by_tcp_beside_others(l)).collect()),
        ("Market data", feeds.lines().filter(|l| l.contains("back to back, warm")).collect()),
        ("RDMA connections", connections.lines().filter(|l| l.contains(" is ")).take(1).collect()),
    ];
    let mut out = String::new();
    for (title, lines) in parts.iter().filter(|(_, lines)| !lines.is_empty()) {
        out += &format!("{title}:\n");
        lines.iter().for_each(|line| out += &format!("  {line}\n"));
    }
    if !out.is_empty() {
        out = format!("In short:\n\n{out}\n");
    }
    out
}

/// Whether a line of the switch is about a system that people have, and not about a loop that only copies.
fn by_tcp_beside_others(line: &str) -> bool {
    line.ends_with(" by TCP") && (line.contains("bridge") || line.contains("bmv2"))
}

fn text(shown: &Programs, machine: &str) -> String {
    let rows = &shown.messages;
    let mut out = format!(
        "{}Measured on: {machine}\n\nMessages:\n\n{}\n{}\n{}",
        in_short(shown),
        text_table(rows),
        ratios(rows),
        reading(rows)
    );
    let mut part = |title: &str, table: String| out += &format!("\n{title}\n\n{table}");
    if !shown.sweep.is_empty() {
        part("Messages at a given load (open loop):", text_table(&shown.sweep));
    }
    if !shown.switches.is_empty() {
        part("P4 switch:", render::table(&shown.switches));
    }
    if !shown.feeds.is_empty() {
        part("Market data:", feed::render::text_table(&shown.feeds));
    }
    if !shown.connections.is_empty() {
        part("RDMA connections:", rdma::render::text_table(&shown.connections));
    }
    out
}
