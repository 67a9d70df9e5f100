//! Without wires: packets are handed to a feed channel in one thread.

use super::live::channel_plan;
use super::probe::{Probe, Spans, What};
use super::traffic::Traffic;
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use barewire_base::{Duration, Instant};
use barewire_feed_handler::{Consumer, FeedChannel, FeedType, LineId, Packet, Side};
use barewire_frame::Stamp;
use barewire_measure::{Contention, ContentionReport, stamp};

/// Largest UDP payload.
pub(crate) const PACKET_MAX: usize = 2048;
/// Packets between two looks at the flag that somebody interrupted.
const LOOK_EVERY: usize = 256;
const LINE: LineId = LineId { channel: 0, feed: FeedType::Incremental, side: Side::A };

fn refused(error: barewire_feed::ConfigError) -> BenchError {
    BenchError::Plan(error.to_string())
}

/// Hands all packets over, `gap` apart. Each is first copied to where the last one was, as a receive call does, so that its bytes
/// are in a cache. Gives the spans, and the measured packets per second.
///
/// # Errors
/// [`BenchError`] when somebody interrupted.
#[inline(never)]
pub fn run(
    what: What,
    gap: Duration,
    instruments: u32,
    keep_warm: bool,
    traffic: &Traffic,
    cpu: &Charge,
) -> Result<(Spans, f64, ContentionReport), BenchError> {
    go_on()?;
    let plan = channel_plan(instruments, false, keep_warm);
    let channel = |listener| FeedChannel::new(&plan, PACKET_MAX, Instant::ZERO, listener);
    let mut probe = Probe::new(what, channel, traffic.warmup() as u32 + 1).map_err(refused)?;
    let mut buffer = [0u8; PACKET_MAX];
    let mut watch = Contention::start();
    let (mut start, mut due) = (stamp(), Instant::ZERO);
    for index in 0..traffic.len() {
        if index == traffic.warmup() {
            watch = Contention::start();
            cpu.begins();
            start = stamp();
            due = start;
        }
        if index >= traffic.warmup() && gap > Duration::ZERO {
            // As an engine that polls.
            loop {
                let now = stamp();
                if now >= due {
                    break;
                }
                probe.keep_warm(now);
                std::hint::spin_loop();
            }
            due += gap;
        }
        let bytes = traffic.packet(index);
        let payload = &mut buffer[..bytes.len()];
        payload.copy_from_slice(bytes);
        let now = stamp();
        let packet = Packet {
            line: LINE,
            stamp: Stamp::engine(now),
            payload: std::hint::black_box(payload),
            frame: None,
        };
        probe.on_packet(now, &packet);
        if index % LOOK_EVERY == 0 {
            go_on()?;
        }
    }
    let took = stamp().since(start);
    cpu.ends();
    let measured = (traffic.len() - traffic.warmup()) as f64;
    Ok((probe.finish(), measured / took.as_secs_f64().max(1e-9), watch.finish()))
}

/// Packets per second through a feed channel without a clock in it, and books shown.
///
/// # Errors
/// [`BenchError::Plan`] when a book was missing.
#[inline(never)]
pub fn flat_out(instruments: u32, traffic: &Traffic, cpu: &Charge) -> Result<(f64, u64), BenchError> {
    #[derive(Default)]
    struct Books(u64);
    impl barewire_feed::Listener for Books {
        fn on_book(&mut self, book: &barewire_feed::BookView<'_>) {
            self.0 += 1;
            std::hint::black_box(book.bids().first());
        }
    }
    let plan = channel_plan(instruments, false, false);
    let mut channel =
        FeedChannel::new(&plan, PACKET_MAX, Instant::ZERO, Books::default()).map_err(refused)?;
    let mut start = stamp();
    let mut before = 0;
    for index in 0..traffic.len() {
        if index == traffic.warmup() {
            cpu.begins();
            start = stamp();
            before = channel.listener().0;
        }
        let packet = Packet {
            line: LINE,
            stamp: Stamp::engine(Instant::ZERO),
            payload: traffic.packet(index),
            frame: None,
        };
        channel.on_packet(Instant::ZERO, &packet);
    }
    let took = stamp().since(start).as_secs_f64().max(1e-9);
    cpu.ends();
    let measured = traffic.len() - traffic.warmup();
    let drops: u64 = channel.core().counters().drops().map(|(_, count)| count).sum();
    if drops > 0 {
        return Err(BenchError::Plan(format!("{drops} packets, messages or entries were not used")));
    }
    Ok((measured as f64 / took, channel.listener().0 - before))
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Workload;
    use super::*;
    use crate::patience::until_well;

    #[test]
    fn every_measured_packet_gives_a_sample() {
        let traffic = Traffic::make(Workload::OneEntry, 10, 500, 1).unwrap();
        for what in [What::Book, What::Message] {
            let (spans, pps, _) =
                run(what, Duration::from_micros(10), 10, true, &traffic, &Charge::start()).unwrap();
            assert_eq!((spans.app.samples(), spans.packets, spans.dropped), (500, 600, 0));
            assert!(pps > 0.0 && pps <= 101_000.0, "{pps}");
        }
        // Half a millisecond of work, in which a busy machine may do something else.
        let (pps, books) =
            until_well(|| flat_out(10, &traffic, &Charge::start()).unwrap(), |&(pps, _)| pps > 1_000.0);
        assert!(pps > 1_000.0, "{pps}");
        assert_eq!(books, 500);
    }

    #[test]
    fn an_emulated_channel_shows_its_books() {
        let traffic = Traffic::make(Workload::Channel, 50, 500, 2).unwrap();
        let (spans, _, _) = run(What::Book, Duration::ZERO, 50, false, &traffic, &Charge::start()).unwrap();
        assert_eq!((spans.packets, spans.dropped), (550, 0));
        assert!(spans.app.samples() > 400, "{} of 500 packets end an event with books", spans.app.samples());
        let (_, books) = flat_out(50, &traffic, &Charge::start()).unwrap();
        assert!(books >= spans.app.samples());
    }
}
