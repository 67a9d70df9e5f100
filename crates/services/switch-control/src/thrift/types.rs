//! The structs of bmv2's Thrift interface: names, field numbers and types.
//!
//! Source of the numbers: p4lang/behavioral-model, `thrift_src/*.thrift`, `targets/*/thrift/*.thrift`.

use super::schema::{Field, Shape, Ty, field, optional};

const EXACT: Shape = Shape { name: "BmMatchParamExact", fields: &[field(1, "key", Ty::Bytes)] };
const LPM: Shape = Shape {
    name: "BmMatchParamLPM",
    fields: &[field(1, "key", Ty::Bytes), field(2, "prefix_length", Ty::I32)],
};
const TERNARY: Shape =
    Shape { name: "BmMatchParamTernary", fields: &[field(1, "key", Ty::Bytes), field(2, "mask", Ty::Bytes)] };
const VALID: Shape = Shape { name: "BmMatchParamValid", fields: &[field(1, "key", Ty::Bool)] };
const RANGE: Shape =
    Shape { name: "BmMatchParamRange", fields: &[field(1, "start", Ty::Bytes), field(2, "end_", Ty::Bytes)] };

/// `BmMatchParam.type`.
pub mod match_type {
    #![allow(missing_docs)]
    pub const EXACT: i32 = 0;
    pub const LPM: i32 = 1;
    pub const TERNARY: i32 = 2;
    pub const VALID: i32 = 3;
    pub const RANGE: i32 = 4;
}

/// One field of a key: the type's number, and under the number plus 2 the struct for it.
pub static MATCH_PARAM: Shape = Shape {
    name: "BmMatchParam",
    fields: &[
        field(1, "type", Ty::I32),
        optional(2, "exact", Ty::Struct(&EXACT)),
        optional(3, "lpm", Ty::Struct(&LPM)),
        optional(4, "ternary", Ty::Struct(&TERNARY)),
        optional(5, "valid", Ty::Struct(&VALID)),
        optional(6, "range", Ty::Struct(&RANGE)),
    ],
};

/// A key.
pub const MATCH_KEY: Ty = Ty::List(&Ty::Struct(&MATCH_PARAM));

/// An action's arguments.
pub const ACTION_DATA: Ty = Ty::List(&Ty::Bytes);

/// What an entry is added with besides its key.
pub static ADD_OPTIONS: Shape =
    Shape { name: "BmAddEntryOptions", fields: &[optional(1, "priority", Ty::I32)] };

/// Packets and bytes (bytes come first).
pub static COUNTER_VALUE: Shape =
    Shape { name: "BmCounterValue", fields: &[field(1, "bytes", Ty::I64), field(2, "packets", Ty::I64)] };

/// One rate of a meter.
pub static METER_RATE: Shape = Shape {
    name: "BmMeterRateConfig",
    fields: &[field(1, "units_per_micros", Ty::Double), field(2, "burst_size", Ty::I32)],
};

/// All rates of a meter.
pub const METER_RATES: Ty = Ty::List(&Ty::Struct(&METER_RATE));

/// A port.
pub static PORT_INFO: Shape = Shape {
    name: "DevMgrPortInfo",
    fields: &[
        field(1, "port_num", Ty::I32),
        field(2, "iface_name", Ty::Text),
        field(3, "is_up", Ty::Bool),
        field(4, "extra", Ty::Map(&Ty::Text, &Ty::Text)),
    ],
};

const fn crc(int: Ty) -> [Field; 5] {
    [
        field(1, "polynomial", int),
        field(2, "initial_remainder", int),
        field(3, "final_xor_value", int),
        field(4, "data_reflected", Ty::Bool),
        field(5, "remainder_reflected", Ty::Bool),
    ]
}

/// Parameters of a CRC of 16 bits.
pub static CRC16: Shape = Shape { name: "BmCrc16Config", fields: &crc(Ty::I16) };

/// Parameters of a CRC of 32 bits.
pub static CRC32: Shape = Shape { name: "BmCrc32Config", fields: &crc(Ty::I32) };

/// `BmActionEntry.action_type`.
pub mod action_type {
    #![allow(missing_docs)]
    pub const NONE: i32 = 0;
    pub const ACTION_DATA: i32 = 1;
    pub const MEMBER: i32 = 2;
    pub const GROUP: i32 = 3;
}

/// What an entry does.
pub static ACTION_ENTRY: Shape = Shape {
    name: "BmActionEntry",
    fields: &[
        field(1, "action_type", Ty::I32),
        optional(2, "action_name", Ty::Text),
        optional(3, "action_data", ACTION_DATA),
        optional(4, "mbr_handle", Ty::I32),
        optional(5, "grp_handle", Ty::I32),
    ],
};

const LIFE: Shape = Shape {
    name: "BmMtEntryLife",
    fields: &[field(1, "timeout_ms", Ty::I32), field(2, "time_since_hit_ms", Ty::I32)],
};

/// An entry. (bmv2 leaves everything but the action unset when asked for the default entry by an empty key.)
pub static ENTRY: Shape = Shape {
    name: "BmMtEntry",
    fields: &[
        optional(1, "match_key", MATCH_KEY),
        optional(2, "options", Ty::Struct(&ADD_OPTIONS)),
        optional(3, "entry_handle", Ty::I32),
        field(4, "action_entry", Ty::Struct(&ACTION_ENTRY)),
        optional(5, "life", Ty::Struct(&LIFE)),
    ],
};

/// A member of an action profile.
pub static MEMBER: Shape = Shape {
    name: "BmMtActProfMember",
    fields: &[
        field(1, "mbr_handle", Ty::I32),
        field(2, "action_name", Ty::Text),
        field(3, "action_data", ACTION_DATA),
    ],
};

/// A group of an action profile.
pub static GROUP: Shape = Shape {
    name: "BmMtActProfGroup",
    fields: &[field(1, "grp_handle", Ty::I32), field(2, "mbr_handles", Ty::List(&Ty::I32))],
};

/// The field of [`CONFIG`] that says which engine runs the program: ours alone has it (other readers skip it).
pub const ENGINE: i16 = 6;

/// The switch as a whole.
pub static CONFIG: Shape = Shape {
    name: "BmConfig",
    fields: &[
        field(1, "device_id", Ty::I64),
        field(2, "thrift_port", Ty::I32),
        optional(3, "notifications_socket", Ty::Text),
        optional(4, "elogger_socket", Ty::Text),
        optional(5, "debugger_socket", Ty::Text),
        optional(ENGINE, "engine", Ty::Text),
    ],
};

/// A mirror session.
pub static MIRROR_SESSION: Shape = Shape {
    name: "MirroringSessionConfig",
    fields: &[optional(1, "port", Ty::I32), optional(2, "mgid", Ty::I32)],
};

/// `BmResourceType`.
pub mod resource {
    #![allow(missing_docs)]
    pub const MATCH_TABLE: i32 = 0;
    pub const ACTION_PROFILE: i32 = 1;
    pub const COUNTER: i32 = 2;
    pub const METER: i32 = 3;
    pub const REGISTER: i32 = 4;
    pub const LEARNING_LIST: i32 = 5;
}
