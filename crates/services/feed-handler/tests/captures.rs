//! Captures: written by the emulator and the recorder, replayed at every speed, merged, damaged.

mod common;

use barewire_base::{Duration, Instant};
use barewire_feed_emulator::{CaptureWriter, Emulator, EmulatorConfig};
use barewire_feed_handler::{
    ChannelPlan, Consumer, FeedHandler, FeedType, Input, Packet, PortOptions, PortSource, Replay, Side,
    SocketOptions, SourceError,
};
use barewire_frame::{ClockDomain, Pool, PoolConfig};
use barewire_port::{PcapConfig, PcapPort, PcapReader, Speed};
use barewire_testing::Folder;
use common::{Keep, channel, emulation, plan};
use std::path::Path;

const LONG: Duration = Duration::from_millis(400);

/// Emulates into a capture; what was emitted, line by line.
fn capture(config: &EmulatorConfig, path: &Path, only: Option<Side>) -> Vec<(FeedType, Side, u64, Vec<u8>)> {
    let start = Instant::from_nanos(5);
    let mut emulator = Emulator::new(config.clone(), start).unwrap();
    let lines = channel(config).connections;
    let mut writer = CaptureWriter::create(path, &lines, &emulator).unwrap();
    let mut emitted = Vec::new();
    emulator.next_packets(start + LONG, &mut |packet| {
        if only.is_none_or(|side| side == packet.side) {
            writer.write(packet).unwrap();
            let ns = config.epoch_ns + packet.at.since(start).as_nanos();
            emitted.push((packet.feed, packet.side, ns, packet.payload.to_vec()));
        }
    });
    writer.finish().unwrap();
    emitted
}

fn replayer(config: &EmulatorConfig) -> FeedHandler<Keep> {
    let plan = plan(config, Input::Sockets(SocketOptions::default()), None);
    FeedHandler::builder(plan).sources(vec![]).build(|_, _| Keep::default()).unwrap()
}

fn kept(handler: &FeedHandler<Keep>) -> Vec<(FeedType, Side, u64, Vec<u8>)> {
    let kept = handler.channels()[0].packets.iter();
    kept.map(|(line, stamp, payload)| (line.feed, line.side, stamp.ns, payload.clone())).collect()
}

#[test]
fn a_replay_is_the_capture_with_its_stamps() {
    let folder = Folder::new("replay");
    let config = emulation(1);
    let emitted = capture(&config, &folder.file("all.pcap"), None);
    let plan = channel(&config);
    let mut replay = Replay::open(&[folder.file("all.pcap")], &[plan], true).unwrap();
    let mut handler = replayer(&config);
    let count = handler.replay(&mut replay, Speed::Flat, None).unwrap();
    assert!(count > 300 && count as usize == emitted.len(), "{count}");
    assert!(kept(&handler) == emitted);
    let first = &handler.channels()[0];
    assert!(first.packets.iter().all(|(_, stamp, _)| stamp.clock == ClockDomain::Capture));
    // Time is the capture's own.
    assert!(first.now.iter().zip(&emitted).all(|(now, (_, _, ns, _))| now.as_nanos() == *ns));
}

#[test]
fn a_paced_replay_takes_its_time_and_gives_the_same() {
    let folder = Folder::new("paced");
    let config = emulation(2);
    let emitted = capture(&config, &folder.file("all.pcap"), None);
    let mut replay = Replay::open(&[folder.file("all.pcap")], &[channel(&config)], true).unwrap();
    let mut handler = replayer(&config);
    let before = barewire_engine::now();
    handler.replay(&mut replay, Speed::Times(4.0), None).unwrap();
    let took_ms = barewire_engine::now().since(before).as_nanos() / 1_000_000;
    assert!(kept(&handler) == emitted);
    // 400 ms at four times their speed; how much longer it takes is the machine's affair.
    assert!(took_ms >= 95, "{took_ms} ms");
}

#[test]
fn two_captures_are_merged_by_their_stamps() {
    let folder = Folder::new("merge");
    let config = emulation(3);
    let mut both = capture(&config, &folder.file("a.pcap"), Some(Side::A));
    both.extend(capture(&config, &folder.file("b.pcap"), Some(Side::B)));
    let files = [folder.file("a.pcap"), folder.file("b.pcap")];
    let mut replay = Replay::open(&files, &[channel(&config)], true).unwrap();
    let mut handler = replayer(&config);
    handler.replay(&mut replay, Speed::Flat, None).unwrap();
    let merged = kept(&handler);
    assert!(merged.windows(2).all(|pair| pair[0].2 <= pair[1].2));
    both.sort_by_key(|packet| packet.2);
    assert_eq!(merged.len(), both.len());
    for side in [Side::A, Side::B] {
        let of = |all: &[(FeedType, Side, u64, Vec<u8>)]| -> Vec<Vec<u8>> {
            all.iter().filter(|p| p.1 == side).map(|p| p.3.clone()).collect()
        };
        assert!(of(&merged) == of(&both));
    }
}

#[test]
fn the_pcap_port_as_a_source_gives_the_same_as_a_replay() {
    let folder = Folder::new("port");
    let config = emulation(4);
    let emitted = capture(&config, &folder.file("all.pcap"), None);
    let pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
    let port = PcapPort::open(
        PcapConfig {
            input: Some(folder.file("all.pcap")),
            output: None,
            speed: Speed::Flat,
            loops: 1,
            epoch_ns: 0,
        },
        pool,
    )
    .unwrap();
    let channels = [channel(&config)];
    let options = PortOptions::new("pcap:");
    let source = PortSource::of_port(Box::new(port), "capture", &channels, &[Side::A, Side::B], &options);
    // What is recorded on the way is the same capture again.
    let record = folder.file("again.pcap");
    let plan = plan(&config, Input::Ports(options), Some(record.clone()));
    let mut handler =
        FeedHandler::builder(plan).sources(vec![Box::new(source)]).build(|_, _| Keep::default()).unwrap();
    let mut now = Instant::from_nanos(1);
    while !handler.is_finished() {
        handler.process(now).unwrap();
        now += Duration::from_micros(1);
    }
    assert!(kept(&handler) == emitted);
    handler.recorder_mut().unwrap().flush().unwrap();
    let packets = |path: &Path| {
        let mut reader = PcapReader::open(path).unwrap();
        let mut all = Vec::new();
        while let Some(packet) = reader.next_packet().unwrap() {
            all.push((packet.ns, packet.data.to_vec()));
        }
        all
    };
    assert!(packets(&record) == packets(&folder.file("all.pcap")));
}

#[test]
fn only_known_senders_pass_where_the_plan_names_them() {
    let folder = Folder::new("senders");
    let config = emulation(5);
    let mut named: ChannelPlan = channel(&config);
    for connection in &mut named.connections {
        connection.sources = vec!["10.1.1.1".parse().unwrap()];
    }
    // The capture is from nobody in particular.
    let emitted = capture(&config, &folder.file("all.pcap"), None);
    let count = |filter| {
        let mut replay = Replay::open(&[folder.file("all.pcap")], &[named.clone()], filter).unwrap();
        let mut handler = replayer(&config);
        handler.replay(&mut replay, Speed::Flat, None).unwrap();
        (handler.channels()[0].packets.len(), replay.counts().drops.total() as usize)
    };
    assert_eq!(count(false), (emitted.len(), 0));
    assert_eq!(count(true), (0, emitted.len()));
}

/// Counts its timers and checks that time only goes on.
#[derive(Default)]
struct Ticking {
    due: Option<Instant>,
    last: Instant,
    ticks: u64,
}

impl Consumer for Ticking {
    fn on_packet(&mut self, now: Instant, _: &Packet<'_>) {
        assert!(now >= self.last);
        self.last = now;
        self.due.get_or_insert(now + Duration::from_millis(1));
    }
    fn on_timeout(&mut self, now: Instant) {
        assert!(now >= self.last && Some(now) >= self.due);
        self.last = now;
        self.ticks += 1;
        self.due = Some(now + Duration::from_millis(1));
    }
    fn next_deadline(&self) -> Option<Instant> {
        self.due
    }
}

#[test]
fn timers_run_by_the_captures_time_at_any_speed() {
    let folder = Folder::new("timers");
    let config = emulation(6);
    capture(&config, &folder.file("all.pcap"), None);
    let plan = plan(&config, Input::Sockets(SocketOptions::default()), None);
    let mut handler = FeedHandler::builder(plan).sources(vec![]).build(|_, _| Ticking::default()).unwrap();
    let mut replay = Replay::open(&[folder.file("all.pcap")], &[channel(&config)], true).unwrap();
    handler.replay(&mut replay, Speed::Flat, None).unwrap();
    let ticks = handler.channels()[0].ticks;
    // A tick a millisecond over 400 ms of capture, in no time.
    assert!((390..=400).contains(&ticks), "{ticks}");
}

#[test]
fn damaged_and_missing_captures_are_named_with_the_place() {
    let folder = Folder::new("damaged");
    let config = emulation(7);
    capture(&config, &folder.file("all.pcap"), None);
    let channels = [channel(&config)];
    let missing = Replay::open(&[folder.file("none.pcap")], &channels, true).err().unwrap();
    assert!(missing.to_string().contains("none.pcap"), "{missing}");
    let mut bytes = std::fs::read(folder.file("all.pcap")).unwrap();
    bytes.truncate(bytes.len() - 3);
    std::fs::write(folder.file("cut.pcap"), &bytes).unwrap();
    let mut replay = Replay::open(&[folder.file("cut.pcap")], &channels, true).unwrap();
    let error = replayer(&config).replay(&mut replay, Speed::Flat, None).unwrap_err();
    assert!(
        matches!(&error, SourceError::Capture { .. }) && error.to_string().contains("at byte"),
        "{error}"
    );
}
