//! The real switch, in a network namespace of its own; packets go in one after another.

use super::ours::Fate;
use super::scenario::Scenario;
use super::wire::Wire;
use barewire_netns::Namespace;
use barewire_p4::ir::Arch;
use barewire_switch_control::cli::Session;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a packet that must come is waited for.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long a packet is given that comes to nothing.
const GRACE: Duration = Duration::from_millis(3);
/// Nothing more came out for so long at the end: the switch is done.
const QUIET: Duration = Duration::from_millis(250);
/// Late packets after which no more are waited for: this run is lost anyway.
const MISSED_MAX: usize = 3;
/// Cells of each counter array that are compared.
const COUNTERS: u32 = 12;

/// What a run came to.
#[derive(Default)]
pub struct Run {
    /// Whether each line was done.
    pub done: Vec<bool>,
    /// What each line said that was not done.
    pub refusals: Vec<(usize, String)>,
    /// The packets of each port.
    pub out: BTreeMap<u32, Vec<Vec<u8>>>,
    /// What came while each packet was waited for, and last what came at the end: port and bytes.
    pub by_packet: Vec<Vec<(u32, Vec<u8>)>>,
    /// The cells of each register array.
    pub registers: Vec<Option<Vec<String>>>,
    /// Packets and bytes of the first cells of each counter array.
    pub counters: Vec<Vec<(u64, u64)>>,
    /// Why it ended by itself, if it did, and before the answer to which packet.
    pub died: Option<(String, usize)>,
}

/// Why there is no result.
pub enum Failure {
    /// It does not take the program.
    Refused(String),
    /// Something about the machine; another time it may work.
    Machine(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Machine(why)
    }
}

struct Running {
    child: Child,
    folder: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have died already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Running {
    fn died(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        let said = std::fs::read_to_string(self.folder.join("stderr")).unwrap_or_default();
        let tail: Vec<&str> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
        Some(format!("{status}: {}", tail.into_iter().rev().collect::<Vec<_>>().join(" | ")))
    }
}

/// The program's name for an architecture.
pub fn binary(arch: Arch) -> &'static str {
    match arch {
        Arch::V1Model => "simple_switch",
        Arch::Psa => "psa_switch",
    }
}

/// Program a switch and send it the packets; `expected` says how much to wait for after each.
pub fn run(
    arch: Arch,
    json: &Path,
    scenario: &Scenario,
    expected: &[Fate],
    name: &str,
) -> Result<Run, Failure> {
    let text = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let folder = std::env::temp_dir().join(format!("barewire-oracle-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| text("make a folder", &e))?;
    let errors = std::fs::File::create(folder.join("stderr")).map_err(|e| text("make a file", &e))?;
    let output = errors.try_clone().map_err(|e| text("make a file", &e))?;
    let space = Namespace::anonymous().map_err(|e| text("namespace", &e))?;
    space.set_up("lo").map_err(|e| text("lo", &e))?;
    let mut command = Command::new(binary(arch));
    command
        .current_dir(&folder)
        .args([
            "--packet-in",
            "ipc://packets",
            "--notifications-addr",
            "ipc://notes",
            "--thrift-port",
            "9090",
        ])
        .arg(json)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    let started = Instant::now();
    let child = space.spawn_in(&mut command).map_err(|e| text("start", &e))?;
    let mut running = Running { child, folder };

    let mut session = None;
    while session.is_none() {
        if let Some(died) = running.died() {
            return Err(Failure::Refused(died));
        }
        if started.elapsed() > Duration::from_secs(20) {
            return Err(Failure::Machine("it does not answer".into()));
        }
        std::thread::sleep(Duration::from_millis(10));
        let connect = || Session::connect("127.0.0.1:9090", Duration::from_secs(10));
        session = space.enter(connect).map_err(|e| text("enter", &e))?.ok();
    }
    let mut session = session.ok_or_else(|| "no session".to_owned())?;
    let mut run = Run::default();
    for (index, line) in scenario.lines.iter().enumerate() {
        let mut outcome = session.run_line(line);
        if outcome.text.contains("Unknown service") {
            // The target's own service comes up a moment after the others.
            std::thread::sleep(Duration::from_millis(300));
            outcome = session.run_line(line);
        }
        run.done.push(outcome.ok);
        if !outcome.ok {
            run.refusals.push((index, outcome.text));
        }
    }
    let mut wire = Wire::connect(&running.folder.join("packets")).map_err(|e| text("packets", &e))?;
    let done = exchange(&mut wire, scenario, expected, &mut run.by_packet);
    for (port, bytes) in run.by_packet.iter().flatten() {
        run.out.entry(*port).or_default().push(bytes.clone());
    }
    if let Err((index, error)) = done {
        // The process may need a moment to be gone.
        std::thread::sleep(Duration::from_millis(300));
        match running.died() {
            Some(died) => run.died = Some((died, index)),
            None => return Err(Failure::Machine(text("packets", &error))),
        }
        return Ok(run);
    }
    read_memory(&mut session, &mut run);
    if let Some(died) = running.died() {
        run.died = Some((died, scenario.packets.len()));
    }
    Ok(run)
}

/// Send each packet and take what comes; on an error also the packet's number.
fn exchange(
    wire: &mut Wire,
    scenario: &Scenario,
    expected: &[Fate],
    out: &mut Vec<Vec<(u32, Vec<u8>)>>,
) -> Result<(), (usize, std::io::Error)> {
    let mut missed = 0;
    for (index, ((port, bytes), fate)) in scenario.packets.iter().zip(expected).enumerate() {
        let at = |error| (index, error);
        wire.send(*port, bytes).map_err(at)?;
        let mut came = Vec::new();
        for _ in 0..fate.out.len() {
            let patience = if missed < MISSED_MAX { PATIENCE } else { GRACE };
            match wire.receive(patience).map_err(at)? {
                Some(packet) => came.push(packet),
                None => missed += 1,
            }
        }
        if fate.out.is_empty() {
            came.extend(wire.receive(GRACE).map_err(at)?);
        }
        out.push(came);
    }
    let mut last = Vec::new();
    while let Some(packet) = wire.receive(QUIET).map_err(|error| (scenario.packets.len(), error))? {
        last.push(packet);
    }
    out.push(last);
    Ok(())
}

fn read_memory(session: &mut Session, run: &mut Run) {
    let Some(program) = session.loaded().cloned() else { return };
    for register in &program.registers {
        let mut cells = || {
            let said = session.run_line(&format!("register_read {}", register.name)).text;
            let (_, values) = said.split_once('=')?;
            Some(values.trim().split(", ").map(str::to_owned).collect())
        };
        // Wider ones are more than the interface can carry.
        run.registers.push(if register.width <= 63 { cells() } else { None });
    }
    for counter in &program.counters {
        let size = if counter.direct.is_some() { 0 } else { counter.size.min(COUNTERS) };
        let one = |index| {
            let json = session.run_line(&format!("counter_read {} {index}", counter.name)).json;
            let number = |name: &str| json["result"][name].as_u64().unwrap_or(u64::MAX);
            (number("packets"), number("bytes"))
        };
        run.counters.push((0..size).map(one).collect());
    }
}
