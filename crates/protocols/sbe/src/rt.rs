//! What generated code calls: not for use by hand, and without promises from one version to the next.

pub use crate::bytes::{Word, array_ref, put, put_text, slice, tail_ref};
pub use crate::encode::{
    DataLayout, EntryWriter, GroupLayout, GroupWriter, HeaderLayout, MessageLayout, NestedWriter, Num,
    PartLayout, Writer,
};
pub use crate::group::{Cursor, DataHeader, Dimension, NestedEntry, entry_block};
pub use crate::value::{fmt_decimal, fmt_set};
pub use crate::view::{first, root};
pub use crate::{
    DecimalQty, DecodeError, EncodeError, Group, GroupEntry, Message, MessageView, MonthYear, NestedGroup,
    Price7, Price9, Text,
};
