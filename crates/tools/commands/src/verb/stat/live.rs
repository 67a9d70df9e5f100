//! The live view of `stat`: all counters of all engines, side by side, with rates.

use crate::screen::{Input, Screen};
use barewire_base::Duration;
use barewire_bench::interrupted;
use barewire_metrics::{Board, Order, Page, Row, Which};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row as Entry, Table};

/// Between two looks at the keyboard and at the flag that a signal came.
const KEY_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
/// Width of an engine's column in the table of counters.
const COLUMN: u16 = 24;
/// The same on a narrow terminal: the rate, or the value where there is none.
const COLUMN_NARROW: u16 = 10;
/// The narrowest that names of counters may get.
const NAME_MIN: u16 = 26;
/// The widest that names of engines may get.
const NAME_MAX: u16 = 16;

/// What is shown, and how.
#[derive(Debug, Default)]
pub struct View {
    board: Board,
    filter: String,
    /// The filter is being typed.
    typing: bool,
    zeros: bool,
    drops_only: bool,
    order: Order,
    selected: usize,
    /// The first engine that has a column.
    column: usize,
    paused: bool,
}

/// What follows from a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Go on.
    Stay,
    /// Leave.
    Leave,
}

impl View {
    /// A view that begins with this filter.
    pub fn new(filter: &str, zeros: bool) -> View {
        View { filter: filter.to_owned(), zeros, ..View::default() }
    }

    /// Takes a new look at the pages.
    pub fn update(&mut self, pages: Vec<Page>) {
        if !self.paused {
            self.board.update(pages);
        }
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = self.board.rows(&self.filter, self.zeros, self.order);
        rows.retain(|row| !self.drops_only || row.drops);
        rows
    }

    /// What a key does.
    pub fn key(&mut self, key: KeyEvent) -> Next {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Next::Leave;
        }
        if self.typing {
            match key.code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => (self.typing, self.filter) = (false, String::new()),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(c) => self.filter.push(c),
                _ => {}
            }
            return Next::Stay;
        }
        let rows = self.rows().len();
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Next::Leave,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('z') => self.zeros = !self.zeros,
            KeyCode::Char('d') => self.drops_only = !self.drops_only,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Down | KeyCode::Char('j') => self.selected += 1,
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected += 15,
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(15),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = rows,
            KeyCode::Right => self.column += 1,
            KeyCode::Left => self.column = self.column.saturating_sub(1),
            _ => {}
        }
        self.selected = self.selected.min(rows.saturating_sub(1));
        self.column = self.column.min(self.board.pages().len().saturating_sub(1));
        Next::Stay
    }

    /// Draws engines above, counters in the middle, the selected one's meaning and the keys below.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let engines = u16::try_from(self.board.pages().len().clamp(1, 8)).unwrap_or(8);
        let area = frame.area();
        // A low terminal has the counters, and nothing else.
        let top = if area.height < 16 { 0 } else { engines + 3 };
        let [above, middle, below] =
            Layout::vertical([Constraint::Length(top), Constraint::Min(3), Constraint::Length(2)])
                .areas(area);
        let rows = self.rows();
        if top > 0 {
            self.engines(frame, above);
        }
        self.counters(frame, middle, &rows);
        self.foot(frame, below, &rows);
    }

    fn engines(&self, frame: &mut Frame<'_>, area: Rect) {
        // Heading and width; what does not fit is left out from the right.
        const COLUMNS: [(&str, u16); 9] = [
            ("engine", NAME_MAX),
            ("up", 7),
            ("in/s", 8),
            ("drops/s", 8),
            ("out/s", 8),
            ("flows", 6),
            ("qps", 6),
            ("apps", 5),
            ("pid", 8),
        ];
        let longest = self.board.pages().iter().map(|page| page.name.chars().count()).max().unwrap_or(0);
        let mut widths = COLUMNS.map(|(_, width)| width);
        widths[0] = u16::try_from(longest).unwrap_or(NAME_MAX).clamp(6, NAME_MAX);
        let inner = area.width.saturating_sub(2);
        let taken = widths.iter().scan(0u16, |sum, width| {
            *sum += width + 1;
            Some(*sum)
        });
        // The last has no gap behind it; the name is there in any case.
        let fits = taken.take_while(|sum| *sum <= inner + 1).count().max(1);
        let all = self.board.rows("", true, Order::Name);
        let lines = self.board.pages().iter().enumerate().map(|(column, page)| {
            let cell = |row: &Row| row.cells.get(column).copied().flatten();
            let rate = |end: &str, drops: bool| -> f64 {
                let rows = all.iter().filter(|row| if drops { row.drops } else { is_port(&row.name, end) });
                rows.filter_map(|row| cell(row)?.1).sum()
            };
            let sum = |end: &str| -> Option<u64> {
                let values: Vec<u64> = all
                    .iter()
                    .filter(|row| ends(&row.name, end))
                    .filter_map(|row| Some(cell(row)?.0))
                    .collect();
                (!values.is_empty()).then(|| values.iter().sum())
            };
            let count = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
            let drops = rate("", true);
            let state = if page.alive { age(page.age_ns) } else { "dead".to_owned() };
            let alarm = if drops > 0.0 || !page.alive { bad() } else { Style::default() };
            let cells = [
                Cell::from(page.name.clone()).style(name_style(page.alive)),
                right(state),
                right(per_second(rate("rx_frames", false) + rate("packets", false))),
                right(per_second(drops)).style(alarm),
                right(per_second(rate("tx_frames", false))),
                right(count(sum("transport.flows"))),
                right(count(sum("rdma.queue_pairs"))),
                right(count(sum("applications.count"))),
                right(page.pid.to_string()),
            ];
            Entry::new(cells.into_iter().take(fits))
        });
        let heads = COLUMNS.iter().enumerate().take(fits);
        let heads =
            heads.map(|(i, (head, _))| if i == 0 { Cell::from(*head) } else { right((*head).to_owned()) });
        let heads = Entry::new(heads).style(head());
        let widths = widths.into_iter().take(fits).map(Constraint::Length);
        let title = match self.board.pages().len() {
            0 => " no engine runs here: barewire up ".to_owned(),
            1 => " 1 engine ".to_owned(),
            n => format!(" {n} engines "),
        };
        frame.render_widget(
            Table::new(lines, widths).header(heads).block(Block::bordered().title(title)),
            area,
        );
    }

    fn counters(&self, frame: &mut Frame<'_>, area: Rect, rows: &[Row]) {
        let pages = self.board.pages();
        let inner = area.width.saturating_sub(2);
        let narrow = inner < NAME_MIN + COLUMN + 1;
        let width = if narrow { COLUMN_NARROW } else { COLUMN };
        let room = usize::from((inner.saturating_sub(NAME_MIN) / (width + 1)).max(1));
        let first = self.column.min(pages.len().saturating_sub(room));
        let shown: Vec<usize> = (first..pages.len()).take(room).collect();
        let name_width = inner.saturating_sub((width + 1) * shown.len().max(1) as u16);

        let height = usize::from(area.height.saturating_sub(3)).max(1);
        let start = self.selected.saturating_sub(height - 1).min(rows.len().saturating_sub(height));
        let lines = rows.iter().enumerate().skip(start).take(height).map(|(i, row)| {
            let mut cells = vec![Cell::from(row.name.as_str())];
            for &column in &shown {
                let text = match row.cells.get(column).copied().flatten() {
                    None => "-".to_owned(),
                    Some((value @ 0..100_000, None)) if narrow => value.to_string(),
                    Some((value, None)) if narrow => per_second(value as f64),
                    Some((_, Some(rate))) if narrow => format!("{}/s", per_second(rate)),
                    Some((value, None)) => format!("{value:>12}           "),
                    Some((value, Some(rate))) => format!("{value:>12} {:>8}/s", per_second(rate)),
                };
                cells.push(Cell::from(Line::from(text).right_aligned()));
            }
            let moving = row.rate() > 0.0;
            let style = match (row.alarming(), moving) {
                (true, true) => bad(),
                (true, false) => Style::default().fg(Color::Yellow),
                (false, true) => Style::default().fg(Color::Green),
                (false, false) => Style::default(),
            };
            let style = if i == self.selected { style.add_modifier(Modifier::REVERSED) } else { style };
            Entry::new(cells).style(style)
        });
        let mut widths = vec![Constraint::Length(name_width)];
        widths.extend(shown.iter().map(|_| Constraint::Length(width)));
        let mut heads = vec![Cell::from("counter")];
        heads.extend(shown.iter().map(|&i| Cell::from(Line::from(pages[i].name.as_str()).right_aligned())));
        let mut title = format!(" {} counters by {}", rows.len(), self.order.as_str());
        for (on, text) in
            [(self.drops_only, ", drops only"), (self.zeros, ", zeros too"), (self.paused, ", PAUSED")]
        {
            title.push_str(if on { text } else { "" });
        }
        if shown.len() < pages.len() {
            title.push_str(&format!(", engines {} to {} of {}", first + 1, first + shown.len(), pages.len()));
        }
        title.push(' ');
        let table = Table::new(lines, widths).header(Entry::new(heads).style(head()));
        frame.render_widget(table.block(Block::bordered().title(title)), area);
    }

    fn foot(&self, frame: &mut Frame<'_>, area: Rect, rows: &[Row]) {
        let help = match rows.get(self.selected) {
            Some(row) => row.help.unwrap_or("a counter that this build does not know"),
            None if !self.filter.is_empty() => "no counter has this in its name",
            None => "no counter to show; z shows those that are zero",
        };
        let keys = if self.typing || !self.filter.is_empty() {
            let cursor = if self.typing { "_" } else { "" };
            Line::from(vec![
                Span::styled(format!("/{}{cursor}", self.filter), head()),
                Span::raw("   Esc clears while typing, q leaves"),
            ])
        } else {
            Line::from("q leave  s sort  d drops  z zeros  / filter  space pause  arrows")
        };
        frame.render_widget(Paragraph::new(vec![Line::from(help), keys]), area);
    }
}

/// `port.rx_frames`, `port.1.rx_frames`, `1.port.rx_frames`, `switch0.port3.rx_frames`, `source.0.packets`.
fn is_port(name: &str, counter: &str) -> bool {
    let Some((before, last)) = name.rsplit_once('.') else { return false };
    let digits = |n: &str| n.bytes().all(|b| b.is_ascii_digit());
    let numbered = before.rsplit_once('.').filter(|(_, number)| digits(number)).map(|(part, _)| part);
    let part = numbered.unwrap_or(before);
    let part = part.rsplit_once('.').map_or(part, |(_, part)| part);
    let port = part.strip_prefix("port").is_some_and(digits);
    last == counter && (port && counter != "packets" || counter == "packets" && before.starts_with("source."))
}

/// The counter `end` of any engine of a page.
fn ends(name: &str, end: &str) -> bool {
    name == end || name.strip_suffix(end).is_some_and(|rest| rest.ends_with('.'))
}

/// A rate in at most eight characters.
fn per_second(rate: f64) -> String {
    match rate {
        r if r <= 0.0 => "0".to_owned(),
        r if r < 10.0 => format!("{r:.1}"),
        r if r < 1e5 => format!("{r:.0}"),
        r if r < 1e8 => format!("{:.0}k", r / 1e3),
        r if r < 1e11 => format!("{:.0}M", r / 1e6),
        r => format!("{r:.1e}"),
    }
}

fn age(ns: u64) -> String {
    match ns / 1_000_000_000 {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s / 60),
        s @ 7_200..172_800 => format!("{} h", s / 3_600),
        s => format!("{} d", s / 86_400),
    }
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

fn head() -> Style {
    Style::default().add_modifier(Modifier::BOLD)
}

fn bad() -> Style {
    Style::default().fg(Color::Red).add_modifier(Modifier::BOLD)
}

fn name_style(alive: bool) -> Style {
    if alive { Style::default().fg(Color::Cyan) } else { bad() }
}

/// Draws until the user leaves or a signal comes.
///
/// # Errors
/// What the terminal says.
pub fn run(which: &Which, every: Duration, mut view: View) -> std::io::Result<()> {
    let mut screen = Screen::open()?;
    let mut next = barewire_measure::stamp();
    // Drawn when there is something new to see: the engines that are watched may be on this core.
    let mut stale = true;
    loop {
        let now = barewire_measure::stamp();
        if now >= next {
            view.update(Page::look_at(which).pages);
            next = now + every;
            stale = true;
        }
        if stale {
            screen.draw(|frame| view.draw(frame))?;
        }
        if interrupted() {
            return Ok(());
        }
        stale = match screen.input(KEY_EVERY)? {
            Input::Nothing => false,
            Input::Other => true,
            Input::Key(key) if view.key(key) == Next::Leave => return Ok(()),
            Input::Key(_) => true,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Instant;
    use barewire_engine::CounterKind::{Counter, Gauge};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn page(name: &str, at_s: u64, alive: bool, scale: u64) -> Page {
        let counters = [
            ("port.rx_frames", Counter, 1_000 * scale),
            ("port.tx_frames", Counter, 500 * scale),
            ("port.drop.bad_crc", Counter, 4 * scale),
            ("port.drop.truncated", Counter, 0),
            ("transport.flows", Gauge, 3),
            ("applications.count", Gauge, 2),
            ("rdma.queue_pairs", Gauge, 77),
        ];
        Page {
            name: name.to_owned(),
            pid: 4711,
            alive,
            age_ns: 90_000_000_000,
            at: Instant::from_nanos(at_s * 1_000_000_000),
            counters: counters.map(|(name, kind, value)| (name.to_owned(), kind, value)).to_vec(),
            left_out: 0,
        }
    }

    fn view() -> View {
        let mut view = View::new("", false);
        view.update(vec![page("alpha", 10, true, 1), page("beta", 10, true, 1)]);
        view.update(vec![page("alpha", 12, true, 3), page("beta", 12, true, 1)]);
        view
    }

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn press(view: &mut View, keys: &str) {
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '\x08' => KeyCode::Backspace,
                '>' => KeyCode::Right,
                'v' => KeyCode::Down,
                c => KeyCode::Char(c),
            };
            assert_eq!(view.key(KeyEvent::new(code, KeyModifiers::NONE)), Next::Stay);
        }
    }

    #[test]
    fn engines_and_counters_stand_side_by_side() {
        let text = drawn(&view(), 120, 30);
        for part in [
            "2 engines",
            "alpha",
            "beta",
            "4711",
            "90 s",
            "port.rx_frames",
            "3000",
            "1000/s",
            "77",
            "Applications attached",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // 1000 a second came in at alpha, and 4 were dropped.
        let alpha = text.lines().find(|line| line.contains("4711") && line.contains("alpha")).unwrap();
        let words: Vec<&str> = alpha.split_whitespace().collect();
        assert!(words.windows(3).any(|w| w == ["1000", "4.0", "500"]), "{alpha}");
        assert!(!text.contains("truncated"), "zeros are hidden: {text}");
    }

    #[test]
    fn drops_are_red_while_they_happen() {
        let view = view();
        let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..100).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
        let y = (0..24).find(|&y| line(y).contains("port.drop.bad_crc")).unwrap();
        assert_eq!(buffer[(3, y)].fg, Color::Red);
        let y = (0..24).find(|&y| line(y).contains("port.rx_frames")).unwrap();
        assert_eq!(buffer[(3, y)].fg, Color::Green);
    }

    #[test]
    fn small_terminals_show_what_fits() {
        for (width, height) in [(80, 24), (60, 20), (40, 12), (30, 8), (12, 5), (5, 3), (1, 1)] {
            let text = drawn(&view(), width, height);
            if width >= 40 {
                assert!(
                    text.contains("port.rx_frames") && text.contains("alpha"),
                    "{width}x{height}: {text}"
                );
            }
        }
        let text = drawn(&view(), 80, 24);
        assert!(text.contains("1000/s") && text.contains("q leave"), "{text}");
        // One column has room in 60; the arrow shows the other engine.
        let mut narrow = view();
        assert!(drawn(&narrow, 60, 20).contains("engines 1 to 1 of 2"));
        press(&mut narrow, ">>>>");
        let text = drawn(&narrow, 60, 20);
        assert!(text.contains("engines 2 to 2 of 2"), "{text}");
    }

    #[test]
    fn keys_sort_filter_and_leave() {
        let mut view = view();
        press(&mut view, "d");
        assert_eq!(view.rows().len(), 1);
        press(&mut view, "z");
        assert_eq!(view.rows().len(), 2);
        press(&mut view, "dz/flowq\x08s\n");
        assert_eq!((view.filter.as_str(), view.typing, view.rows().len()), ("flows", false, 1));
        assert!(drawn(&view, 80, 24).contains("/flows"));
        press(&mut view, "/\x1bss");
        assert_eq!(view.order, Order::Rate);
        assert_eq!(view.rows()[0].name, "port.rx_frames");
        press(&mut view, "vvvvvvvvvvvvvvvvvvv");
        assert_eq!(view.selected, view.rows().len() - 1);
        assert!(drawn(&view, 80, 24).contains("counters by rate"));
        press(&mut view, " ");
        view.update(vec![]);
        assert_eq!(view.board.pages().len(), 2, "a paused view stays");
        press(&mut view, " ");
        view.update(vec![]);
        assert!(drawn(&view, 80, 24).contains("no engine runs here"));
        let q = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        assert_eq!(view.key(q), Next::Leave);
        let mut typing = View::new("", false);
        press(&mut typing, "/q");
        assert_eq!(typing.filter, "q");
        assert_eq!(typing.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Next::Leave);
    }

    #[test]
    fn ports_are_told_from_what_only_ends_alike() {
        for name in ["port.rx_frames", "port.1.rx_frames", "1.port.rx_frames", "switch0.port3.rx_frames"] {
            assert!(is_port(name, "rx_frames"), "{name}");
        }
        for name in
            ["rdma.rx_frames", "portal.rx_frames", "host.1.rx_frames", "feed_channel.9.packets", "rx_frames"]
        {
            assert!(!is_port(name, "rx_frames") && !is_port(name, "packets"), "{name}");
        }
        assert!(is_port("source.0.packets", "packets"));
        assert!(ends("1.transport.flows", "transport.flows") && !ends("xtransport.flows", "transport.flows"));
    }
}
