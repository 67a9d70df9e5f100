//! The judge: what a channel says of its books, against what they were.

use super::*;

/// Checks every book that is shown against the states that existed, and that none is older than one shown before.
pub struct Check {
    pub history: Rc<RefCell<History>>,
    pub shown: HashMap<i32, usize>,
    pub books: usize,
    pub failures: Vec<String>,
    pub recoveries: (usize, usize),
    pub gaps: usize,
    pub resets: usize,
    /// Implied books are left out.
    pub direct_only: bool,
}

impl Check {
    pub fn new(history: &Rc<RefCell<History>>) -> Self {
        Check {
            history: history.clone(),
            shown: HashMap::new(),
            books: 0,
            failures: vec![],
            recoveries: (0, 0),
            gaps: 0,
            resets: 0,
            direct_only: false,
        }
    }

    pub fn look(&mut self, book: &BookView<'_>, partial: bool) {
        let id = book.instrument.security_id;
        let mut content = content_of(book);
        if self.direct_only {
            content = direct_of(&content);
        }
        let history = self.history.borrow();
        if book.state.is_good() {
            let shown = self.shown.entry(id).or_default();
            match history.find(id, &content, *shown) {
                Some(when) => *shown = when,
                None => {
                    let other = history.find(id, &content, 0);
                    self.failures
                        .push(format!("{id} {:?} {content:?}: shown {shown}, existed {other:?}", book.cause));
                }
            }
        } else if !partial && history.find(id, &content, 0).is_none() {
            self.failures.push(format!("{id} {:?} {content:?}: never existed", book.state));
        }
    }
}

impl Listener for Check {
    fn on_book(&mut self, book: &BookView<'_>) {
        self.books += 1;
        self.look(book, true);
    }

    fn on_gap(&mut self, _: &barewire_feed::Gap) {
        self.gaps += 1;
    }

    fn on_recovery_begin(&mut self, _: &barewire_feed::RecoveryInfo) {
        self.recoveries.0 += 1;
    }

    fn on_recovery_end(&mut self, _: &barewire_feed::RecoveryInfo) {
        self.recoveries.1 += 1;
    }

    fn on_reset(&mut self, _: barewire_feed::Reset) {
        self.resets += 1;
    }
}
