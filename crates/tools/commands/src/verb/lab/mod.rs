//! `barewire lab`: hosts, switches and links on this machine, from one file.

mod simulate;

use crate::console::{Console, print};
use crate::failure::{self, Code, Failure};
use crate::signals::{self, HandedOn};
use anyhow::Context as _;
use barewire_bench::interrupted;
use barewire_engine::StopFlag;
use barewire_lab::{
    CaptureLimits, GraphStyle, IMAGE_DEFAULT, Lab, Programs, State, Status, Topology, export_containerlab,
    export_mininet, graph, serve_link_node,
};
use barewire_text::by_name;
use barewire_text::suggest;
use clap::Subcommand;
use serde_json::json;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

/// What to do with a lab.
#[derive(Subcommand)]
#[command(after_help = "\
A lab outlives the shell that created it. `down` removes it, also if it is incomplete or `up` was killed.

  barewire lab up labs/topologies/two-hosts.toml          # as root
  barewire lab exec h1 -- ping -c 3 10.0.0.2
  barewire lab down")]
pub enum What {
    /// Create the lab that a file describes
    Up {
        /// The topology (TOML)
        file: PathBuf,
    },
    /// Remove a lab, complete or not
    Down {
        /// The lab [default: the only one there is]
        name: Option<String>,
    },
    /// Run a program in a host, and return its exit code
    Exec {
        /// The lab [default: the only one there is]
        #[arg(long, value_name = "NAME")]
        lab: Option<String>,
        /// The host, or a switch
        host: String,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// List labs, or show the state of one
    Status {
        /// The lab [default: the only one there is]
        name: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Capture frames at an interface or a link, until Ctrl-C
    Pcap {
        /// The lab [default: the only one there is]
        #[arg(long, value_name = "NAME")]
        lab: Option<String>,
        /// HOST:INTERFACE, HOST (its first interface) or a link
        place: String,
        /// The capture (pcap with nanoseconds)
        file: PathBuf,
        /// Stop after this many frames
        #[arg(long)]
        frames: Option<u64>,
        /// Stop as soon as the file has this many bytes; the last frame is whole
        #[arg(long)]
        bytes: Option<u64>,
    },
    /// Draw a topology
    Graph {
        /// The topology (TOML)
        file: PathBuf,
        /// dot or mermaid
        #[arg(long, default_value = "mermaid", value_parser = style)]
        style: GraphStyle,
    },
    /// Write a file for containerlab or Mininet
    Export {
        /// The topology (TOML)
        file: PathBuf,
        /// containerlab or mininet
        #[arg(long, value_enum)]
        to: Target,
        /// Folder to write into
        #[arg(long, value_name = "FOLDER", default_value = ".")]
        out: PathBuf,
        /// Image of containerlab's nodes: barewire in its path, a shell, iproute2, ethtool; the default is the stage `lab` of
        /// packaging/Containerfile
        #[arg(long, default_value = IMAGE_DEFAULT)]
        image: String,
    },
    /// Simulate messages or RDMA connections between the hosts of a file, in virtual time
    Simulate(simulate::Args),
    /// Be the link node of a lab: started by `up`
    #[command(name = "link-node", hide = true)]
    LinkNode,
}

/// Whom to export to.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    /// A containerlab topology
    Containerlab,
    /// A Mininet script, for the class of bindings/mininet
    Mininet,
}

fn style(text: &str) -> Result<GraphStyle, String> {
    by_name(text, GraphStyle::WORDS)
}

/// Runs it.
///
/// # Errors
/// What the verb could not do.
pub fn run(what: &What, console: &Console) -> anyhow::Result<Code> {
    match what {
        What::Up { file } => up(&read(file)?, console),
        What::Down { name } => down(name.as_deref(), console),
        What::Exec { lab, host, command } => exec(lab.as_deref(), host, command),
        What::Status { name, json } => status(name.as_deref(), *json, console),
        What::Pcap { lab, place, file, frames, bytes } => {
            let limits = CaptureLimits { frames: *frames, bytes: *bytes };
            pcap(lab.as_deref(), place, file, limits, console)
        }
        What::Graph { file, style } => {
            print(&graph(&read(file)?, *style))?;
            Ok(Code::Done)
        }
        What::Export { file, to, out, image } => export(&read(file)?, *to, out, image, console),
        What::Simulate(args) => simulate::run(args, console),
        What::LinkNode => link_node(),
    }
}

fn labs() -> anyhow::Result<Lab> {
    let own = std::env::current_exe()?;
    Ok(Lab::new(&Lab::default_folder(), Programs::of_binary(&own)))
}

fn read(file: &std::path::Path) -> anyhow::Result<Topology> {
    Topology::read(file).map_err(|error| Failure::new(Code::Usage, error.to_string()).into())
}

/// Shows how far something has come, and ends it when a signal has come.
fn going(console: &Console) -> impl FnMut(u64, u64, &str) -> bool {
    let mut steps = console.steps();
    move |done, total, what| {
        steps.tell(done, total, what);
        !interrupted()
    }
}

/// The lab that was named, or the only one.
fn name_of(lab: &Lab, name: Option<&str>) -> anyhow::Result<String> {
    let known = lab.list();
    match (name, known.as_slice()) {
        (Some(name), _) => Ok(name.to_owned()),
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(Failure::new(Code::Failed, "no lab is up")
            .hint("`barewire lab up FILE.toml` makes one; labs/topologies has some")
            .into()),
        (None, several) => {
            let why = format!("several labs are up: {}; name one", several.join(", "));
            Err(Failure::new(Code::Usage, why).into())
        }
    }
}

fn several(n: usize, what: &str) -> String {
    let ending = match (n, what.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{n} {what}{ending}")
}

fn up(topology: &Topology, console: &Console) -> anyhow::Result<Code> {
    signals::catch()?;
    let state = labs()?.up_with(topology, &mut going(console)).map_err(failure::lab)?;
    console.tell(&format!(
        "lab {}: {}, {}, {}; `barewire lab exec HOST -- COMMAND`, `barewire lab down`",
        state.name,
        several(topology.hosts.len(), "host"),
        several(topology.switches.len(), "switch"),
        several(state.links.len(), "link")
    ));
    Ok(Code::Done)
}

fn down(name: Option<&str>, console: &Console) -> anyhow::Result<Code> {
    let lab = labs()?;
    let name = name_of(&lab, name)?;
    signals::catch()?;
    let removed = lab.down_with(&name, &mut going(console)).map_err(failure::lab)?;
    if !removed.was_there() {
        let known = lab.list();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let near = if known.is_empty() { "there is none".to_owned() } else { suggest(&name, &known) };
        return Err(Failure::new(Code::Usage, format!("no lab `{name}`; {near}")).into());
    }
    console.tell(&format!(
        "lab {name}: {} namespaces removed, {} processes ended",
        removed.namespaces.len(),
        removed.processes
    ));
    if !removed.left.is_empty() {
        console.note(&format!("still running inside, until they end: {:?}", removed.left));
    }
    Ok(Code::Done)
}

fn exec(name: Option<&str>, host: &str, command: &[OsString]) -> anyhow::Result<Code> {
    let lab = labs()?;
    let name = name_of(&lab, name)?;
    // They are the program's: we end when it does, and with its code.
    let mut signals = HandedOn::catch()?;
    let running = lab.exec(&name, host, command).map_err(failure::lab)?;
    let code = running.wait(|| signals.pending())?;
    // The program's code, whatever it means.
    std::process::exit(code);
}

fn text_of(status: &Status) -> String {
    let State { name, nodes, links, file, .. } = &status.state;
    let whole = if status.is_whole() { "whole" } else { "NOT WHOLE" };
    let mut out = format!("lab {name} ({file}): {whole}\n");
    for node in nodes {
        let missing = if status.missing.contains(&node.namespace) { "  MISSING" } else { "" };
        let _ = writeln!(out, "  {:<12} {}{missing}", node.name, node.namespace);
    }
    for link in links {
        let [a, b] = &link.ends;
        let _ = writeln!(out, "  {:<12} {}:{} - {}:{}", link.name, a.node, a.interface, b.node, b.interface);
    }
    for process in &status.processes {
        let alive = if process.alive { "runs" } else { "HAS ENDED" };
        let log = process.log.as_ref().map_or(String::new(), |log| format!(", {}", log.display()));
        let _ = writeln!(out, "  {} (process {}) {alive}{log}", process.what, process.pid);
    }
    for link in &status.links {
        for (counter, value) in &link.counters {
            let _ = writeln!(out, "  {} {counter} {value}", link.name);
        }
    }
    out
}

fn status(name: Option<&str>, as_json: bool, console: &Console) -> anyhow::Result<Code> {
    let lab = labs()?;
    if name.is_none() && lab.list().len() != 1 {
        let known = lab.list();
        if as_json {
            print(&json!({ "schema": 1, "labs": known }).to_string())?;
        } else if known.is_empty() {
            console.tell("no lab is up");
        } else {
            print(&known.join("\n"))?;
        }
        return Ok(Code::Done);
    }
    let status = lab.status(&name_of(&lab, name)?).map_err(failure::lab)?;
    if as_json {
        let processes: Vec<_> = status
            .processes
            .iter()
            .map(|p| json!({ "what": p.what, "pid": p.pid, "alive": p.alive, "log": p.log }))
            .collect();
        let links: serde_json::Map<String, serde_json::Value> = status
            .links
            .iter()
            .map(|l| (l.name.clone(), l.counters.iter().map(|(n, v)| (n.clone(), json!(v))).collect()))
            .collect();
        let document = json!({
            "schema": 1, "lab": status.state, "whole": status.is_whole(), "missing": status.missing,
            "processes": processes, "link_counters": links,
        });
        print(&document.to_string())?;
    } else {
        print(&text_of(&status))?;
    }
    Ok(if status.is_whole() { Code::Done } else { Code::Failed })
}

fn pcap(
    name: Option<&str>,
    place: &str,
    file: &std::path::Path,
    limits: CaptureLimits,
    console: &Console,
) -> anyhow::Result<Code> {
    let lab = labs()?;
    let name = name_of(&lab, name)?;
    signals::catch()?;
    let stop = StopFlag::new()?;
    signals::stop_when_interrupted(&stop);
    let ready = || console.note(&format!("capturing at {place}; Ctrl-C ends it"));
    let captured = lab.pcap(&name, place, file, limits, &stop, ready).map_err(failure::lab)?;
    console.tell(&format!(
        "{}: {} frames, {} bytes; {} missed",
        file.display(),
        captured.frames,
        captured.bytes,
        captured.missed
    ));
    Ok(Code::Done)
}

fn export(
    topology: &Topology,
    to: Target,
    out: &std::path::Path,
    image: &str,
    console: &Console,
) -> anyhow::Result<Code> {
    let exported = match to {
        Target::Containerlab => export_containerlab(topology, image),
        Target::Mininet => export_mininet(topology),
    }
    .map_err(failure::lab)?;
    std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    for note in &exported.notes {
        console.note(note);
    }
    for file in exported.files {
        let path = out.join(&file.name);
        std::fs::write(&path, &file.text).with_context(|| format!("writing {}", path.display()))?;
        console.tell(&path.display().to_string());
    }
    Ok(Code::Done)
}

fn link_node() -> anyhow::Result<Code> {
    signals::catch()?;
    let stop = StopFlag::new()?;
    signals::stop_when_interrupted(&stop);
    serve_link_node(std::io::stdin().lock(), std::io::stdout().lock(), &stop)?;
    Ok(Code::Done)
}
