//! Instructions per packet, by callgrind, which does not care what else the machine does.

use crate::error::{BenchError, go_on};
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// Packets of the shorter and the longer of two runs: what is left of their difference is packets only.
pub const PACKETS: [u64; 2] = [4_000, 12_000];

/// Whether `valgrind` is there.
pub fn available() -> bool {
    super::bmv2::on_path("valgrind").is_some()
}

/// Instructions that one packet costs the switch. `child` makes the arguments with which this very program runs
/// [`Rig::count`](super::mem::Rig::count) for a number of packets.
///
/// # Errors
/// [`BenchError`] when the program does not run, or valgrind's report is not understood.
pub fn instructions_per_packet(child: &dyn Fn(u64) -> Vec<OsString>) -> Result<f64, BenchError> {
    let program = std::env::current_exe().map_err(BenchError::io("finding this program"))?;
    let mut collected = [0_u64; 2];
    for (packets, instructions) in PACKETS.iter().zip(&mut collected) {
        go_on()?;
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted_cycle*"])
            .arg(&program)
            .args(child(*packets))
            .stdin(Stdio::null())
            .output()
            .map_err(BenchError::io("running valgrind"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let failed = |why: &str| BenchError::Program { program: "valgrind".to_owned(), why: why.to_owned() };
        if !output.status.success() {
            return Err(failed(text.lines().last().unwrap_or("it failed and did not say why")));
        }
        *instructions = collected_in(&text).ok_or_else(|| failed("no `Collected` in its report"))?;
    }
    let more = PACKETS[1] - PACKETS[0];
    Ok((collected[1].saturating_sub(collected[0]) as f64 / more as f64 * 10.0).round() / 10.0)
}

/// `==123== Collected : 4567`
fn collected_in(report: &str) -> Option<u64> {
    let line = report.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_read() {
        let report = "==7== \n==7== Events    : Ir\n==7== Collected : 4803911\n==7== \n";
        assert_eq!(collected_in(report), Some(4_803_911));
        assert_eq!(collected_in("==7== Collected : many"), None);
        assert_eq!(collected_in(""), None);
    }
}
