//! The live view of `feed run`: books, gaps and latencies on a terminal, drawn by a thread of its own.
//!
//! The engine's thread writes what it hears into [`State`]; the drawing thread reads it five times a second.

use crate::screen::{self, Screen};
use barewire_base::Instant;
use barewire_bench::render::latency;
use barewire_bench::{interrupt, interrupted};
use barewire_feed::{
    BookView, Gap, Instrument, Line, LineState, Listener, PacketInfo, RecoveryInfo, Reset, Trade,
};
use barewire_feed_handler::print::book_line;
use barewire_frame::{ClockDomain, Stamp};
use barewire_measure::{Histogram, realtime_ns, stamp};
use barewire_sbe::Price9;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line as Text;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between two pictures.
const EVERY: Duration = Duration::from_millis(200);
/// Lines of news that are kept.
const NEWS_MAX: usize = 200;

/// One instrument.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: String,
    bid: String,
    offer: String,
    state: &'static str,
    updates: u64,
    trades: u64,
    last_trade: String,
    at: Instant,
}

/// One feed channel.
#[derive(Clone, Debug, Default)]
struct Channel {
    packets: u64,
    books: u64,
    trades: u64,
    gaps: u64,
    lost: u64,
    resets: u64,
    lines: BTreeMap<String, &'static str>,
    unsettled: usize,
    instruments: usize,
}

/// What has been heard so far.
#[derive(Debug, Default)]
pub struct State {
    channels: BTreeMap<u32, Channel>,
    instruments: BTreeMap<(u32, i32), Seen>,
    news: VecDeque<String>,
    /// From the receive stamp to the callback of a book.
    latency: Histogram,
    stamp_source: &'static str,
}

/// The listener's end.
#[derive(Clone, Debug)]
pub struct Watched {
    channel: u32,
    state: Arc<Mutex<State>>,
    stamp: Stamp,
    wall: Wall,
}

/// More than this between two looks is a step of the time of day, in ns; less is how it is made to run true.
const STEP_NS: u64 = 100_000_000;

/// The time of day as this process sees it, which may be set at any moment.
#[derive(Clone, Debug)]
struct Wall {
    /// How far it is ahead of the time that passes.
    ahead: u64,
    /// What it was when it was found set: stamps of before may be of either.
    set_at: u64,
}

impl Wall {
    fn new() -> Wall {
        Wall { ahead: realtime_ns().wrapping_sub(stamp().as_nanos()), set_at: 0 }
    }

    /// From a stamp of the time of day to now, when that is `wall`; none where the two do not belong together.
    fn passed(&mut self, stamp_ns: u64, now: Instant, wall: u64) -> Option<u64> {
        let ahead = wall.wrapping_sub(now.as_nanos());
        let step = ahead.wrapping_sub(std::mem::replace(&mut self.ahead, ahead)) as i64;
        if step.unsigned_abs() > STEP_NS {
            self.set_at = wall;
        }
        wall.checked_sub(stamp_ns).filter(|_| stamp_ns >= self.set_at)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    /// The listener's end for this feed channel.
    pub fn new(state: &Arc<Mutex<State>>, channel: u32) -> Watched {
        lock(state).channels.entry(channel).or_default();
        Watched { channel, state: Arc::clone(state), stamp: Stamp::default(), wall: Wall::new() }
    }

    fn tell(&self, change: impl FnOnce(&mut Channel, &mut VecDeque<String>)) {
        let state = &mut *lock(&self.state);
        change(state.channels.entry(self.channel).or_default(), &mut state.news);
        while state.news.len() > NEWS_MAX {
            state.news.pop_front();
        }
    }

    fn news(&self, text: String) {
        let channel = self.channel;
        self.tell(|_, news| news.push_back(format!("channel {channel}: {text}")));
    }
}

impl Listener for Watched {
    fn on_packet(&mut self, packet: &PacketInfo<'_>) {
        self.stamp = packet.stamp;
        self.tell(|channel, _| channel.packets += 1);
    }

    fn on_book(&mut self, book: &BookView<'_>) {
        let (now, wall) = (stamp(), realtime_ns());
        let state = &mut *lock(&self.state);
        let passed = match self.stamp.clock {
            ClockDomain::Realtime => self.wall.passed(self.stamp.ns, now, wall),
            ClockDomain::Monotonic => now.as_nanos().checked_sub(self.stamp.ns),
            _ => None,
        };
        if let Some(ns) = passed {
            state.latency.record(ns);
            state.stamp_source = self.stamp.source.as_str();
        }
        state.channels.entry(self.channel).or_default().books += 1;
        let seen = state.instruments.entry((self.channel, book.instrument.security_id)).or_default();
        seen.name.clear();
        seen.name.push_str(book.instrument.symbol.as_str());
        (seen.bid, seen.offer) = (book_line(book.bids().first()), book_line(book.offers().first()));
        seen.state = book.state.as_str();
        seen.updates += 1;
        seen.at = now;
    }

    fn on_trade(&mut self, instrument: &Instrument, trade: &Trade) {
        let state = &mut *lock(&self.state);
        state.channels.entry(self.channel).or_default().trades += 1;
        let seen = state.instruments.entry((self.channel, instrument.security_id)).or_default();
        seen.trades += 1;
        seen.last_trade = format!("{} x {}", trade.quantity, Price9(trade.price));
    }

    fn on_gap(&mut self, gap: &Gap) {
        self.tell(|channel, _| {
            channel.gaps += 1;
            channel.lost += u64::from(gap.last.wrapping_sub(gap.first)) + 1;
        });
        self.news(format!("packets {} to {} are lost", gap.first, gap.last));
    }

    fn on_recovery_begin(&mut self, info: &RecoveryInfo) {
        self.tell(|channel, _| (channel.unsettled, channel.instruments) = (info.unsettled, info.instruments));
        self.news(format!("{} of {} instruments are in recovery", info.unsettled, info.instruments));
    }

    fn on_recovery_end(&mut self, info: &RecoveryInfo) {
        self.tell(|channel, _| (channel.unsettled, channel.instruments) = (0, info.instruments));
        self.news(format!("all {} instruments are good", info.instruments));
    }

    fn on_reset(&mut self, _: Reset) {
        self.tell(|channel, _| channel.resets += 1);
        self.news("reset: every book is empty".to_owned());
    }

    fn on_line_state(&mut self, line: Line, state: LineState) {
        let word = match state {
            LineState::Up => "up",
            LineState::Down => "down",
            LineState::Silent => "silent",
        };
        self.tell(|channel, _| {
            channel.lines.insert(line.to_string(), word);
        });
        self.news(format!("line {line} is {word}"));
    }
}

/// Refuses where there is no terminal to draw on.
///
/// # Errors
/// As [`screen::check`].
pub fn check() -> anyhow::Result<()> {
    screen::check("without --live the books are printed at the end, with --each as they change")
}

/// Draws until `done` is raised or the user leaves, which interrupts the run.
///
/// # Errors
/// What the terminal says.
pub fn draw_until(done: &AtomicBool, state: &Mutex<State>) -> std::io::Result<()> {
    let mut screen = Screen::open()?;
    let mut first = 0;
    loop {
        screen.draw(|frame| picture(frame, &lock(state), first))?;
        if done.load(Ordering::Relaxed) || interrupted() {
            return Ok(());
        }
        let Some(key) = screen.key(EVERY)? else { continue };
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => interrupt(),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => interrupt(),
            KeyCode::Down => first += 1,
            KeyCode::Up => first = first.saturating_sub(1),
            KeyCode::PageDown => first += 20,
            KeyCode::PageUp => first = first.saturating_sub(20),
            KeyCode::Home => first = 0,
            _ => {}
        }
    }
}

/// One picture: channels above, books in the middle, from number `first` on, news and latencies below.
fn picture(frame: &mut Frame<'_>, state: &State, first: usize) {
    let height = state.channels.len() as u16 + 3;
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(4), Constraint::Length(9)])
            .areas(frame.area());
    let head = Style::default().add_modifier(Modifier::BOLD);
    let good = Style::default().fg(Color::Green);
    let bad = Style::default().fg(Color::Red).add_modifier(Modifier::BOLD);

    let titles = ["channel", "lines", "packets", "books", "trades", "gaps", "lost", "resets", "in recovery"];
    let rows = state.channels.iter().map(|(id, c)| {
        let lines: Vec<String> = c.lines.iter().map(|(line, word)| format!("{line} {word}")).collect();
        let down = c.lines.values().any(|word| *word != "up");
        Row::new([
            Cell::from(id.to_string()),
            Cell::from(lines.join(", ")).style(if down { bad } else { good }),
            Cell::from(c.packets.to_string()),
            Cell::from(c.books.to_string()),
            Cell::from(c.trades.to_string()),
            Cell::from(c.gaps.to_string()).style(if c.gaps > 0 { bad } else { good }),
            Cell::from(c.lost.to_string()),
            Cell::from(c.resets.to_string()),
            Cell::from(c.unsettled.to_string()).style(if c.unsettled > 0 { bad } else { good }),
        ])
    });
    let widths = [8, 40, 10, 10, 8, 6, 6, 7, 12].map(Constraint::Length);
    let block =
        Block::bordered().title(" feed channels ").title_bottom(" q leaves, arrows and page keys move ");
    frame.render_widget(Table::new(rows, widths).header(Row::new(titles).style(head)).block(block), top);

    let titles = ["security", "symbol", "bid", "offer", "state", "updates", "trades", "last trade"];
    let first = first.min(state.instruments.len().saturating_sub(1));
    // Without the border and the titles.
    let room = usize::from(middle.height.saturating_sub(3));
    let now = stamp();
    let rows = state.instruments.iter().skip(first).take(room).map(|((_, id), seen)| {
        let fresh = now.since(seen.at) < barewire_base::Duration::from_millis(400);
        let style = if fresh { Style::default().fg(Color::Cyan) } else { Style::default() };
        let is_good = seen.state == "latest" || seen.state == "naturally_refreshed";
        Row::new([
            Cell::from(id.to_string()),
            Cell::from(seen.name.as_str()),
            Cell::from(Text::from(seen.bid.as_str()).right_aligned()),
            Cell::from(seen.offer.as_str()),
            Cell::from(seen.state).style(if is_good { good } else { bad }),
            Cell::from(seen.updates.to_string()),
            Cell::from(seen.trades.to_string()),
            Cell::from(seen.last_trade.as_str()),
        ])
        .style(style)
    });
    let widths = [9, 14, 24, 24, 20, 9, 7, 24].map(Constraint::Length);
    let last = state.instruments.len().min(first + room);
    let title = match state.instruments.len() {
        0 => " books: none yet ".to_owned(),
        all => format!(" books {} to {last} of {all} ", first + 1),
    };
    let block = Block::bordered().title(title);
    frame.render_widget(Table::new(rows, widths).header(Row::new(titles).style(head)).block(block), middle);

    let [news, times] = Layout::horizontal([Constraint::Min(30), Constraint::Length(46)]).areas(bottom);
    let shown = usize::from(news.height.saturating_sub(2));
    let lines: Vec<Text<'_>> =
        state.news.iter().rev().take(shown).rev().map(|text| Text::from(text.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" gaps and recovery ")), news);
    frame.render_widget(
        Paragraph::new(latencies(state)).block(Block::bordered().title(" receive stamp to book ")),
        times,
    );
}

fn latencies(state: &State) -> Vec<Text<'static>> {
    let histogram = &state.latency;
    let value = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), latency);
    let at = |q: f64| match histogram.quantile(q) {
        barewire_measure::Quantile::Value(ns) => latency(ns),
        thin => thin.to_string(),
    };
    vec![
        Text::from(format!("stamp    {}", state.stamp_source)),
        Text::from(format!("samples  {}", histogram.samples())),
        Text::from(format!("min      {}", value(histogram.min()))),
        Text::from(format!("median   {}", at(0.5))),
        Text::from(format!("99 %     {}", at(0.99))),
        Text::from(format!("99.9 %   {}", at(0.999))),
        Text::from(format!("max      {}", value(histogram.max()))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_feed::GapCause;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn a_time_of_day_that_is_set_makes_no_latencies() {
        const HOUR: u64 = 3_600_000_000_000;
        let ms = |n: u64| n * 1_000_000;
        let mut now = Instant::from_nanos(ms(7_000));
        for (set, other) in [(HOUR, true), (HOUR, false), (10 * HOUR, true), (10 * HOUR, false)] {
            let base = 500_000 * HOUR;
            let mut wall = Wall { ahead: base, set_at: 0 };
            let at = |now: Instant, ahead: u64| now.as_nanos() + ahead;
            assert_eq!(wall.passed(at(now, base) - 900, now, at(now, base)), Some(900));
            let ahead = if other { base + set } else { base - set };
            // Three packets that came before, and one that comes after.
            let before = at(now, base);
            now += barewire_base::Duration::from_millis(1);
            for _ in 0..3 {
                assert_eq!(wall.passed(before, now, at(now, ahead)), None, "set by {set} ns, ahead: {other}");
            }
            now += barewire_base::Duration::from_millis(1);
            assert_eq!(wall.passed(at(now, ahead) - 700, now, at(now, ahead)), Some(700));
            // The time of day runs up to a two-thousandth faster or slower while it is made to run true.
            now += barewire_base::Duration::from_millis(1_000);
            assert_eq!(wall.passed(at(now, ahead) - 600, now, at(now, ahead + 500_000)), Some(500_600));
        }
    }

    #[test]
    fn a_picture_shows_channels_gaps_and_latencies() {
        let state = Arc::new(Mutex::new(State::default()));
        let mut watched = Watched::new(&state, 901);
        watched.on_gap(&Gap { first: 10, last: 12, cause: GapCause::Time, cut_instruments: 0 });
        watched.on_recovery_begin(&RecoveryInfo {
            last_lost: 12,
            instruments: 20,
            unsettled: 3,
            unsettled_orders: 0,
        });
        for _ in 0..NEWS_MAX + 10 {
            watched.news("more".to_owned());
        }
        lock(&state).latency.record(1_500);
        lock(&state).instruments.insert(
            (901, 1007),
            Seen { name: "EX1".into(), bid: "3 x 99.5".into(), state: "stale", ..Seen::default() },
        );
        assert_eq!(lock(&state).news.len(), NEWS_MAX);
        let mut terminal = Terminal::new(TestBackend::new(140, 30)).unwrap();
        terminal.draw(|frame| picture(frame, &lock(&state), 5)).unwrap();
        let text = terminal.backend().to_string();
        for part in ["901", "1007", "EX1", "3 x 99.5", "stale", "n<20", "1.5 us", "books 1 to 1 of 1"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
