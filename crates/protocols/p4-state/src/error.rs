//! What can be wrong with an update: the table or profile by name, and what in it.

/// Why an update of one table, profile or array was refused. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of the fields: the messages say what they are
pub enum EntryError {
    /// The table's key is empty: only its default entry can run.
    #[error("the table has no key, so it holds no entries")]
    NoKey,
    /// Another number of fields than the table's key has.
    #[error("the key has {expected} fields, the entry gives {given}")]
    FieldCount { expected: usize, given: usize },
    /// A match of another kind than the key field's.
    #[error("key field {field} matches as {expected}, the entry gives {given}")]
    MatchKind { field: usize, expected: &'static str, given: &'static str },
    /// A value with more bits than its field.
    #[error("key field {field} has {width} bits, the value needs {bits}")]
    ValueWidth { field: usize, width: u32, bits: u64 },
    /// A prefix longer than its field.
    #[error("key field {field} has {width} bits, the prefix {prefix_len}")]
    PrefixLength { field: usize, width: u32, prefix_len: u32 },
    /// An optional field's mask that is neither full nor empty.
    #[error("key field {field} is optional: its mask must be full or empty")]
    OptionalMask { field: usize },
    /// A range whose low end is above its high end.
    #[error("key field {field}: the range's low end is above its high end")]
    EmptyRange { field: usize },
    /// Another entry has this key (and priority, where there are priorities).
    #[error("entry {handle} has the same key")]
    Duplicate { handle: u32 },
    /// The handle names an entry already.
    #[error("handle {handle} is in use")]
    HandleInUse { handle: u32 },
    /// The handle names no entry.
    #[error("no entry has the handle {handle}")]
    NoHandle { handle: u32 },
    /// The handle is not below [`crate::MAX_HANDLES`].
    #[error("handle {handle} is not below {limit}")]
    HandleTooLarge { handle: u32, limit: u32 },
    /// More entries hash alike than a table can hold; does not happen with a secret seed.
    #[error("too many keys with one hash")]
    Crowded,
    /// The action is not one of the table's or of the program's.
    #[error("action {action} is not one of the table's")]
    NoAction { action: u32 },
    /// Another number of arguments than the action's parameters.
    #[error("action '{action}' takes {expected} arguments, {given} are given")]
    ArgCount { action: String, expected: usize, given: usize },
    /// An argument with more bits than its parameter.
    #[error("parameter '{param}' of action '{action}' has {width} bits, the argument needs {bits}")]
    ArgWidth { action: String, param: String, width: u32, bits: u64 },
    /// A member or group where the table wants an action, or the other way round.
    #[error("{given} given, but the table's entries hold {expected}")]
    EntryKind { expected: &'static str, given: &'static str },
    /// The profile has no such member.
    #[error("no member {member}")]
    NoMember { member: u32 },
    /// The profile has such a member already.
    #[error("member {member} exists")]
    MemberExists { member: u32 },
    /// The profile has no such group.
    #[error("no group {group}")]
    NoGroup { group: u32 },
    /// A group's weights add up to more than [`crate::MAX_GROUP_SLOTS`].
    #[error("the group's weights add up to {total}, more than {limit}")]
    GroupTooLarge { total: u64, limit: u32 },
    /// The profile cannot choose among members.
    #[error("the profile has no selector")]
    NoSelector,
    /// The table has no direct meter.
    #[error("the table has no direct meter")]
    NoMeter,
    /// Another number of rates than the meter has.
    #[error("the meter has {expected} rates, {given} are given")]
    RateCount { expected: usize, given: usize },
    /// A rate below the one before it, negative or not a number.
    #[error("rate {at} is negative, no number, or below the rate before it")]
    RateOrder { at: usize },
    /// An index or range of indices that is not in the array.
    #[error("index {index} is not below {size}")]
    Index { index: u64, size: u64 },
    /// Another number of parts than the value set's values have.
    #[error("values of this set have {expected} parts, {given} are given")]
    PartCount { expected: usize, given: usize },
    /// A value set would hold more than [`crate::MAX_SET_VALUES`].
    #[error("the set holds {limit} values already")]
    SetFull { limit: usize },
}

/// What an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Subject {
    Table,
    Profile,
    Counter,
    Meter,
    Register,
    ValueSet,
    Calculation,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Subject::Table => "table",
            Subject::Profile => "action profile",
            Subject::Counter => "counter",
            Subject::Meter => "meter",
            Subject::Register => "register",
            Subject::ValueSet => "value set",
            Subject::Calculation => "calculation",
        })
    }
}

/// Why an operation on a program's state was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of the fields: the messages say what they are
pub enum StateError {
    /// The program has no such object.
    #[error("the program has no {subject} number {id}")]
    NoSuch { subject: Subject, id: u32 },
    /// The object refuses it.
    #[error("{subject} '{name}': {source}")]
    Refused { subject: Subject, name: String, source: EntryError },
}
