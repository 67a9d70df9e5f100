//! Looking at counters pages.

use barewire_base::Instant;
use barewire_engine::{CounterKind, CountersReader, PageError, counters_pages};
use barewire_measure::stamp;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;

/// Most pages that are looked at together.
pub const PAGES_MAX: usize = 64;
/// Most counters that are taken of one page: a switch of 512 ports has half of that.
pub const COUNTERS_MAX: usize = 8_192;

/// Whose counters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// Those of every engine that runs on this machine.
    All,
    /// Those of these names, also when their owner is dead.
    Named(Vec<String>),
}

/// One look at one page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The page's name.
    pub name: String,
    /// The process that writes it.
    pub pid: u32,
    /// Whether that process runs.
    pub alive: bool,
    /// Since the page was made, in ns.
    pub age_ns: u64,
    /// When we looked.
    pub at: Instant,
    /// Name, kind and value, in the order of the page.
    pub counters: Vec<(String, CounterKind, u64)>,
    /// Counters beyond [`COUNTERS_MAX`], which are not among them.
    pub left_out: u64,
}

/// One look at several pages.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Pages {
    /// The pages, by name.
    pub pages: Vec<Page>,
    /// Pages beyond [`PAGES_MAX`], which are not among them.
    pub left_out: u64,
}

/// The values of an earlier look.
#[derive(Clone, Debug)]
pub struct Before {
    at: Instant,
    values: HashMap<String, u64>,
}

impl Before {
    /// Those of this page.
    pub fn of(page: Page) -> Before {
        let values = page.counters.into_iter().map(|(name, _, value)| (name, value)).collect();
        Before { at: page.at, values }
    }

    /// How fast a counter that has `value` at `now` has grown since, per second. A gauge has no rate, nor has a counter that is
    /// new or has begun anew.
    pub fn rate(&self, now: Instant, name: &str, kind: CounterKind, value: u64) -> Option<f64> {
        let seconds = now.since(self.at).as_secs_f64();
        let grown = value.checked_sub(*self.values.get(name)?)?;
        (kind == CounterKind::Counter && seconds > 0.0).then(|| grown as f64 / seconds)
    }
}

/// This process's user, as far as `/proc` tells.
fn own_uid() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|meta| meta.uid())
}

/// A page that may be looked at, and before which others it is, when there are too many: one's own, then root's, then by user and
/// name. `None` for a page that anybody may have put there.
fn place_of(reader: &CountersReader, own: Option<u32>) -> Option<(bool, u32)> {
    let foreign = own != Some(reader.uid());
    (!reader.is_in_shared_folder() || !foreign || reader.uid() == 0).then(|| (foreign, reader.uid()))
}

/// Whether a page may be looked at that nobody named: not one that another user has put where everybody may.
pub fn is_trusted(reader: &CountersReader) -> bool {
    place_of(reader, own_uid()).is_some()
}

impl Page {
    /// Looks at the page of this name.
    ///
    /// # Errors
    /// As [`CountersReader::find`] and [`CountersReader::read`].
    pub fn look(name: &str) -> Result<Page, PageError> {
        Page::take(name, &mut CountersReader::find(name)?)
    }

    /// Looks at a page that is open, by the name that it was found by.
    ///
    /// # Errors
    /// As [`CountersReader::read`].
    pub fn take(name: &str, reader: &mut CountersReader) -> Result<Page, PageError> {
        let (pid, alive, created) = (reader.pid(), reader.owner_alive(), reader.created());
        let mut all = reader.read()?.map(|(name, kind, value)| (name.to_owned(), kind, value));
        let counters = all.by_ref().take(COUNTERS_MAX).collect();
        let left_out = all.count() as u64;
        let at = stamp();
        let age_ns = at.since(created).as_nanos();
        Ok(Page { name: name.to_owned(), pid, alive, age_ns, at, counters, left_out })
    }

    /// Looks at all that are meant. One that cannot be read, or whose owner died and that nobody named, is left out; so is, unless it
    /// is named, one that another user has put where everybody may.
    pub fn look_at(which: &Which) -> Pages {
        let mut found: Vec<_> = match which {
            Which::All => {
                let own = own_uid();
                let open = |name: String| {
                    let reader = CountersReader::find(&name).ok().filter(CountersReader::owner_alive)?;
                    Some((place_of(&reader, own)?, name, reader))
                };
                counters_pages().into_iter().filter_map(open).collect()
            }
            Which::Named(names) => {
                let open = |name: &String| Some(((false, 0), name.clone(), CountersReader::find(name).ok()?));
                names.iter().filter_map(open).collect()
            }
        };
        found.sort_by_key(|(place, ..)| *place);
        let left_out = found.len().saturating_sub(PAGES_MAX) as u64;
        found.truncate(PAGES_MAX);
        let looks = found.into_iter().filter_map(|(_, name, mut reader)| Page::take(&name, &mut reader).ok());
        let mut pages: Vec<Page> = looks.collect();
        if *which == Which::All {
            pages.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Pages { pages, left_out }
    }
}
