//! Times a book update of one entry, or of several, through the whole of `on_packet`, in memory.
//!
//! `cargo run --release -p barewire-feed --example update [instruments] [entries]`: batches of packets are made beforehand; each
//! batch is timed as a whole, so the clock is not part of what it measures. Prints the median and the best batch.

use barewire_base::{Instant, Prng};
use barewire_feed::{BookView, Channel, Config, Feed, Line, LineSide, Listener};
use barewire_sbe::mdp3::{
    MatchEventIndicator, MdEntryTypeBook, MdIncrementalRefreshBook46Encoder, MdUpdateAction,
};
use barewire_sbe::{PacketEncoder, Price9};

const BATCH: usize = 1_000;
const BATCHES: usize = 2_000;

#[derive(Default)]
struct Sum {
    books: u64,
    best: i64,
}

impl Listener for Sum {
    fn on_book(&mut self, book: &BookView<'_>) {
        self.books += 1;
        self.best ^= book.bids().first().map_or(0, |level| level.price);
    }
}

/// One packet with an event of `entries` entries of one instrument.
fn packet(seq: u32, id: i32, rpt_seq: &mut u32, entries: usize, prng: &mut Prng) -> Vec<u8> {
    let mut buf = [0; 1500];
    let mut packet = PacketEncoder::new(&mut buf, seq, u64::from(seq)).expect("room for the header");
    let mut book = MdIncrementalRefreshBook46Encoder::new(packet.room()).expect("room for the block");
    book.transact_time(u64::from(seq)).match_event_indicator(MatchEventIndicator::END_OF_EVENT);
    let mut group = book.md_entries().expect("room for the group");
    for _ in 0..entries {
        *rpt_seq += 1;
        // The first ten updates of an instrument build its bids, the others change them.
        let (action, level) = match *rpt_seq {
            n @ 1..=10 => (MdUpdateAction::NEW, n as u8),
            _ => (MdUpdateAction::CHANGE, 1 + prng.below(10) as u8),
        };
        group
            .push()
            .expect("room for the entry")
            .md_entry_px(Price9(1_000_000_000 * prng.below(100_000) as i64))
            .md_entry_size(prng.below(1_000) as i32)
            .number_of_orders(3)
            .security_id(id)
            .rpt_seq(*rpt_seq)
            .md_price_level(level)
            .md_update_action(action)
            .md_entry_type(MdEntryTypeBook::BID);
    }
    let len = book.finish().expect("room for the message");
    packet.advance(len);
    packet.finish().to_vec()
}

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<usize>().expect("a number"));
    let instruments = args.next().unwrap_or(100).clamp(1, 10_000);
    let entries = args.next().unwrap_or(1).clamp(1, 40);
    let mut prng = Prng::new(1);
    let mut rpt = vec![0u32; instruments];
    let mut channel = Channel::new(Config::default(), Instant::ZERO).expect("valid defaults");
    let (mut sum, mut ns) = (Sum::default(), Vec::with_capacity(BATCHES));
    let line = Line::new(Feed::Incremental, LineSide::A);
    let mut seq = 0;
    for _ in 0..BATCHES {
        let packets: Vec<Vec<u8>> = (0..BATCH)
            .map(|_| {
                seq += 1;
                let at = prng.below(instruments as u64) as usize;
                packet(seq, 1_000 + at as i32, &mut rpt[at], entries, &mut prng)
            })
            .collect();
        #[allow(clippy::disallowed_methods)] // an example may look at the clock
        let start = std::time::Instant::now();
        for bytes in &packets {
            channel.on_packet(Instant::ZERO, line, Default::default(), bytes, &mut sum);
        }
        ns.push(start.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    ns.sort_by(f64::total_cmp);
    println!(
        "{instruments} instruments, {entries} entries: median {:.1} ns, best {:.1} ns a packet ({} books, {:x})",
        ns[BATCHES / 2],
        ns[0],
        sum.books,
        sum.best
    );
    assert_eq!(sum.books, (BATCH * BATCHES) as u64);
    assert_eq!(channel.counters().drops().count(), 0);
}
