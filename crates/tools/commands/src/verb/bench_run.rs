//! `barewire bench run`: an experiment over several hosts, from one file to a run folder.

use super::launching::{Foreign, Launching, agent};
use super::measured::Void;
use crate::console::{self, Console, print};
use crate::failure::{Code, Failure, of_lab};
use crate::signals;
use barewire_bench::interrupted;
use barewire_experiment::launcher::LaunchError;
use barewire_experiment::plan::{Plan, RoleHosts};
use barewire_experiment::run::{
    ExperimentError, Failure as Failed, Options, Outcome, Progress, Watch, newest_unfinished, run as run_plan,
};
use barewire_experiment::{file, mitosis, redact};
use barewire_report::span_text;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
The file says who runs what where, and what is varied. Each host's output is shown with its name in front and kept in the run folder. \
Ctrl-C stops everything on all hosts and keeps what was measured; the same command with `--resume` measures the rest. If a host is \
lost, cells that need it fail and the others go on; the exit code is then 4, or 1 if nothing was measured.

On this machine: a lab, as root:
  barewire bench run labs/machnet.toml
On machines that `mine.toml` names; without it, hosts are those of `ssh = ...` in the file or of ~/.ssh/config:
  barewire bench run labs/machnet.toml --launcher ssh --hosts mine.toml
On a cluster:
  barewire bench run FILE.toml --launcher slurm --slurm=--partition=short
  barewire bench run FILE.toml --launcher k8s --image REGISTRY/barewire > jobset.yaml
A MITOSIS file:
  barewire bench run exp/throughput-thread/run.toml --launcher ssh
Its report:
  barewire report runs/NAME --html report.html")]
pub struct Args {
    /// The experiment (TOML)
    file: PathBuf,
    /// Runs of each cell [default: the file's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    /// One short run of each cell: a quick look without verdicts
    #[arg(long, conflicts_with = "runs")]
    quick: bool,
    /// Only the cells where an axis has this value; several times: all of them
    #[arg(long, value_name = "KEY=VALUE")]
    only: Vec<String>,
    /// Folder that the run folder is made in
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    out: PathBuf,
    /// Resume an interrupted experiment, and measure only what is missing [default: the newest run of this file in --out]
    #[arg(long, value_name = "RUN_FOLDER", num_args = 0..=1)]
    resume: Option<Option<PathBuf>>,
    /// Leave this host out
    #[arg(long = "exclude", alias = "black", value_name = "HOST")]
    black: Vec<String>,
    /// Show what would run, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hosts: Launching,
    #[command(flatten)]
    foreign: Foreign,
}

/// What the run tells, on standard error.
struct ConsoleWatch<'a> {
    console: &'a Console,
}

/// Longest line that is shown; the log has all of it.
const SHOWN_CHARS_MAX: usize = 400;
/// Width of a host's name.
const NAME_WIDTH: usize = 8;

/// A line that cannot do anything to a terminal.
fn harmless(text: &str) -> String {
    let mut shown = console::harmless(&text.chars().take(SHOWN_CHARS_MAX).collect::<String>());
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

impl Watch for ConsoleWatch<'_> {
    fn line(&mut self, host: &str, text: &str) {
        self.console.tell(&format!("@{host:<NAME_WIDTH$} {}", harmless(text)));
    }

    fn note(&mut self, text: &str) {
        self.console.note(&harmless(text));
    }

    fn progress(&mut self, p: &Progress) {
        let cell = if p.cell.is_empty() { String::new() } else { format!(", {}", p.cell) };
        let left = span_text((p.left_s * 1e3) as u64);
        self.console.tell(&format!("[{}/{}] run {}{cell}; {left} left", p.done + 1, p.total, p.run));
    }
}

/// How hosts are asked for their control rows.
const CONTROL: [&str; 4] = ["barewire", "bench", "control", "--json"];

/// Runs it.
///
/// # Errors
/// When the file is wrong, hosts cannot be had, or nothing was measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let (mut plan, foreign) = read(args, console)?;
    args.hosts.place(&mut plan)?;
    adjust(&mut plan, foreign, args)?;
    if args.dry_run {
        print(&dry(&plan, args.json))?;
        return Ok(Code::Done);
    }
    if foreign && args.hosts.launcher.is_none() && !plan.hosts.is_empty() {
        // What these files do to machines is not for this one because a word was forgotten.
        return Err(Failure::new(Code::Usage, format!("{} is for other hosts", args.file.display()))
            .hint("`--launcher ssh` runs it there; `--launcher local` runs all of it on this machine")
            .into());
    }
    let Some(mut launcher) = args.hosts.launcher(&plan)? else {
        print(args.hosts.manifests(&plan)?.trim_end())?;
        return Ok(Code::Done);
    };
    super::measured::warn_of_debug_build(console);
    signals::catch()?;
    let options = Options {
        out: args.out.clone(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        agent: agent()?,
        control: CONTROL.map(str::to_owned).into(),
        resume: resumed(args, &plan)?,
    };
    let outcome = run_plan(&plan, launcher.as_mut(), &options, &mut ConsoleWatch { console }, &interrupted);
    conclude(outcome.map_err(of_experiment)?, args.json, console)
}

/// The run folder that is gone on with, if one is.
fn resumed(args: &Args, plan: &Plan) -> anyhow::Result<Option<PathBuf>> {
    let none = || {
        let why = format!("nothing of `{}` in {} broke off", plan.name, args.out.display());
        Failure::new(Code::Usage, why).hint("name its run folder: `--resume RUN_FOLDER`")
    };
    match &args.resume {
        None => Ok(None),
        Some(Some(folder)) => Ok(Some(folder.clone())),
        Some(None) => Ok(Some(newest_unfinished(&args.out, &plan.name).ok_or_else(none)?)),
    }
}

/// The plan of the file, whichever form it has, and whether it is a foreign one: those leave out black hosts as they are read.
fn read(args: &Args, console: &Console) -> anyhow::Result<(Plan, bool)> {
    let usage = |why: String| Failure::new(Code::Usage, why);
    let (text, folder) = file::text_of(&args.file).map_err(|e| usage(e.to_string()))?;
    let shown = args.file.display().to_string();
    if !mitosis::is_mitosis(&text) {
        if let Some(option) = args.foreign.given() {
            return Err(
                usage(format!("{option} is for MITOSIS files: {shown} says itself what it needs")).into()
            );
        }
        return Ok((file::parse(&text, &shown, &folder).map_err(|e| usage(e.to_string()))?, false));
    }
    let (plan, warnings) = args.foreign.read(&text, &shown, &folder, &args.black)?;
    for warning in warnings {
        console.note(&warning);
    }
    Ok((plan, true))
}

/// What the command line says goes above the file.
fn adjust(plan: &mut Plan, foreign: bool, args: &Args) -> anyhow::Result<()> {
    let usage = |text: String| Failure::new(Code::Usage, text);
    for only in &args.only {
        let (axis, value) = only
            .split_once('=')
            .ok_or_else(|| usage(format!("--only {only}: KEY=VALUE is expected, such as threads=2")))?;
        plan.keep_only(axis, value).map_err(|why| usage(format!("--only {only}: {why}")))?;
    }
    if args.quick {
        plan.make_quick();
    }
    if let Some(runs) = args.runs {
        plan.method.runs = runs;
    }
    if !foreign {
        plan.black_out(&args.black).map_err(|why| usage(format!("--exclude: {why}")))?;
    }
    Ok(())
}

/// What would run.
fn dry(plan: &Plan, as_json: bool) -> String {
    let runs = plan.points.len() * plan.method.runs as usize;
    let where_of = |hosts: &RoleHosts| match hosts {
        RoleHosts::Named(names) => names.join(", "),
        RoleHosts::Free => "hosts that are free".to_owned(),
        RoleHosts::Rest => "all other hosts".to_owned(),
        RoleHosts::Here => "this machine".to_owned(),
    };
    let redactor = redact::Redactor::of_plan(plan);
    let words = |role: &barewire_experiment::plan::RolePlan| -> Vec<String> {
        redactor.words(&role.command.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let settings = |host: &barewire_experiment::launcher::HostSpec| -> Vec<(String, String)> {
        host.settings.iter().map(|(key, value)| (key.clone(), redact::shown(key, value).to_owned())).collect()
    };
    let cells: Vec<String> = plan
        .points
        .iter()
        .map(|point| point.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", "))
        .collect();
    if as_json {
        let roles: Vec<_> = plan
            .roles
            .iter()
            .map(|role| json!({ "name": role.name, "hosts": where_of(&role.hosts), "command": words(role) }))
            .collect();
        let hosts: Vec<_> = plan
            .hosts
            .iter()
            .map(|host| {
                let settings: serde_json::Map<String, _> =
                    settings(host).into_iter().map(|(key, value)| (key, value.into())).collect();
                json!({ "name": host.name, "reach": host.reach, "address": host.address, "settings": settings })
            })
            .collect();
        return json!({
            "schema": 1, "experiment": plan.name, "cells": cells, "runs": plan.method.runs,
            "seconds": plan.total_seconds(), "roles": roles, "hosts": hosts, "needs_root": plan.topology.is_some(),
        })
        .to_string();
    }
    let mut out = format!(
        "{}: {} cells, {} runs each, about {}\n",
        plan.name,
        plan.points.len(),
        plan.method.runs,
        span_text((plan.total_seconds() * 1e3) as u64)
    );
    if let Some(topology) = &plan.topology {
        let _ = writeln!(out, "  lab {} (with --launcher local; needs root)", topology.display());
    }
    for host in &plan.hosts {
        let reach = if host.reach.is_empty() { &host.name } else { &host.reach };
        let settings: Vec<String> =
            settings(host).into_iter().map(|(key, value)| format!("{key} {value}")).collect();
        let _ = writeln!(out, "  host {}: {reach}; {}", host.name, settings.join(", "));
    }
    for role in &plan.roles {
        let _ = writeln!(out, "  {:<10} on {}: {}", role.name, where_of(&role.hosts), words(role).join(" "));
    }
    for cell in cells.iter().filter(|cell| !cell.is_empty()) {
        let _ = writeln!(out, "  cell: {cell}");
    }
    let _ = write!(out, "{runs} runs in all; nothing was started");
    out
}

/// What an error means here.
fn of_experiment(error: ExperimentError) -> anyhow::Error {
    let (code, hint) = match &error {
        ExperimentError::Launch(LaunchError::Unsuited(_)) | ExperimentError::Plan(_) => (Code::Usage, None),
        ExperimentError::Launch(LaunchError::Unfit { hint, .. }) => (Code::Unfit, hint.clone()),
        ExperimentError::Launch(LaunchError::Lab(e)) => of_lab(e),
        ExperimentError::Interrupted | ExperimentError::Launch(LaunchError::Interrupted) => {
            (Code::Interrupted, None)
        }
        ExperimentError::Launch(_) | ExperimentError::Lost { .. } => (Code::Unfit, None),
        _ => (Code::Failed, None),
    };
    let failure = Failure::new(code, harmless(&error.to_string()));
    match hint {
        Some(hint) => failure.hint(hint).into(),
        None => failure.into(),
    }
}

fn conclude(outcome: Outcome, as_json: bool, console: &Console) -> anyhow::Result<Code> {
    if as_json {
        let mut document = serde_json::to_value(&outcome)?;
        document["schema"] = json!(1);
        print(&document.to_string())?;
    } else {
        print(&outcome.folder.display().to_string())?;
        console.tell(&format!(
            "{} of {} cells, {} rows; `barewire report {} --html report.html` shows them",
            outcome.cells - outcome.cells_without_rows,
            outcome.cells,
            outcome.rows,
            outcome.folder.display()
        ));
    }
    if outcome.resumed_runs > 0 {
        console.note(&format!("{} runs were taken over from before", outcome.resumed_runs));
    }
    // Hosts have a part in these words.
    for same in outcome.failures.chunk_by(|a, b| a.why == b.why) {
        console.error(&harmless(&failures_text(same)));
    }
    for (host, why) in outcome.lost.iter().chain(&outcome.lost_too) {
        console.error(&harmless(&format!("host {host} was lost: {why}")));
    }
    if let Some(left) = &outcome.left_behind {
        console.error(&harmless(&format!("left behind: {left}")));
    }
    if outcome.can_resume {
        let folder = outcome.folder.display();
        console.note(&format!("the same command with `--resume {folder}` measures what is missing"));
    }
    if outcome.void > 0 {
        console.note(&Void { rows: outcome.void, of: outcome.rows }.text());
    }
    Ok(code_of(&outcome))
}

/// What the command ends with: a part that failed leaves the others' rows, as a void one does.
fn code_of(outcome: &Outcome) -> Code {
    match outcome {
        Outcome { interrupted: true, .. } => Code::Interrupted,
        Outcome { left_behind: Some(_), .. } | Outcome { rows: 0, .. } if outcome.failed() => Code::Failed,
        _ if outcome.failed() || outcome.void > 0 => Code::Void,
        _ => Code::Done,
    }
}

/// Runs that failed one after the other for the same reason.
fn failures_text(same: &[Failed]) -> String {
    let Some((first, rest)) = same.split_first() else { return String::new() };
    let more = if rest.is_empty() { String::new() } else { format!(" (and {} runs after it)", rest.len()) };
    format!("{}{more}: {}", first.of, first.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_failed_ends_with_4_and_nothing_at_all_with_1() {
        let outcome = |rows, void, failures: usize| Outcome {
            folder: PathBuf::new(),
            cells: 2,
            cells_without_rows: 0,
            rows,
            void,
            failures: vec![Failed { of: "x 1, run 1".into(), why: "gone".into() }; failures],
            lost: None,
            lost_too: Vec::new(),
            resumed_runs: 0,
            can_resume: false,
            interrupted: false,
            left_behind: None,
        };
        assert_eq!(code_of(&outcome(2, 0, 0)), Code::Done);
        assert_eq!(code_of(&outcome(1, 1, 0)), Code::Void);
        assert_eq!(code_of(&outcome(1, 0, 3)), Code::Void);
        assert_eq!(code_of(&outcome(0, 0, 1)), Code::Failed);
        let left = Outcome { left_behind: Some("a process".into()), ..outcome(1, 0, 0) };
        assert_eq!(code_of(&left), Code::Failed);
        assert_eq!(code_of(&Outcome { interrupted: true, ..left }), Code::Interrupted);
        assert_eq!(failures_text(&outcome(0, 0, 3).failures), "x 1, run 1 (and 2 runs after it): gone");
    }

    #[test]
    fn lines_of_hosts_cannot_talk_to_the_terminal() {
        assert_eq!(harmless("a\tb\x1b[2J\r"), "a\tb\u{fffd}[2J\u{fffd}");
        assert_eq!(harmless(&"ä".repeat(500)).chars().count(), SHOWN_CHARS_MAX + 1);
    }
}
