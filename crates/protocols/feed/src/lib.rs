//! One feed channel of CME MDP 3.0 (conflated or not), as a value: packets and time go in, callbacks and books come out.
//!
//! There is no socket, thread, clock or file here. What flows through [`Channel::on_packet`], in order:
//!
//! 1. A packet of any line is checked whole; a faulty one is counted by its [`Reason`] and leaves its place to the copy on another
//!    line (`read`).
//! 2. Incremental packets are put in order: the first copy wins, those before their turn are held, what is missing for too long
//!    is declared lost (`sequence`, `window`, `line`).
//! 3. Messages become entries of instruments (`incremental`, `definition`); instruments not on the [`WhiteList`] end here.
//! 4. Each instrument's RptSeq says whether it missed anything (`continuity`). One that did keeps its entries until the snapshot
//!    loop (`snapshot`, `loops`) or natural refresh makes it good again; the others go on.
//!    Orders have no RptSeq: a gap puts every book by order in doubt, until an overlay or a snapshot brings it whole (`order_store`).
//! 5. Entries wait for the end of their event, then change the books (`book`, `orders`), and the [`Listener`] sees each book the
//!    event touched. So a book never shows half an event, whenever it is looked at.
//!
//! # What begins and ends
//!
//! * **Weeks.** MsgSeqNum and RptSeq begin again at 1, and nothing says so. Two packets with lower numbers and later SendingTimes
//!   are believed ([`Reset::Sequence`]): every book is void then, empty and good where the first of them is number 1, and recovered
//!   by snapshots where it is a later one. What is still under way of the old week, packets and snapshots, is told by its
//!   SendingTime and dropped ([`Reason::OldNumbering`], [`Reason::OldSnapshot`]).
//! * **Instruments.** One that the incremental feed adds begins with an empty book, which is good at once. One that it deletes is
//!   gone, and no loop that was sent before brings it back. Of a definition the one sent last counts, whichever feed brought it.
//!   A gap may have hidden changes, so the definition loop (where it is used) is wanted again: an instrument that it does not name
//!   is taken out.
//! * **An empty snapshot loop** says nothing, and from silence nothing is concluded: it may be the line that is dead. What was not
//!   known before stays [`BookState::Undefined`], what a gap put in doubt [`BookState::Suspect`]. An instrument's entry with RptSeq
//!   1 makes it good; and once anything has happened on the channel the loop speaks, and every instrument that it leaves out has
//!   an empty book that is good.
//!
//! * **Rounds.** TotNumReports is the messages of a loop by the exchange's words, and its instruments elsewhere. A round is over when it
//!   has had as many of either as it says; which of them is learned from the first rounds that pass whole, where it makes a difference.
//!   Should the number count neither, eight rounds that pass whole and leave an instrument out say that it is not there.
//! * **What was not taken in.** Entries of an instrument that no definition has named yet are dropped. When it is named it is not taken
//!   for empty then, and only a snapshot that holds them makes it good.
//! * **Depth.** Without a definition books have [`Config::depth`] levels. The exchange drops levels below its own depth without a word;
//!   in a book that is deeper they would stay. So where the definition loop is heard no book is called good before a definition has
//!   named it; where it is not heard, the configuration must be right. An entry or a snapshot with a level below shows that the
//!   exchange's book is deeper: ours becomes as deep, to [`MAX_DEPTH`] levels, and an entry sends it into recovery. Of books with
//!   more than that the exchange's entries cannot be followed; each that names such a level is counted
//!   ([`Reason::LevelOutOfRange`]), and the book is not good.
//! * **Statistics and limits.** A snapshot's are in force; what it does not name is gone. An instrument that a book reset or natural
//!   refresh makes good again keeps those that came behind what it missed.
//!
//! What cannot be seen: a channel reset that is lost in a gap, when an instrument's next RptSeq is by chance the one that was
//! awaited before. Its book is wrong until another instrument's RptSeq goes back. Nor a trading status or a reset of statistics that is
//! lost in a gap over which an instrument's entries go on: neither has a RptSeq, and only the next of its kind shows what is in force.
//!
//! ```
//! use barewire_base::Instant;
//! use barewire_feed::{BookView, Channel, Config, Feed, Line, LineSide, Listener};
//!
//! struct Print;
//! impl Listener for Print {
//!     fn on_book(&mut self, book: &BookView<'_>) {
//!         println!("{} {:?} {:?}", book.instrument.security_id, book.bids().first(), book.offers().first());
//!     }
//! }
//!
//! let mut channel = Channel::new(Config::default(), Instant::ZERO)?;
//! let line = Line::new(Feed::Incremental, LineSide::A);
//! channel.on_packet(Instant::ZERO, line, Default::default(), b"not a packet", &mut Print);
//! assert_eq!(channel.counters().drops().count(), 1);
//! # Ok::<(), barewire_feed::ConfigError>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arena;
mod book;
mod channel;
mod config;
mod continuity;
mod counters;
mod definition;
mod filter;
mod incremental;
mod instrument;
mod line;
mod listener;
mod loops;
mod order_store;
mod orders;
mod pending;
mod read;
mod sequence;
mod snapshot;
mod statistics;
mod store;
mod subscribe;
mod table;
mod terms;
mod warm;
mod window;

pub use arena::MAX_SIDE_ORDERS;
pub use book::{BookSide, Consolidated, Level, MAX_DEPTH, NULL_I32, NULL_PRICE};
pub use channel::Channel;
pub use config::{
    Config, ConfigError, DefinitionLoop, HEARTBEAT_TIMEOUT, LinePolicy, MAX_HELD, MAX_INSTRUMENTS, MAX_LINES,
    MAX_ORDERS, MAX_PACKET_LEN, MAX_PENDING, Recovery, order_room,
};
pub use counters::{Counters, Reason};
pub use filter::WhiteList;
pub use instrument::{Instrument, Text, TradingStatus};
pub use line::{Feed, Line, LineSide, LineState, LineStats};
pub use listener::{
    BookCause, BookEntry, BookState, BookView, DefinitionAction, Gap, GapCause, Listener, PacketInfo,
    QuoteRequest, RecoveryInfo, Reset, SecurityStatus, StatusScope, Trade,
};
pub use orders::{NULL_PRIORITY, ORDER_DEPTH, Order};
pub use statistics::{Limits, Statistic, StatisticKind, Statistics};
pub use terms::{Leg, List, MAX_LEGS, MAX_UNDERLYINGS, Terms, Underlying};
pub use warm::{Gate, Warmer};
