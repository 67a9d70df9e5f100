//! From the socket or the port to the listener nothing allocates, by an allocator that counts.

mod common;

use barewire_base::{Duration, Instant};
use barewire_engine::now;
use barewire_feed::{BookView, Listener};
use barewire_feed_emulator::{CaptureWriter, Emitted, Emulator, EmulatorConfig, LineFaults, Sender};
use barewire_feed_handler::{FeedHandler, FeedType, Input, PortOptions, PortSource, Side};
use barewire_frame::{Pool, PoolConfig};
use barewire_port::{PcapConfig, PcapPort, Speed};
use barewire_testing::{Counting, Folder, allocations};
use common::{channel, emulation, plan, privileged, sockets};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Looks at every book, keeps nothing.
#[derive(Default)]
struct Look {
    books: u64,
    sum: i64,
}

impl Listener for Look {
    fn on_book(&mut self, book: &BookView<'_>) {
        self.books += 1;
        self.sum = book.bids().iter().chain(book.offers()).fold(self.sum, |sum, level| sum ^ level.price);
    }
}

/// An emulation with everything in it: losses, resets, weeks, instruments that come and go, recovery.
fn busy() -> EmulatorConfig {
    let loss = LineFaults { loss: 0.05, ..LineFaults::default() };
    EmulatorConfig {
        faults_a: loss,
        faults_b: loss,
        resets: vec![Duration::from_millis(150)],
        weekly_resets: vec![Duration::from_millis(200)],
        weekend: Duration::from_millis(10),
        definition_changes_per_s: 100,
        ..emulation(31)
    }
}

/// Everything that it emits, in order.
fn emitted(config: &EmulatorConfig) -> Vec<(Instant, FeedType, Side, Vec<u8>)> {
    let mut emulator = Emulator::new(config.clone(), Instant::ZERO).unwrap();
    let mut all = Vec::new();
    emulator.next_packets(Instant::ZERO + Duration::from_millis(600), &mut |p| {
        all.push((p.at, p.feed, p.side, p.payload.to_vec()));
    });
    all
}

#[test]
fn sockets_to_books_allocate_nothing() {
    if !privileged() {
        return;
    }
    let host = barewire_netns::Namespace::anonymous().unwrap();
    host.set_up("lo").unwrap();
    let (books, counted) = host
        .enter(|| {
            let config = busy();
            let packets = emitted(&config);
            let sender = Sender::open(&channel(&config).connections, Some("lo")).unwrap();
            let mut handler = FeedHandler::builder(plan(&config, sockets("lo"), None))
                .listen(|_, _| Look::default())
                .unwrap();
            let mut counted = 0;
            for (at, feed, side, payload) in &packets {
                sender.send(&Emitted { at: *at, feed: *feed, side: *side, payload }).unwrap();
                let before = allocations();
                handler.process(now()).unwrap();
                counted += allocations() - before;
            }
            (handler.channels()[0].listener().books, counted)
        })
        .unwrap();
    assert!(books > 100, "{books}");
    // Joining and leaving the loops' groups are system calls, and no packet's.
    assert_eq!(counted, 0, "allocations while {books} books were shown");
}

#[test]
fn ports_to_books_and_the_recorder_allocate_nothing() {
    let folder = Folder::new("no-alloc");
    let config = busy();
    let mut emulator = Emulator::new(config.clone(), Instant::ZERO).unwrap();
    let mut writer =
        CaptureWriter::create(&folder.file("in.pcap"), &channel(&config).connections, &emulator).unwrap();
    emulator.next_packets(Instant::ZERO + Duration::from_millis(600), &mut |p| writer.write(p).unwrap());
    writer.finish().unwrap();
    let pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
    let input = Some(folder.file("in.pcap"));
    let port =
        PcapPort::open(PcapConfig { input, output: None, speed: Speed::Flat, loops: 1, epoch_ns: 0 }, pool)
            .unwrap();
    let options = PortOptions::new("pcap:");
    let sides = [Side::A, Side::B];
    let source = PortSource::of_port(Box::new(port), "capture", &[channel(&config)], &sides, &options);
    let plan = plan(&config, Input::Ports(options), Some(folder.file("out.pcap")));
    let mut handler =
        FeedHandler::builder(plan).sources(vec![Box::new(source)]).listen(|_, _| Look::default()).unwrap();
    let mut counted = 0;
    while !handler.is_finished() {
        let before = allocations();
        handler.process(now()).unwrap();
        counted += allocations() - before;
    }
    let books = handler.channels()[0].listener().books;
    assert!(books > 100, "{books}");
    assert_eq!(counted, 0, "allocations while {books} books were shown");
}
