//! CME MDP 3.0 in Simple Binary Encoding: packets in, typed views out, and back.
//!
//! # Reading
//! ```
//! use barewire_sbe::mdp3::{MdIncrementalRefreshBook46, MdUpdateAction, template};
//! use barewire_sbe::{DecodeError, MessageView, Packet};
//!
//! fn handle(datagram: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//!     let packet = Packet::parse(datagram)?;                    // seq_num(), sending_time_ns()
//!     for message in packet.messages() {
//!         let message = message?;                               // framing that makes no sense is the last item
//!         match message.template_id {
//!             template::MD_INCREMENTAL_REFRESH_BOOK46 => {
//!                 let book = MdIncrementalRefreshBook46::decode(&message)?;
//!                 for entry in book.md_entries() {
//!                     if entry.md_update_action() != MdUpdateAction::DELETE {
//!                         println!("{} {:?}", entry.security_id(), entry.md_entry_px());
//!                     }
//!                 }
//!             }
//!             _ => {}                                           // skipped: the iterator steps by the message's size
//!         }
//!     }
//!     Ok(())
//! }
//! # handle(&[0; 12]).unwrap();
//! # assert!(handle(&[0; 11]).is_err());
//! ```
//! `decode` checks the root block and each group once; accessors cannot fail. [`AnyMessage::decode`] takes any template and
//! tells other schemas ([`DecodeError::ForeignSchema`]) from unknown templates ([`DecodeError::UnknownTemplate`]).
//!
//! | in the schema | in a view |
//! | --- | --- |
//! | field `MDEntryPx` | `md_entry_px()`; with a null value: `Option`, and `md_entry_px_raw()` as it lies there |
//! | group `NoMDEntries` | `md_entries()`: a [`Group`], whose entries (`MdEntry` in the template's module) are views too |
//! | `PRICE9`, `PRICENULL9`, `Decimal9` | [`Price9`], a mantissa of 10^-9; [`Price7`] before version 9; [`DecimalQty`] |
//! | enum | a transparent number with named constants: unknown values are kept |
//! | set | a transparent number with a constant and a test for each bit |
//! | `char[6]` | [`Text`], in place |
//!
//! **Versions.** Root blocks and entries are stepped by the lengths that the message says. A field that came after its
//! template's first version is null when the message's version is older, or when the acting block ends before it. A block
//! that lacks fields of the first version is refused. What a later version adds behind the groups is in `trailing()`.
//!
//! # Writing
//! ```
//! use barewire_sbe::mdp3::{MatchEventIndicator, MdIncrementalRefreshBook46Encoder, MdUpdateAction};
//! use barewire_sbe::{EncodeError, PacketEncoder, Price9};
//!
//! fn write(buf: &mut [u8]) -> Result<&[u8], EncodeError> {
//!     let mut packet = PacketEncoder::new(buf, 1, 1_700_000_000_000_000_000)?;
//!     let mut book = MdIncrementalRefreshBook46Encoder::new(packet.room())?;
//!     book.transact_time(1).match_event_indicator(MatchEventIndicator::END_OF_EVENT);
//!     let mut entries = book.md_entries()?;                     // groups in order; those left out are empty
//!     entries.push()?.security_id(42).md_entry_px(Price9(1_500_000_000)).md_update_action(MdUpdateAction::NEW);
//!     let len = book.finish()?;
//!     packet.advance(len);
//!     Ok(packet.finish())
//! }
//! # assert_eq!(write(&mut [0; 100]).unwrap().len(), 12 + 10 + 11 + 3 + 32 + 8);
//! ```
//! Fields that are not set are null. `with_version` writes as an older version does. [`MessageView::encode`] writes a
//! message that was read.
//!
//! # Without knowing the schema before
//! [`layout::Schema`] is the description of a schema: [`mdp3::schema`], our own, from which views and encoders are
//! generated, or [`from_xml`](layout::Schema::from_xml), the exchange's current `templates_FixBinary.xml`.
//! [`dynamic::visit`] tells a visitor every field of a message with name, tag and value; [`dynamic::json`] writes a line.
//!
//! # Another exchange's schema
//! `barewire-sbe-gen` writes the same views and encoders for any schema, from its XML, in a build script; its first page says
//! how. `mdp3` is made that way from `layout/*.layout` (grammar: `layout/text.rs` there); a test holds that description
//! against the exchange's schemas.
//!
//! No socket, clock, file, thread or allocation in what reads and writes messages; `layout` and `dynamic` allocate.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bytes;
pub mod dynamic;
mod encode;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod group;
pub mod mdp3;
mod names;
mod packet;
#[doc(hidden)]
pub mod rt;
mod value;
mod view;

pub use barewire_sbe_gen::layout;
pub use error::{DecodeError, EncodeError, FrameError};
pub use group::{Entries, Group, GroupEntry, NestedEntries, NestedEntry, NestedGroup};
pub use mdp3::AnyMessage;
pub use packet::{
    MESSAGE_HEADER_LEN, Message, Messages, PACKET_HEADER_LEN, Packet, PacketEncoder, SCHEMA_ID,
};
pub use value::{DecimalQty, MonthYear, Price7, Price9, Text};
pub use view::MessageView;
