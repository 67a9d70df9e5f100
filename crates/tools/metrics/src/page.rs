//! Looking at counters pages.

use barewire_base::Instant;
use barewire_engine::{CounterKind, CountersReader, PageError, counters_pages};
use barewire_measure::stamp;

/// Most pages that are looked at together.
pub const PAGES_MAX: usize = 64;

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
}

impl Page {
    /// Looks at the page of this name.
    ///
    /// # Errors
    /// As [`CountersReader::find`] and [`CountersReader::read`].
    pub fn look(name: &str) -> Result<Page, PageError> {
        let mut reader = CountersReader::find(name)?;
        let (pid, alive, created) = (reader.pid(), reader.owner_alive(), reader.created());
        let counters = reader.read()?.map(|(name, kind, value)| (name.to_owned(), kind, value)).collect();
        let at = stamp();
        Ok(Page { name: name.to_owned(), pid, alive, age_ns: at.since(created).as_nanos(), at, counters })
    }

    /// Looks at all that are meant. One that cannot be read, or whose owner died and that nobody named, is left out.
    pub fn look_at(which: &Which) -> Vec<Page> {
        match which {
            Which::All => {
                let looks = counters_pages().into_iter().filter_map(|name| Page::look(&name).ok());
                looks.filter(|page| page.alive).take(PAGES_MAX).collect()
            }
            Which::Named(names) => {
                names.iter().take(PAGES_MAX).filter_map(|name| Page::look(name).ok()).collect()
            }
        }
    }
}
