//! From the port to C's callbacks, and asking for books, nothing allocates, by an allocator that counts.

use barewire_base::{Duration, Instant};
use barewire_feed_emulator::{CaptureWriter, Emulator, EmulatorConfig, LineFaults, connections};
use barewire_testing::{Counting, allocations};
use bwfeed::callbacks::BwfCallbacks;
use bwfeed::entry::{bwf_close, bwf_last_error, bwf_open_text, bwf_process};
use bwfeed::query::{bwf_book_get, bwf_consolidated};
use bwfeed::types::{BWF_DEPTH_MAX, BwfBook, BwfBookRoom, BwfFeed, BwfLevel, BwfTrade};
use std::ffi::{CStr, CString, c_void};
use std::fmt::Write as _;
use std::mem::MaybeUninit;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Seen {
    books: u64,
    trades: u64,
    levels: u64,
}

unsafe extern "C" fn on_book(user: *mut c_void, book: *const BwfBook) {
    // SAFETY: the test's own counters, and a book that is valid in the callback.
    let (seen, direct) = unsafe { (&mut *user.cast::<Seen>(), (*book).direct) };
    let mut merged = [const { MaybeUninit::<BwfLevel>::uninit() }; BWF_DEPTH_MAX];
    // SAFETY: the book is the library's own; there is room for all levels.
    let count = unsafe { bwf_consolidated(book, 0, merged.as_mut_ptr().cast(), BWF_DEPTH_MAX) };
    assert!(count >= direct[0].count as i32);
    seen.books += 1;
    seen.levels += u64::from(direct[0].count + direct[1].count);
}

unsafe extern "C" fn on_trade(user: *mut c_void, _: *const BwfTrade) {
    // SAFETY: the test's own counters.
    unsafe { (*user.cast::<Seen>()).trades += 1 };
}

#[test]
fn from_the_port_to_c_nothing_allocates() {
    let path = std::env::temp_dir().join(format!("bwf-no-alloc-{}.pcap", std::process::id()));
    let loss = LineFaults { loss: 0.05, ..LineFaults::default() };
    let config = EmulatorConfig {
        seed: 31,
        active: Duration::from_millis(300),
        events_per_s: 3_000,
        conflation: Duration::from_millis(5),
        definition_gap: Duration::from_millis(2),
        snapshot_gap: Duration::from_millis(2),
        faults_a: loss,
        faults_b: loss,
        resets: vec![Duration::from_millis(150)],
        ..EmulatorConfig::default()
    };
    let lines = connections(config.channel_id, 19_300);
    let mut toml = format!("[port]\nport_a = \"pcap:{}\"\n[[channel]]\nid = 901\n", path.display());
    for line in &lines {
        let (feed, side, group, port) = (line.feed.letters(), line.side, line.to.ip(), line.to.port());
        writeln!(toml, "[[channel.connection]]\nfeed = \"{feed}\"\nside = \"{side}\"").unwrap();
        writeln!(toml, "group = \"{group}\"\nudp_port = {port}").unwrap();
    }
    let mut emulator = Emulator::new(config, Instant::ZERO).unwrap();
    let mut writer = CaptureWriter::create(&path, &lines, &emulator).unwrap();
    emulator.next_packets(Instant::ZERO + Duration::from_millis(600), &mut |p| writer.write(p).unwrap());
    writer.finish().unwrap();

    let toml = CString::new(toml).unwrap();
    let mut seen = Seen::default();
    // SAFETY: zeros are a number, a null pointer and no functions.
    let mut callbacks: BwfCallbacks = unsafe { MaybeUninit::zeroed().assume_init() };
    callbacks.size = size_of::<BwfCallbacks>() as u32;
    callbacks.user = (&raw mut seen).cast();
    callbacks.book = Some(on_book);
    callbacks.trade = Some(on_trade);
    let mut feed: *mut BwfFeed = std::ptr::null_mut();
    // SAFETY: a C string, callbacks whose counters outlive the handler, and a place for it.
    let opened = unsafe { bwf_open_text(toml.as_ptr(), &raw const callbacks, 0, &raw mut feed) };
    // SAFETY: the last error is a C string.
    assert_eq!(opened, 0, "{:?}", unsafe { CStr::from_ptr(bwf_last_error()) });

    // SAFETY: zeros are numbers and null pointers.
    let (mut book, mut room): (BwfBook, BwfBookRoom) = unsafe { MaybeUninit::zeroed().assume_init() };
    let (mut packets, mut counted, mut asked) = (0, 0, 0);
    loop {
        let before = allocations();
        let got = bwf_process(feed);
        assert!(got >= 0);
        for security_id in 1000..1020 {
            (book.size, room.size) = (size_of::<BwfBook>() as u32, size_of::<BwfBookRoom>() as u32);
            // SAFETY: both are valid and have their sizes.
            let found = unsafe { bwf_book_get(feed, 0, security_id, &raw mut book, &raw mut room) };
            asked += u64::from(found == 0);
        }
        counted += allocations() - before;
        packets += got;
        if got == 0 {
            break;
        }
    }
    assert_eq!(bwf_close(feed), 0);
    std::fs::remove_file(&path).unwrap();
    assert!(packets > 500 && seen.books > 100 && seen.trades > 5 && seen.levels > 1_000 && asked > 20);
    assert_eq!(counted, 0, "allocations while {packets} packets made {} books", seen.books);
}
