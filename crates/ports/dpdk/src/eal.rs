//! DPDK's environment: started once in a process.

use crate::sys;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

/// Where huge pages of 2 MiB and 1 GiB are counted.
const HUGE_PAGES: [&str; 2] = [
    "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
    "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages",
];
/// MiB that the environment may take where there are no huge pages: rings and mbufs, not frames.
const MIB: &str = "256";
/// No card is taken but those that are asked for: one that is not there stands first in the list of those allowed.
const NOBODY: &str = "0000:00:00.0";

/// The arguments that it was started with, or why it does not run.
static STARTED: Mutex<Option<Result<Vec<String>, String>>> = Mutex::new(None);

fn has_huge_pages() -> bool {
    HUGE_PAGES.iter().any(|path| {
        std::fs::read_to_string(path).is_ok_and(|text| text.trim().parse::<u64>().is_ok_and(|free| free > 0))
    })
}

fn arguments(more: &[String], huge_pages: bool) -> Vec<String> {
    let mut all = vec!["barewire", "--no-telemetry", "--log-level=4", "-a", NOBODY];
    // Both leave no file behind; the first wants huge pages.
    match huge_pages {
        true => all.push("--in-memory"),
        false => all.extend(["--no-huge", "--no-shconf", "-m", MIB]),
    }
    all.iter().map(|word| (*word).to_owned()).chain(more.iter().cloned()).collect()
}

/// Starts it, unless it runs. `more` of a later port than the first has to be that of the first, or nothing.
///
/// # Errors
/// In words.
pub(crate) fn start(more: &[String]) -> Result<(), String> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    match &*started {
        Some(Ok(first)) if more.is_empty() || more == first => return Ok(()),
        Some(Ok(first)) => {
            return Err(format!(
                "DPDK runs already in this process, with `eal={}`: say it at the first port",
                first.join(" ")
            ));
        }
        Some(Err(why)) => return Err(why.clone()),
        None => {}
    }
    let words = arguments(more, has_huge_pages());
    let strings: Result<Vec<CString>, _> = words.iter().map(|word| CString::new(word.as_str())).collect();
    let strings = strings.map_err(|_| "an argument of DPDK holds a zero byte".to_owned())?;
    // It pins the thread that calls it: let that be one that ends.
    let body = move || sys::start(&strings).map_err(|error| error.to_string());
    let result = std::thread::Builder::new()
        .name("dpdk".to_owned())
        .spawn(body)
        .map_err(|error| error.to_string())
        .and_then(|thread| thread.join().unwrap_or_else(|_| Err("panicked".to_owned())));
    let result = result.map_err(|why| format!("starting {} (`{}`): {why}", sys::version(), words.join(" ")));
    *started = Some(result.clone().map(|()| more.to_vec()));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_pages_are_asked_for_where_there_are_no_huge_ones() {
        let of = |huge| arguments(&["-v".to_owned()], huge).join(" ");
        assert!(of(false).contains("--no-huge --no-shconf -m 256") && of(false).ends_with(" -v"));
        assert!(!of(true).contains("--no-huge") && of(true).contains("--in-memory"));
    }
}
