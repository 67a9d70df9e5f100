//! The real switch, in file mode and a network namespace of its own.

use super::pcap;
use super::scenario::{PORTS, Scenario};
use barewire_lab::Namespace;
use barewire_p4::ir::Arch;
use barewire_switch_control::cli::Session;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing more came out for so long: the switch is done.
const QUIET: Duration = Duration::from_millis(400);

/// Cells of each counter array that are compared.
const COUNTERS: u32 = 12;

/// What a run came to.
pub struct Run {
    /// Whether each line was done.
    pub done: Vec<bool>,
    /// What each line said that was not done.
    pub refusals: Vec<(usize, String)>,
    /// The packets of each port.
    pub out: Vec<Vec<Vec<u8>>>,
    /// The cells of each register array.
    pub registers: Vec<Option<Vec<String>>>,
    /// Packets and bytes of the first cells of each counter array.
    pub counters: Vec<Vec<(u64, u64)>>,
    /// Why it ended by itself, if it did.
    pub died: Option<String>,
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

/// The program's name for an architecture.
pub fn binary(arch: Arch) -> &'static str {
    match arch {
        Arch::V1Model => "simple_switch",
        Arch::Psa => "psa_switch",
    }
}

/// Program a switch and send the packets; `wait` seconds are left for programming it.
pub fn run(
    arch: Arch,
    json: &Path,
    scenario: &Scenario,
    gap_us: u64,
    wait: u32,
    name: &str,
) -> Result<Run, Failure> {
    let text = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let folder = std::env::temp_dir().join(format!("barewire-oracle-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| text("make a folder", &e))?;
    let mut command = Command::new(binary(arch));
    for port in 0..PORTS {
        let packets = scenario.packets.iter().enumerate().filter(|(_, (at, _))| *at == port);
        let file = pcap::write(packets.map(|(index, (_, bytes))| (index as u64 * gap_us, bytes.as_slice())));
        std::fs::write(folder.join(format!("p{port}_in.pcap")), file)
            .map_err(|e| text("write packets", &e))?;
        command.args(["-i", &format!("{port}@p{port}")]);
    }
    let errors = std::fs::File::create(folder.join("stderr")).map_err(|e| text("make a file", &e))?;
    let output = errors.try_clone().map_err(|e| text("make a file", &e))?;
    let space = Namespace::anonymous().map_err(|e| text("namespace", &e))?;
    space.set_up("lo").map_err(|e| text("lo", &e))?;
    command
        .current_dir(&folder)
        .args(["--use-files", &wait.to_string(), "--thrift-port", "9090", "--notifications-addr"])
        .arg(format!("ipc://{}/n", folder.display()))
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
        if started.elapsed() > Duration::from_secs(10) {
            return Err(Failure::Machine("it does not answer".into()));
        }
        std::thread::sleep(Duration::from_millis(10));
        let connect = || Session::connect("127.0.0.1:9090", Duration::from_secs(10));
        session = space.enter(connect).map_err(|e| text("enter", &e))?.ok();
    }
    let mut session = session.ok_or_else(|| "no session".to_owned())?;
    let mut run =
        Run { done: Vec::new(), refusals: Vec::new(), out: Vec::new(), registers: Vec::new(), counters: Vec::new(), died: None };
    for (index, line) in scenario.lines.iter().enumerate() {
        let outcome = session.run_line(line);
        run.done.push(outcome.ok);
        if !outcome.ok {
            run.refusals.push((index, outcome.text));
        }
    }
    let ready = started.elapsed();
    if ready >= Duration::from_secs(u64::from(wait)) {
        let late = format!("programming it took {ready:?}: its packets were on their way");
        return Err(Failure::Machine(late));
    }

    let last = Duration::from_secs(u64::from(wait))
        + Duration::from_micros(gap_us * scenario.packets.len() as u64)
        + Duration::from_millis(100);
    std::thread::sleep(last.saturating_sub(started.elapsed()));
    let (mut seen, mut since) = (running.written(), Instant::now());
    while since.elapsed() < QUIET && started.elapsed() < Duration::from_secs(40) {
        std::thread::sleep(Duration::from_millis(40));
        let now = running.written();
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    if let Some(program) = session.loaded().cloned() {
        for register in &program.registers {
            // Wider ones are more than the interface can carry.
            let mut cells = || {
                let said = session.run_line(&format!("register_read {}", register.name)).text;
                let (_, values) = said.split_once('=')?;
                Some(values.trim().split(", ").map(str::to_owned).collect())
            };
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
    run.died = running.died();
    run.out = (0..PORTS)
        .map(|port| {
            let file = std::fs::read(running.folder.join(format!("p{port}_out.pcap"))).unwrap_or_default();
            pcap::read(&file)
        })
        .collect();
    Ok(run)
}

impl Running {
    fn written(&self) -> u64 {
        let size =
            |port| std::fs::metadata(self.folder.join(format!("p{port}_out.pcap"))).map_or(0, |m| m.len());
        (0..PORTS).map(size).sum()
    }

    fn died(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        let said = std::fs::read_to_string(self.folder.join("stderr")).unwrap_or_default();
        let tail: Vec<&str> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
        Some(format!("{status}: {}", tail.into_iter().rev().collect::<Vec<_>>().join(" | ")))
    }
}
