//! From capture file to capture file, flat out: what `simple_switch --use-files` does.

use super::bmv2;
use super::mem::{self, Loaded};
use super::program::Source;
use super::row::{ENGINE, Told, carried, interleave, subject, tell_checked};
use super::setup::apply;
use super::workload::{IN_PORT, Spec, Workload};
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::row::{Measure, Measured, Row, Subject};
use crate::run;
use barewire_base::Duration;
use barewire_engine::Agent;
use barewire_measure::{Contention, stamp};
use barewire_port::{PcapReader, PcapWriter, PortUri};
use barewire_switch::ports::Ports;
use barewire_switch::prepared::EngineKind;
use std::fs;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Packets that bmv2 gets at most: a file that takes us a second would take it a minute.
pub const BMV2_PACKETS_MAX: u64 = 200_000;
/// Gap between two packets of the file, in ns: nobody plays by it.
const GAP_NS: u64 = 1_000;

/// What is measured.
#[derive(Clone, Debug)]
pub struct FilesCell {
    /// The program.
    pub source: Source,
    /// Entries and packets.
    pub spec: Spec,
    /// Packets of the file.
    pub packets: u64,
    /// Our engines.
    pub engines: Vec<EngineKind>,
    /// bmv2 beside it.
    pub bmv2: bool,
}

/// A folder that goes with everything in it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn create(what: &str) -> io::Result<Folder> {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("barewire-{what}-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The capture that bmv2's naming rule makes of a port's interface.
fn in_file(folder: &Path, port: u32) -> PathBuf {
    folder.join(format!("p{port}_in.pcap"))
}

fn out_file(folder: &Path, port: u32) -> PathBuf {
    folder.join(format!("p{port}_out.pcap"))
}

/// Writes `packets` packets of the workload to the input of [`IN_PORT`], and empty inputs for the other ports.
fn write_inputs(folder: &Path, workload: &Workload, packets: u64) -> Result<(), BenchError> {
    let failed = || BenchError::io("writing a capture");
    let all: Vec<Vec<u8>> = (0..workload.flows.len()).map(|flow| workload.packet(flow)).collect();
    let mut writer = PcapWriter::create(&in_file(folder, IN_PORT)).map_err(failed())?;
    for i in 0..packets {
        let packet = &all[(i % all.len() as u64) as usize];
        writer.write(i * GAP_NS, packet).map_err(failed())?;
    }
    writer.flush().map_err(failed())?;
    for &port in &workload.out_ports {
        PcapWriter::create(&in_file(folder, port)).and_then(|mut w| w.flush()).map_err(failed())?;
    }
    Ok(())
}

/// What was found in captures that a switch wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outputs {
    /// Packets that became what they had to.
    right: u64,
    /// Packets that are missing.
    lost: u64,
}

/// Compares every packet that was written with what had to become of the packets in turn, or says what is wrong. A packet may
/// be missing if others follow that are right: whether that is allowed is the caller's business.
fn check_outputs(folder: &Path, workload: &Workload, packets: u64) -> Result<Outputs, String> {
    let flows = workload.flows.len() as u64;
    let mut right = 0;
    // Packets of one output port keep their order.
    for &port in &workload.out_ports {
        let mut bytes = fs::read(out_file(folder, port)).map_err(|e| format!("port {port}: {e}"))?;
        if bytes.is_empty() {
            continue;
        }
        as_ethernet(&mut bytes);
        let mut next = 0;
        let mut reader = PcapReader::new(Cursor::new(bytes)).map_err(|e| format!("port {port}: {e}"))?;
        while let Some(packet) = reader.next_packet().map_err(|e| format!("port {port}: {e}"))? {
            let mut why = None;
            while next < packets {
                match workload.check((next % flows) as usize, port, packet.data) {
                    Ok(()) => break,
                    Err(error) => {
                        // The first that was to leave here tells best what is wrong.
                        let here =
                            workload.flows[(next % flows) as usize].fates.iter().any(|f| f.port == port);
                        why = why.or(here.then_some(error));
                        next += 1;
                    }
                }
            }
            if next == packets {
                let why = why.unwrap_or_else(|| "more packets than there had to be".to_owned());
                return Err(format!("port {port}, packet {right} that came out: {why}"));
            }
            next += 1;
            right += 1;
        }
    }
    let rounds = |i: usize| packets / flows + u64::from((i as u64) < packets % flows);
    let leaving = workload.flows.iter().enumerate().filter(|(_, flow)| !flow.fates.is_empty());
    let expected: u64 = leaving.map(|(i, _)| rounds(i)).sum();
    Ok(Outputs { right, lost: expected - right })
}

/// bmv2 writes link type 0 and snap length 0 into its captures: they are Ethernet all the same.
fn as_ethernet(capture: &mut [u8]) {
    if let Some(header) = capture.get_mut(16..24)
        && header.iter().all(|&b| b == 0)
    {
        header[..4].copy_from_slice(&65_535_u32.to_ne_bytes());
        header[4..].copy_from_slice(&1_u32.to_ne_bytes());
    }
}

/// CPU time of this thread, in ns.
fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// One run of ours, in this thread: opening the files is not timed, closing them is.
fn run_ours(loaded: &Loaded, folder: &Path, packets: u64) -> Result<Measured, BenchError> {
    let started = stamp();
    let switch = mem::control(&loaded.prepared, started)?;
    let pool = mem::pool(loaded.workload.size)?;
    let mut ports = Ports::new(None);
    let mut numbers = vec![IN_PORT];
    numbers.extend(&loaded.workload.out_ports);
    for port in numbers {
        let uri = PortUri::new("pcap", &in_file(folder, port).display().to_string())
            .with("out", out_file(folder, port).display());
        ports.add(port, &uri, &pool, None)?;
    }
    let (mut agent, view) = mem::agent(&switch, ports, pool, started);
    apply(&switch, &loaded.workload.steps, &mut || {})?;
    // What the control side wrote is applied by the first cycle, which also receives: one burst more or less.
    let watch = Contention::start().threads(1);
    let (begin, cpu) = (stamp(), thread_cpu_ns());
    let mut cycles = 0_u64;
    loop {
        let now = stamp();
        let work = agent.do_work(now);
        cycles += 1;
        if work == 0 {
            agent.publish(now);
            if view.borrow().finished {
                break;
            }
        }
        if cycles.is_multiple_of(1024) {
            go_on()?;
        }
    }
    agent.on_close();
    let drops = view.borrow().drops.clone();
    drop(agent);
    let (took, cpu) = (stamp().since(begin).as_secs_f64().max(1e-9), thread_cpu_ns() - cpu);
    let report = watch.finish();
    let mut run = carried(packets as f64 / took)
        .number("cpu_us_per_packet", cpu as f64 / 1e3 / packets as f64)
        .number("checked", packets as f64)
        .watched(&report);
    run.void = match check_outputs(folder, &loaded.workload, packets) {
        Ok(Outputs { lost: 0, .. }) => None,
        Ok(Outputs { lost, .. }) => {
            Some(format!("{lost} of {packets} packets are missing; drops: {drops:?}"))
        }
        Err(why) => Some(format!("wrong: {why}; drops: {drops:?}")),
    };
    Ok(run)
}

/// Who replays a file.
enum Who<'a> {
    Ours(EngineKind, &'a Loaded, &'a Path),
    /// The real one, on the same packets, fewer of them; and what came out of it so far.
    Bmv2(bmv2::Installed, Folder, Outputs),
}

/// One of them, in turns with others.
struct Replay<'a> {
    cell: &'a FilesCell,
    workload: &'a Workload,
    packets: u64,
    command: &'a str,
    who: Who<'a>,
}

impl run::Workload for Replay<'_> {
    fn subjects(&self) -> Vec<Subject> {
        let (system, engine) = match &self.who {
            Who::Ours(engine, ..) => ("barewire", Some(engine.to_string())),
            Who::Bmv2(..) => ("bmv2", None),
        };
        vec![Subject { engine, ..subject(system, "pcap", &self.cell.source, self.workload, self.command) }]
    }

    fn measures(&self) -> &'static [Measure] {
        ENGINE
    }

    fn planned(&self) -> Duration {
        Duration::ZERO
    }

    fn shows_that_it_was_tried(&self) -> bool {
        true
    }

    fn slice(&mut self, _: u32, _: &Charge) -> Result<Vec<Measured>, BenchError> {
        let (installed, folder, sum) = match &mut self.who {
            Who::Ours(_, loaded, folder) => return Ok(vec![run_ours(loaded, folder, self.packets)?]),
            Who::Bmv2(installed, folder, sum) => (installed, &folder.0, sum),
        };
        let seen = installed.run_files(&self.cell.source, self.workload, folder, self.packets)?;
        let (checked, void) = match check_outputs(folder, self.workload, self.packets) {
            Ok(Outputs { right, lost }) => {
                (sum.right, sum.lost) = (sum.right + right, sum.lost + lost);
                (right, None)
            }
            Err(why) => (0, Some(format!("wrong: {why}"))),
        };
        // What it loses all the same is no packet per second.
        let share = if void.is_none() { checked as f64 / self.packets as f64 } else { 1.0 };
        let mut run =
            carried(seen.rate_pps * share).number("checked", checked as f64).watched(&seen.contention);
        run = seen.cpu_us_per_packet.into_iter().fold(run, |run, us| run.number("cpu_us_per_packet", us));
        run.void = void;
        Ok(vec![run])
    }

    fn judge(&self, row: &mut Row) {
        tell_checked(row);
        row.notes.extend(self.workload.notes.iter().cloned());
        row.notes.push(format!("{} packets a run", self.packets));
        match &self.who {
            Who::Ours(_, loaded, _) => row.set("load_us", loaded.load_us as f64),
            Who::Bmv2(_, _, sum) => {
                row.notes.push("its queues were made as long as the file".to_owned());
                if sum.lost > 0 {
                    let sent = self.packets * row.runs.len() as u64;
                    let lost = format!("{} of {sent} packets were lost in it", sum.lost);
                    row.notes.push(format!("{lost} and are not in its rate"));
                }
            }
        }
    }
}

/// Runs all engines, and bmv2, in turn, forth and back, `runs` times, in this thread: a row for each, and why systems failed. One that
/// fails is left out of later rounds, and its row says so; without any run it is void.
///
/// # Errors
/// [`BenchError`] when one of them cannot be set up.
pub fn measure(
    cell: &FilesCell,
    runs: u32,
    command: &str,
    told: Told<'_>,
) -> Result<run::Outcome, BenchError> {
    let folder = Folder::create("switch-files").map_err(BenchError::io("making a folder"))?;
    let load = |&engine: &EngineKind| Ok((engine, mem::load(&cell.source, engine, &cell.spec)?));
    let ours = cell.engines.iter().map(load).collect::<Result<Vec<_>, BenchError>>()?;
    let Some((_, Loaded { workload, .. })) = ours.first() else { return Ok((Vec::new(), Vec::new())) };
    write_inputs(&folder.0, workload, cell.packets)?;
    let replay = |who, packets| Replay { cell, workload, packets, command, who };
    let mut all: Vec<Replay<'_>> = ours
        .iter()
        .map(|(engine, loaded)| replay(Who::Ours(*engine, loaded, &folder.0), cell.packets))
        .collect();
    let theirs = bmv2::Installed::find().filter(|_| cell.bmv2);
    let is_recorded = cell.bmv2 && theirs.is_none();
    if let Some(installed) = theirs {
        let packets = cell.packets.min(BMV2_PACKETS_MAX);
        let folder = Folder::create("bmv2-files").map_err(BenchError::io("making a folder"))?;
        write_inputs(&folder.0, workload, packets)?;
        all.push(replay(Who::Bmv2(installed, folder, Outputs { right: 0, lost: 0 }), packets));
    }
    let (mut rows, failed) = interleave(all, runs, told);
    if is_recorded {
        rows.extend(bmv2::recorded_files(&cell.source.name, cell.spec.entries));
    }
    Ok((rows, failed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::workload::Masks;

    fn cell(name: &str) -> FilesCell {
        FilesCell {
            source: name.parse().unwrap(),
            spec: Spec { size: 64, entries: 20, masks: Masks::Some(4), flows: Some(70), seed: 5 },
            packets: 5_000,
            engines: vec![EngineKind::Native, EngineKind::Interpreter],
            bmv2: false,
        }
    }

    #[test]
    fn files_come_out_as_they_have_to() {
        for name in ["simple_router", "acl", "deep_headers"] {
            let (rows, failures) =
                measure(&cell(name), 2, "test", Told { tell: &mut |_| {}, keep: &mut |_| {} }).unwrap();
            assert_eq!((rows.len(), failures.len()), (2, 0));
            for row in rows {
                let of = |key: &str| row.number(key).unwrap();
                assert_eq!((row.void.as_deref(), of("checked"), row.runs.len()), (None, 1e4, 2), "{row:?}");
                assert!(of("rate_pps") > 0.0 && of("cpu_us_per_packet") > 0.0, "{row:?}");
            }
        }
    }

    #[test]
    fn a_capture_that_lacks_a_packet_or_has_another_is_found_out() {
        let cell = cell("acl");
        let loaded = mem::load(&cell.source, EngineKind::Interpreter, &cell.spec).unwrap();
        let folder = Folder::create("switch-check").unwrap();
        write_inputs(&folder.0, &loaded.workload, 300).unwrap();
        assert_eq!(run_ours(&loaded, &folder.0, 300).unwrap().void, None);
        let check = |packets| check_outputs(&folder.0, &loaded.workload, packets);
        assert_eq!(check(300), Ok(Outputs { right: 300, lost: 0 }));
        assert_eq!(check(301), Ok(Outputs { right: 300, lost: 1 }));
        assert!(check(299).is_err());
        let path = out_file(&folder.0, 2);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(check(300).unwrap_err().contains("port 2"), "{:?}", check(300));
        // The second of its packets taken out: 16 bytes of record header and 64 of packet behind 24 of file header.
        let mut bytes = whole;
        bytes.drain(24 + 80..24 + 160);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(check(300), Ok(Outputs { right: 299, lost: 1 }));
    }

    #[test]
    fn captures_of_bmv2_are_read_as_ethernet() {
        let mut header = vec![0xa5; 16];
        header.extend([0; 8]);
        as_ethernet(&mut header);
        assert_eq!(&header[16..], &[0xff, 0xff, 0, 0, 1, 0, 0, 0]);
        let mut ours = vec![0xa5; 24];
        as_ethernet(&mut ours);
        assert_eq!(ours, vec![0xa5; 24]);
        as_ethernet(&mut [0; 3]);
    }
}
