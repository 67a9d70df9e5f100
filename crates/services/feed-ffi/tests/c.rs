//! C programs over captures of an emulated channel, beside the emulator's truth.

#[path = "../../ffi/tests/rig/programs.rs"]
mod programs;

use barewire_base::{Duration, Instant};
use barewire_feed_emulator::{
    CaptureWriter, Emulator, EmulatorConfig, LineFaults, Truth, TruthBook, connections,
};
use barewire_sbe::Price9;
use barewire_testing::Folder;
use programs::{Program, bindings, compile, declared, exported, library};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How long the loops go on after the market's end: whatever was lost last is made good.
const AFTER: Duration = Duration::from_millis(1_500);

/// An emulated channel in a capture, with a configuration and the truth.
struct Rig {
    dir: Folder,
    truth: Truth,
}

impl Rig {
    fn new(label: &str, seed: u64, faults: LineFaults, resets: Vec<Duration>) -> Rig {
        let dir = Folder::new(label);
        let config = EmulatorConfig {
            seed,
            instruments: 20,
            active: Duration::from_millis(300),
            events_per_s: 3_000,
            conflation: Duration::from_millis(5),
            definition_gap: Duration::from_millis(2),
            snapshot_gap: Duration::from_millis(2),
            heartbeat: Duration::from_millis(50),
            faults_a: faults,
            faults_b: faults,
            resets,
            ..EmulatorConfig::default()
        };
        let start = Instant::from_nanos(1_000);
        let lines = connections(config.channel_id, 19_200);
        let mut toml = format!("[[channel]]\nid = {}\nlabel = \"emulated\"\n", config.channel_id);
        for line in &lines {
            let feed = line.feed.letters();
            let (side, group, port) = (line.side, line.to.ip(), line.to.port());
            write!(
                toml,
                "[[channel.connection]]\nfeed = \"{feed}\"\nside = \"{side}\"\ngroup = \"{group}\"\nudp_port = {port}\n"
            )
            .unwrap();
        }
        let mut emulator = Emulator::new(config, start).unwrap();
        let capture = dir.path().join("feed.pcap");
        let mut writer = CaptureWriter::create(&capture, &lines, &emulator).unwrap();
        emulator.next_packets(emulator.active_until() + AFTER, &mut |packet| writer.write(packet).unwrap());
        writer.finish().unwrap();
        let name = dir.path().file_name().unwrap().to_str().unwrap();
        for (file, input) in [
            ("offline.toml", String::new()),
            ("pcap.toml", format!("[port]\nport_a = \"pcap:{}\"\n", capture.display())),
            ("silent.toml", format!("[port]\nport_a = \"mem:{name}\"\n")),
        ] {
            std::fs::write(dir.path().join(file), format!("{input}{toml}")).unwrap();
        }
        Rig { truth: emulator.truth(), dir }
    }

    fn lossy(label: &str) -> Rig {
        let faults = LineFaults {
            loss: 0.2,
            duplicate: 0.02,
            reorder: 0.02,
            reorder_delay: Duration::from_micros(500),
            ..LineFaults::default()
        };
        Rig::new(label, 5, faults, vec![Duration::from_millis(120)])
    }

    fn file(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn build(&self, source: &str) -> Option<PathBuf> {
        std::os::unix::fs::symlink(library("libbwfeed.so"), self.dir.path().join("libbwfeed.so")).unwrap();
        compile(&self.dir, &bindings().join(source), "bwfeed")
    }

    /// Runs the test program; what it printed.
    fn run(&self, word: &str, config: &str) -> Option<String> {
        let program = self.build("tests/bwf_test.c")?;
        let (config, capture) = (self.file(config), self.file("feed.pcap"));
        Some(Program::start(&program, self.dir.path(), &[word, &config, &capture]).succeed())
    }
}

/// A book as the example prints it, from the truth.
fn printed(book: &TruthBook) -> Vec<String> {
    type Levels = [barewire_feed_emulator::Level];
    let mut lines = Vec::new();
    let mut levels = |name: &str, levels: &Levels| {
        for (index, level) in levels.iter().enumerate() {
            let orders = level.orders.map_or(String::new(), |orders| format!(" {orders}"));
            let price = Price9(level.price_e9);
            lines.push(format!("{name} {} {price} {}{orders}", index + 1, level.quantity));
        }
    };
    // Merged without the library: by price, quantities added.
    let merge = |direct: &Levels, implied: &Levels, bid: bool| {
        let mut all = direct.to_vec();
        for level in implied {
            match all.iter_mut().find(|other| other.price_e9 == level.price_e9) {
                Some(other) => other.quantity += level.quantity,
                None => all.push(*level),
            }
        }
        all.sort_by_key(|level| if bid { -level.price_e9 } else { level.price_e9 });
        all.truncate(10);
        all
    };
    levels("bid", &book.bids);
    levels("implied-bid", &book.implied_bids);
    levels("consolidated-bid", &merge(&book.bids, &book.implied_bids, true));
    levels("offer", &book.offers);
    levels("implied-offer", &book.implied_offers);
    levels("consolidated-offer", &merge(&book.offers, &book.implied_offers, false));
    for (name, orders) in [("order-bid", &book.top_bids), ("order-offer", &book.top_offers)] {
        for (index, o) in orders.iter().enumerate() {
            let place = index + 1;
            lines.push(format!(
                "{name} {place} {} {} {} {}",
                o.order_id,
                o.priority,
                Price9(o.price_e9),
                o.quantity
            ));
        }
    }
    lines.sort();
    lines
}

/// The books that the example prints are the truth.
fn compare(output: &str, truth: &Truth) {
    let mut books: HashMap<i32, (String, Vec<String>)> = HashMap::new();
    let mut current = 0;
    for line in output.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "book" => {
                current = words[2].parse().unwrap();
                assert!(books.insert(current, (words[3..5].join(" "), vec![])).is_none(), "{line}");
            }
            "best" | "trade" => {}
            _ => books.get_mut(&current).unwrap().1.push(line.to_owned()),
        }
    }
    assert_eq!(books.len(), truth.books.len());
    let (mut levels, mut implied, mut orders) = (0, 0, 0);
    for book in &truth.books {
        let (head, lines) = books.get_mut(&book.security_id).unwrap();
        lines.sort();
        assert_eq!(*lines, printed(book), "instrument {}", book.security_id);
        assert_eq!(*head, format!("{} good", book.symbol));
        levels += book.bids.len() + book.offers.len();
        implied += book.implied_bids.len() + book.implied_offers.len();
        orders += book.top_bids.len() + book.top_offers.len();
    }
    assert!(levels > 100 && implied > 5 && orders > 50, "{levels} {implied} {orders}: the truth is too thin");
}

#[test]
fn exactly_the_headers_functions_are_exported() {
    let Some(mut names) = exported(&library("libbwfeed.so")) else { return };
    let header = std::fs::read_to_string(bindings().join("bwfeed.h")).unwrap();
    names.retain(|n| n != "_init" && n != "_fini");
    assert_eq!(names, declared(&header));
    assert_eq!(names.len(), 26);
}

#[test]
fn the_books_that_the_example_prints_are_the_truth() {
    for (seed, loss) in [(8, 0.0), (9, 0.05)] {
        let faults = LineFaults { loss, ..LineFaults::default() };
        let rig = Rig::new("books", seed, faults, vec![]);
        let Some(program) = rig.build("examples/books.c") else { return };
        let (config, capture) = (rig.file("offline.toml"), rig.file("feed.pcap"));
        let output = Program::start(&program, rig.dir.path(), &[&config, &capture]).succeed();
        compare(&output, &rig.truth);
        let output = Program::start(&program, rig.dir.path(), &["-e", &config, &capture]).succeed();
        compare(&output, &rig.truth);
        assert!(output.lines().filter(|line| line.starts_with("best ")).count() > 100);
        let trades: u64 = rig.truth.books.iter().map(|book| book.trades).sum();
        let shown = output.lines().filter(|line| line.starts_with("trade ")).count() as u64;
        assert!(shown > 20 && (loss > 0.0 || shown == trades), "{shown} of {trades}");
        // From a port, without an end of its own to wait for.
        let output = Program::start(&program, rig.dir.path(), &[&rig.file("pcap.toml")]).succeed();
        compare(&output, &rig.truth);
    }
}

const SIGINT: u32 = 2;

/// Waits until the process of this program has a handler of its own for the signal: before that it would be killed by it.
fn wait_until_caught(program: &Path, signal: u32) {
    let program = program.canonicalize().unwrap();
    let is_caught = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let ours =
            |process: &PathBuf| std::fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program);
        let status = processes.filter(ours).find_map(|it| std::fs::read_to_string(it.join("status")).ok());
        let mask =
            status.as_deref().and_then(|all| all.lines().find_map(|line| line.strip_prefix("SigCgt:")));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
    };
    let nap = std::time::Duration::from_millis(2);
    for _ in 0..30_000 {
        if is_caught() {
            return;
        }
        std::thread::sleep(nap);
    }
    panic!("{} catches no signal", program.display());
}

#[test]
fn the_example_says_what_is_wrong_and_obeys_a_signal() {
    let rig = Rig::lossy("books-wrong");
    let Some(program) = rig.build("examples/books.c") else { return };
    let missing = rig.file("missing.pcap");
    let (code, _) = Program::start(&program, rig.dir.path(), &[&rig.file("offline.toml"), &missing]).finish();
    assert_eq!(code, Some(1));
    let mut waiting = Program::start(&program, rig.dir.path(), &[&rig.file("silent.toml")]);
    wait_until_caught(&program, SIGINT);
    waiting.signal("-INT");
    assert_eq!(waiting.succeed(), "", "no instrument is known");
}

#[test]
fn every_callback_comes_and_calls_from_inside_are_refused() {
    let rig = Rig::lossy("callbacks");
    if let Some(output) = rig.run("callbacks", "offline.toml") {
        assert!(output.contains(" books, "), "{output}");
    }
}

#[test]
fn channels_instruments_and_statistics_are_asked_for() {
    Rig::lossy("queries").run("queries", "offline.toml");
}

#[test]
fn a_capture_as_a_port_runs_to_its_end() {
    Rig::lossy("live").run("live", "pcap.toml");
}

#[test]
fn a_run_is_stopped_by_time_a_thread_and_a_signal() {
    Rig::lossy("stop").run("stop", "silent.toml");
}

#[test]
fn a_child_has_none_of_its_parents_handlers() {
    Rig::lossy("forks").run("forks", "silent.toml");
    Rig::lossy("forks-run").run("forks_run", "pcap.toml");
}

#[test]
fn a_handler_may_drive_another_from_its_callback() {
    Rig::lossy("nested").run("nested", "offline.toml");
}

#[test]
fn wrong_arguments_are_codes() {
    if let Some(output) = Rig::lossy("misuse").run("misuse", "offline.toml") {
        assert!(output.contains("did you mean"), "{output}");
    }
}
