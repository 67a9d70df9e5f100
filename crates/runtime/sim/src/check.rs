//! Judges of a run: was each message delivered exactly once, did every frame come home.

use crate::content_hash;
use barewire_frame::Pool;
use std::collections::HashMap;

/// Whether messages must arrive in the order in which they were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// They must.
    InOrder,
    /// Any order will do.
    Unordered,
}

/// The first thing that went wrong with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The test sent two messages under one id.
    #[error("message {id} was sent twice: the test's own mistake")]
    SentTwice {
        /// The message.
        id: u64,
    },
    /// A message came out that never went in.
    #[error("message {id} was delivered but never sent")]
    NeverSent {
        /// The message.
        id: u64,
    },
    /// A message came out a second time.
    #[error("message {id} was delivered twice")]
    Duplicate {
        /// The message.
        id: u64,
    },
    /// A message came out with other bytes than it went in with.
    #[error("message {id} was delivered with wrong content ({len} bytes)")]
    WrongContent {
        /// The message.
        id: u64,
        /// Bytes delivered.
        len: usize,
    },
    /// A message came out after one that was sent later.
    #[error("message {id} was delivered after message {after}, which was sent later")]
    OutOfOrder {
        /// The message.
        id: u64,
        /// The later one that came before it.
        after: u64,
    },
    /// Messages never came out.
    #[error("message {id} was never delivered, nor were {more} others of {sent} sent")]
    Missing {
        /// The first of them, in the order sent.
        id: u64,
        /// How many others.
        more: usize,
        /// How many were sent.
        sent: usize,
    },
}

struct Sent {
    id: u64,
    hash: u64,
    received: bool,
}

/// Checks one flow of messages, known by ids that the test chooses: each delivered once, whole, and perhaps in order.
/// It keeps a hash of each message, not its bytes, and remembers the first violation.
pub struct ExactlyOnce {
    order: Order,
    sent: Vec<Sent>,
    by_id: HashMap<u64, usize>,
    latest: Option<usize>,
    received: usize,
    violation: Option<Violation>,
}

impl ExactlyOnce {
    /// A checker that has seen nothing.
    pub fn new(order: Order) -> Self {
        ExactlyOnce {
            order,
            sent: Vec::new(),
            by_id: HashMap::new(),
            latest: None,
            received: 0,
            violation: None,
        }
    }

    /// The application sends message `id`.
    pub fn sent(&mut self, id: u64, content: &[u8]) {
        if self.by_id.insert(id, self.sent.len()).is_some() {
            self.violate(Violation::SentTwice { id });
        }
        self.sent.push(Sent { id, hash: content_hash(content), received: false });
    }

    /// The application gets message `id`.
    pub fn received(&mut self, id: u64, content: &[u8]) {
        let Some(&position) = self.by_id.get(&id) else {
            return self.violate(Violation::NeverSent { id });
        };
        let entry = &mut self.sent[position];
        if entry.received {
            return self.violate(Violation::Duplicate { id });
        }
        entry.received = true;
        self.received += 1;
        if entry.hash != content_hash(content) {
            self.violate(Violation::WrongContent { id, len: content.len() });
        }
        match self.latest {
            Some(latest) if latest > position => {
                if self.order == Order::InOrder {
                    self.violate(Violation::OutOfOrder { id, after: self.sent[latest].id });
                }
            }
            _ => self.latest = Some(position),
        }
    }

    fn violate(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// Messages sent so far.
    pub fn sent_count(&self) -> usize {
        self.sent.len()
    }

    /// Different messages received so far.
    pub fn received_count(&self) -> usize {
        self.received
    }

    /// Whether everything sent has been received.
    pub fn is_complete(&self) -> bool {
        self.received == self.sent.len()
    }

    /// The first violation so far. Messages still missing are none: where a flow may end early (its node was killed),
    /// this alone is the check, for at most once.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// The verdict at the end of a run: the number of messages delivered.
    ///
    /// # Errors
    /// The first violation; if there was none, [`Violation::Missing`] when a message never arrived.
    pub fn finish(&self) -> Result<usize, Violation> {
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        match self.sent.iter().find(|m| !m.received) {
            None => Ok(self.received),
            Some(first) => Err(Violation::Missing {
                id: first.id,
                more: self.sent.len() - self.received - 1,
                sent: self.sent.len(),
            }),
        }
    }
}

/// Frames that did not come back to their pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{missing} of {capacity} frames did not come back to their pool")]
pub struct Leak {
    /// Frames still out.
    pub missing: usize,
    /// Frames of the pool.
    pub capacity: usize,
}

/// Watches a pool past the end of the world: every frame must come home.
pub struct NoLeak {
    pool: Pool,
}

impl NoLeak {
    /// Watches `pool`.
    pub fn watch(pool: &Pool) -> NoLeak {
        NoLeak { pool: pool.clone() }
    }

    /// Checks that no frame is out now. While the world lives this asks that nothing is in flight and that no node holds
    /// a frame; after it, that nothing was lost for good.
    ///
    /// # Errors
    /// How many frames are out.
    pub fn check(&self) -> Result<(), Leak> {
        let capacity = self.pool.capacity();
        match capacity - self.pool.available() {
            0 => Ok(()),
            missing => Err(Leak { missing, capacity }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_frame::PoolConfig;

    fn three(order: Order) -> ExactlyOnce {
        let mut check = ExactlyOnce::new(order);
        for id in [10, 20, 30] {
            check.sent(id, &[id as u8; 5]);
        }
        check
    }

    #[test]
    fn a_clean_run_passes() {
        let mut check = three(Order::InOrder);
        for id in [10, 20, 30] {
            assert!(!check.is_complete());
            check.received(id, &[id as u8; 5]);
        }
        assert!(check.is_complete());
        assert_eq!(check.finish(), Ok(3));
    }

    #[test]
    fn each_violation_has_its_name_and_the_first_one_stays() {
        let mut check = three(Order::InOrder);
        check.received(20, &[20; 5]);
        assert_eq!(check.finish(), Err(Violation::Missing { id: 10, more: 1, sent: 3 }));
        check.received(10, &[10; 5]);
        assert_eq!(check.violation(), Some(Violation::OutOfOrder { id: 10, after: 20 }));
        check.received(40, &[]);
        assert_eq!(check.finish(), Err(Violation::OutOfOrder { id: 10, after: 20 }));

        let mut check = three(Order::Unordered);
        check.received(20, &[20; 5]);
        check.received(10, &[10; 5]);
        assert_eq!(check.violation(), None);
        check.received(20, &[20; 5]);
        assert_eq!(check.violation(), Some(Violation::Duplicate { id: 20 }));

        let mut check = three(Order::Unordered);
        check.received(30, &[30; 4]);
        assert_eq!(check.violation(), Some(Violation::WrongContent { id: 30, len: 4 }));

        let mut check = three(Order::Unordered);
        check.received(11, &[]);
        assert_eq!(check.violation(), Some(Violation::NeverSent { id: 11 }));

        let mut check = three(Order::Unordered);
        check.sent(10, &[]);
        assert_eq!(check.violation(), Some(Violation::SentTwice { id: 10 }));
    }

    #[test]
    fn a_frame_that_stays_out_is_a_leak() {
        let pool = Pool::new(PoolConfig { frames: 4, ..PoolConfig::default() }).unwrap();
        let check = NoLeak::watch(&pool);
        let frame = pool.alloc().unwrap();
        assert_eq!(check.check(), Err(Leak { missing: 1, capacity: 4 }));
        drop(frame);
        drop(pool);
        assert_eq!(check.check(), Ok(()));
    }
}
