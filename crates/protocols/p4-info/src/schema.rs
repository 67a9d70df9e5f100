//! Names, numbers and types of P4Info's fields, for its text form ([`crate::text`]).
//!
//! The binary form is decoded by `prost`, whose types know no names.

use Type::{Bool, Bytes, Enum, Int32, Int64, Message, String, Uint32};

/// A message.
pub(crate) struct Schema {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A field of a message.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) number: u32,
    pub(crate) repeated: bool,
    pub(crate) ty: Type,
}

/// What a field holds.
pub(crate) enum Type {
    Uint32,
    Int32,
    Int64,
    Bool,
    String,
    Bytes,
    Enum(&'static [(&'static str, i32)]),
    Message(&'static Schema),
}

const fn one(name: &'static str, number: u32, ty: Type) -> Field {
    Field { name, number, repeated: false, ty }
}

const fn many(name: &'static str, number: u32, ty: Type) -> Field {
    Field { name, number, repeated: true, ty }
}

const TABLE_IDLE_TIMEOUT_BEHAVIOR_VALUES: &[(&str, i32)] = &[("NO_TIMEOUT", 0), ("NOTIFY_CONTROL", 1)];
const MATCH_FIELD_MATCH_TYPE_VALUES: &[(&str, i32)] =
    &[("UNSPECIFIED", 0), ("EXACT", 2), ("LPM", 3), ("TERNARY", 4), ("RANGE", 5), ("OPTIONAL", 6)];
const ACTION_REF_SCOPE_VALUES: &[(&str, i32)] =
    &[("TABLE_AND_DEFAULT", 0), ("TABLE_ONLY", 1), ("DEFAULT_ONLY", 2)];
const COUNTER_SPEC_UNIT_VALUES: &[(&str, i32)] =
    &[("UNSPECIFIED", 0), ("BYTES", 1), ("PACKETS", 2), ("BOTH", 3)];
const METER_SPEC_UNIT_VALUES: &[(&str, i32)] = &[("UNSPECIFIED", 0), ("BYTES", 1), ("PACKETS", 2)];
const METER_SPEC_TYPE_VALUES: &[(&str, i32)] =
    &[("TWO_RATE_THREE_COLOR", 0), ("SINGLE_RATE_THREE_COLOR", 1), ("SINGLE_RATE_TWO_COLOR", 2)];

pub(crate) static P4_INFO: Schema = Schema {
    name: "P4Info",
    fields: &[
        one("pkg_info", 1, Message(&PKG_INFO)),
        many("tables", 2, Message(&TABLE)),
        many("actions", 3, Message(&ACTION)),
        many("action_profiles", 4, Message(&ACTION_PROFILE)),
        many("counters", 5, Message(&COUNTER)),
        many("direct_counters", 6, Message(&DIRECT_COUNTER)),
        many("meters", 7, Message(&METER)),
        many("direct_meters", 8, Message(&DIRECT_METER)),
        many("controller_packet_metadata", 9, Message(&CONTROLLER_PACKET_METADATA)),
        many("value_sets", 10, Message(&VALUE_SET)),
        many("registers", 11, Message(&REGISTER)),
        many("digests", 12, Message(&DIGEST)),
        many("externs", 100, Message(&EXTERN)),
        one("type_info", 200, Message(&P4_TYPE_INFO)),
    ],
};

static PKG_INFO: Schema = Schema {
    name: "PkgInfo",
    fields: &[
        one("name", 1, String),
        one("version", 2, String),
        one("doc", 3, Message(&DOCUMENTATION)),
        many("annotations", 4, String),
        many("annotation_locations", 10, Message(&SOURCE_LOCATION)),
        one("arch", 5, String),
        one("organization", 6, String),
        one("contact", 7, String),
        one("url", 8, String),
        many("structured_annotations", 9, Message(&STRUCTURED_ANNOTATION)),
        one("platform_properties", 11, Message(&PLATFORM_PROPERTIES)),
    ],
};

static DOCUMENTATION: Schema =
    Schema { name: "Documentation", fields: &[one("brief", 1, String), one("description", 2, String)] };

static SOURCE_LOCATION: Schema = Schema {
    name: "SourceLocation",
    fields: &[one("file", 1, String), one("line", 2, Int32), one("column", 3, Int32)],
};

static STRUCTURED_ANNOTATION: Schema = Schema {
    name: "StructuredAnnotation",
    fields: &[
        one("name", 1, String),
        one("expression_list", 2, Message(&EXPRESSION_LIST)),
        one("kv_pair_list", 3, Message(&KEY_VALUE_PAIR_LIST)),
        one("source_location", 4, Message(&SOURCE_LOCATION)),
    ],
};

static EXPRESSION_LIST: Schema =
    Schema { name: "ExpressionList", fields: &[many("expressions", 1, Message(&EXPRESSION))] };

static EXPRESSION: Schema = Schema {
    name: "Expression",
    fields: &[one("string_value", 1, String), one("int64_value", 2, Int64), one("bool_value", 3, Bool)],
};

static KEY_VALUE_PAIR_LIST: Schema =
    Schema { name: "KeyValuePairList", fields: &[many("kv_pairs", 1, Message(&KEY_VALUE_PAIR))] };

static KEY_VALUE_PAIR: Schema =
    Schema { name: "KeyValuePair", fields: &[one("key", 1, String), one("value", 2, Message(&EXPRESSION))] };

static PLATFORM_PROPERTIES: Schema = Schema {
    name: "PlatformProperties",
    fields: &[
        one("multicast_group_table_size", 1, Int32),
        one("multicast_group_table_total_replicas", 2, Int32),
        one("multicast_group_table_max_replicas_per_entry", 3, Int32),
    ],
};

static TABLE: Schema = Schema {
    name: "Table",
    fields: &[
        one("preamble", 1, Message(&PREAMBLE)),
        many("match_fields", 2, Message(&MATCH_FIELD)),
        many("action_refs", 3, Message(&ACTION_REF)),
        one("const_default_action_id", 4, Uint32),
        one("initial_default_action", 5, Message(&TABLE_ACTION_CALL)),
        one("implementation_id", 6, Uint32),
        many("direct_resource_ids", 7, Uint32),
        one("size", 8, Int64),
        one("idle_timeout_behavior", 9, Enum(TABLE_IDLE_TIMEOUT_BEHAVIOR_VALUES)),
        one("is_const_table", 10, Bool),
        one("has_initial_entries", 11, Bool),
        one("other_properties", 100, Message(&ANY)),
    ],
};

static PREAMBLE: Schema = Schema {
    name: "Preamble",
    fields: &[
        one("id", 1, Uint32),
        one("name", 2, String),
        one("alias", 3, String),
        many("annotations", 4, String),
        many("annotation_locations", 7, Message(&SOURCE_LOCATION)),
        one("doc", 5, Message(&DOCUMENTATION)),
        many("structured_annotations", 6, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static MATCH_FIELD: Schema = Schema {
    name: "MatchField",
    fields: &[
        one("id", 1, Uint32),
        one("name", 2, String),
        many("annotations", 3, String),
        many("annotation_locations", 10, Message(&SOURCE_LOCATION)),
        one("bitwidth", 4, Int32),
        one("match_type", 5, Enum(MATCH_FIELD_MATCH_TYPE_VALUES)),
        one("other_match_type", 7, String),
        one("doc", 6, Message(&DOCUMENTATION)),
        one("type_name", 8, Message(&P4_NAMED_TYPE)),
        many("structured_annotations", 9, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static P4_NAMED_TYPE: Schema = Schema { name: "P4NamedType", fields: &[one("name", 1, String)] };

static ACTION_REF: Schema = Schema {
    name: "ActionRef",
    fields: &[
        one("id", 1, Uint32),
        one("scope", 3, Enum(ACTION_REF_SCOPE_VALUES)),
        many("annotations", 2, String),
        many("annotation_locations", 5, Message(&SOURCE_LOCATION)),
        many("structured_annotations", 4, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static TABLE_ACTION_CALL: Schema = Schema {
    name: "TableActionCall",
    fields: &[one("action_id", 1, Uint32), many("arguments", 4, Message(&TABLE_ACTION_CALL_ARGUMENT))],
};

static TABLE_ACTION_CALL_ARGUMENT: Schema =
    Schema { name: "Argument", fields: &[one("param_id", 2, Uint32), one("value", 3, Bytes)] };

static ANY: Schema = Schema { name: "Any", fields: &[one("type_url", 1, String), one("value", 2, Bytes)] };

static ACTION: Schema = Schema {
    name: "Action",
    fields: &[one("preamble", 1, Message(&PREAMBLE)), many("params", 2, Message(&ACTION_PARAM))],
};

static ACTION_PARAM: Schema = Schema {
    name: "Param",
    fields: &[
        one("id", 1, Uint32),
        one("name", 2, String),
        many("annotations", 3, String),
        many("annotation_locations", 8, Message(&SOURCE_LOCATION)),
        one("bitwidth", 4, Int32),
        one("doc", 5, Message(&DOCUMENTATION)),
        one("type_name", 6, Message(&P4_NAMED_TYPE)),
        many("structured_annotations", 7, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static ACTION_PROFILE: Schema = Schema {
    name: "ActionProfile",
    fields: &[
        one("preamble", 1, Message(&PREAMBLE)),
        many("table_ids", 2, Uint32),
        one("with_selector", 3, Bool),
        one("size", 4, Int64),
        one("max_group_size", 5, Int32),
        one("sum_of_weights", 6, Message(&ACTION_PROFILE_SUM_OF_WEIGHTS)),
        one("sum_of_members", 7, Message(&ACTION_PROFILE_SUM_OF_MEMBERS)),
    ],
};

static ACTION_PROFILE_SUM_OF_WEIGHTS: Schema = Schema { name: "SumOfWeights", fields: &[] };

static ACTION_PROFILE_SUM_OF_MEMBERS: Schema =
    Schema { name: "SumOfMembers", fields: &[one("max_member_weight", 1, Int32)] };

static COUNTER: Schema = Schema {
    name: "Counter",
    fields: &[
        one("preamble", 1, Message(&PREAMBLE)),
        one("spec", 2, Message(&COUNTER_SPEC)),
        one("size", 3, Int64),
        one("index_type_name", 4, Message(&P4_NAMED_TYPE)),
    ],
};

static COUNTER_SPEC: Schema =
    Schema { name: "CounterSpec", fields: &[one("unit", 1, Enum(COUNTER_SPEC_UNIT_VALUES))] };

static DIRECT_COUNTER: Schema = Schema {
    name: "DirectCounter",
    fields: &[
        one("preamble", 1, Message(&PREAMBLE)),
        one("spec", 2, Message(&COUNTER_SPEC)),
        one("direct_table_id", 3, Uint32),
    ],
};

static METER: Schema = Schema {
    name: "Meter",
    fields: &[
        one("preamble", 1, Message(&PREAMBLE)),
        one("spec", 2, Message(&METER_SPEC)),
        one("size", 3, Int64),
        one("index_type_name", 4, Message(&P4_NAMED_TYPE)),
    ],
};

static METER_SPEC: Schema = Schema {
    name: "MeterSpec",
    fields: &[one("unit", 1, Enum(METER_SPEC_UNIT_VALUES)), one("type", 2, Enum(METER_SPEC_TYPE_VALUES))],
};

static DIRECT_METER: Schema = Schema {
    name: "DirectMeter",
    fields: &[
        one("preamble", 1, Message(&PREAMBLE)),
        one("spec", 2, Message(&METER_SPEC)),
        one("direct_table_id", 3, Uint32),
    ],
};

static CONTROLLER_PACKET_METADATA: Schema = Schema {
    name: "ControllerPacketMetadata",
    fields: &[
        one("preamble", 1, Message(&PREAMBLE)),
        many("metadata", 2, Message(&CONTROLLER_PACKET_METADATA_METADATA)),
    ],
};

static CONTROLLER_PACKET_METADATA_METADATA: Schema = Schema {
    name: "Metadata",
    fields: &[
        one("id", 1, Uint32),
        one("name", 2, String),
        many("annotations", 3, String),
        many("annotation_locations", 7, Message(&SOURCE_LOCATION)),
        one("bitwidth", 4, Int32),
        one("type_name", 5, Message(&P4_NAMED_TYPE)),
        many("structured_annotations", 6, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static VALUE_SET: Schema = Schema {
    name: "ValueSet",
    fields: &[
        one("preamble", 1, Message(&PREAMBLE)),
        many("match", 2, Message(&MATCH_FIELD)),
        one("size", 3, Int32),
    ],
};

static REGISTER: Schema = Schema {
    name: "Register",
    fields: &[
        one("preamble", 1, Message(&PREAMBLE)),
        one("type_spec", 2, Message(&P4_DATA_TYPE_SPEC)),
        one("size", 3, Int32),
        one("index_type_name", 4, Message(&P4_NAMED_TYPE)),
    ],
};

static P4_DATA_TYPE_SPEC: Schema = Schema {
    name: "P4DataTypeSpec",
    fields: &[
        one("bitstring", 1, Message(&P4_BITSTRING_LIKE_TYPE_SPEC)),
        one("bool", 2, Message(&P4_BOOL_TYPE)),
        one("tuple", 3, Message(&P4_TUPLE_TYPE_SPEC)),
        one("struct", 4, Message(&P4_NAMED_TYPE)),
        one("header", 5, Message(&P4_NAMED_TYPE)),
        one("header_union", 6, Message(&P4_NAMED_TYPE)),
        one("header_stack", 7, Message(&P4_HEADER_STACK_TYPE_SPEC)),
        one("header_union_stack", 8, Message(&P4_HEADER_UNION_STACK_TYPE_SPEC)),
        one("enum", 9, Message(&P4_NAMED_TYPE)),
        one("error", 10, Message(&P4_ERROR_TYPE)),
        one("serializable_enum", 11, Message(&P4_NAMED_TYPE)),
        one("new_type", 12, Message(&P4_NAMED_TYPE)),
    ],
};

static P4_BITSTRING_LIKE_TYPE_SPEC: Schema = Schema {
    name: "P4BitstringLikeTypeSpec",
    fields: &[
        one("bit", 1, Message(&P4_BIT_TYPE_SPEC)),
        one("int", 2, Message(&P4_INT_TYPE_SPEC)),
        one("varbit", 3, Message(&P4_VARBIT_TYPE_SPEC)),
        many("annotations", 4, String),
        many("annotation_locations", 5, Message(&SOURCE_LOCATION)),
        many("structured_annotations", 6, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static P4_BIT_TYPE_SPEC: Schema = Schema { name: "P4BitTypeSpec", fields: &[one("bitwidth", 1, Int32)] };

static P4_INT_TYPE_SPEC: Schema = Schema { name: "P4IntTypeSpec", fields: &[one("bitwidth", 1, Int32)] };

static P4_VARBIT_TYPE_SPEC: Schema =
    Schema { name: "P4VarbitTypeSpec", fields: &[one("max_bitwidth", 1, Int32)] };

static P4_BOOL_TYPE: Schema = Schema { name: "P4BoolType", fields: &[] };

static P4_TUPLE_TYPE_SPEC: Schema =
    Schema { name: "P4TupleTypeSpec", fields: &[many("members", 1, Message(&P4_DATA_TYPE_SPEC))] };

static P4_HEADER_STACK_TYPE_SPEC: Schema = Schema {
    name: "P4HeaderStackTypeSpec",
    fields: &[one("header", 1, Message(&P4_NAMED_TYPE)), one("size", 2, Int32)],
};

static P4_HEADER_UNION_STACK_TYPE_SPEC: Schema = Schema {
    name: "P4HeaderUnionStackTypeSpec",
    fields: &[one("header_union", 1, Message(&P4_NAMED_TYPE)), one("size", 2, Int32)],
};

static P4_ERROR_TYPE: Schema = Schema { name: "P4ErrorType", fields: &[] };

static DIGEST: Schema = Schema {
    name: "Digest",
    fields: &[one("preamble", 1, Message(&PREAMBLE)), one("type_spec", 2, Message(&P4_DATA_TYPE_SPEC))],
};

static EXTERN: Schema = Schema {
    name: "Extern",
    fields: &[
        one("extern_type_id", 1, Uint32),
        one("extern_type_name", 2, String),
        many("instances", 3, Message(&EXTERN_INSTANCE)),
    ],
};

static EXTERN_INSTANCE: Schema = Schema {
    name: "ExternInstance",
    fields: &[one("preamble", 1, Message(&PREAMBLE)), one("info", 2, Message(&ANY))],
};

static P4_TYPE_INFO: Schema = Schema {
    name: "P4TypeInfo",
    fields: &[
        many("structs", 1, Message(&P4_TYPE_INFO_STRUCTS_ENTRY)),
        many("headers", 2, Message(&P4_TYPE_INFO_HEADERS_ENTRY)),
        many("header_unions", 3, Message(&P4_TYPE_INFO_HEADER_UNIONS_ENTRY)),
        many("enums", 4, Message(&P4_TYPE_INFO_ENUMS_ENTRY)),
        one("error", 5, Message(&P4_ERROR_TYPE_SPEC)),
        many("serializable_enums", 6, Message(&P4_TYPE_INFO_SERIALIZABLE_ENUMS_ENTRY)),
        many("new_types", 7, Message(&P4_TYPE_INFO_NEW_TYPES_ENTRY)),
    ],
};

static P4_TYPE_INFO_STRUCTS_ENTRY: Schema = Schema {
    name: "StructsEntry",
    fields: &[one("key", 1, String), one("value", 2, Message(&P4_STRUCT_TYPE_SPEC))],
};

static P4_STRUCT_TYPE_SPEC: Schema = Schema {
    name: "P4StructTypeSpec",
    fields: &[
        many("members", 1, Message(&P4_STRUCT_TYPE_SPEC_MEMBER)),
        many("annotations", 2, String),
        many("annotation_locations", 3, Message(&SOURCE_LOCATION)),
        many("structured_annotations", 4, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static P4_STRUCT_TYPE_SPEC_MEMBER: Schema = Schema {
    name: "Member",
    fields: &[one("name", 1, String), one("type_spec", 2, Message(&P4_DATA_TYPE_SPEC))],
};

static P4_TYPE_INFO_HEADERS_ENTRY: Schema = Schema {
    name: "HeadersEntry",
    fields: &[one("key", 1, String), one("value", 2, Message(&P4_HEADER_TYPE_SPEC))],
};

static P4_HEADER_TYPE_SPEC: Schema = Schema {
    name: "P4HeaderTypeSpec",
    fields: &[
        many("members", 1, Message(&P4_HEADER_TYPE_SPEC_MEMBER)),
        many("annotations", 2, String),
        many("annotation_locations", 3, Message(&SOURCE_LOCATION)),
        many("structured_annotations", 4, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static P4_HEADER_TYPE_SPEC_MEMBER: Schema = Schema {
    name: "Member",
    fields: &[one("name", 1, String), one("type_spec", 2, Message(&P4_BITSTRING_LIKE_TYPE_SPEC))],
};

static P4_TYPE_INFO_HEADER_UNIONS_ENTRY: Schema = Schema {
    name: "HeaderUnionsEntry",
    fields: &[one("key", 1, String), one("value", 2, Message(&P4_HEADER_UNION_TYPE_SPEC))],
};

static P4_HEADER_UNION_TYPE_SPEC: Schema = Schema {
    name: "P4HeaderUnionTypeSpec",
    fields: &[
        many("members", 1, Message(&P4_HEADER_UNION_TYPE_SPEC_MEMBER)),
        many("annotations", 2, String),
        many("annotation_locations", 3, Message(&SOURCE_LOCATION)),
        many("structured_annotations", 4, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static P4_HEADER_UNION_TYPE_SPEC_MEMBER: Schema =
    Schema { name: "Member", fields: &[one("name", 1, String), one("header", 2, Message(&P4_NAMED_TYPE))] };

static P4_TYPE_INFO_ENUMS_ENTRY: Schema = Schema {
    name: "EnumsEntry",
    fields: &[one("key", 1, String), one("value", 2, Message(&P4_ENUM_TYPE_SPEC))],
};

static P4_ENUM_TYPE_SPEC: Schema = Schema {
    name: "P4EnumTypeSpec",
    fields: &[
        many("members", 1, Message(&P4_ENUM_TYPE_SPEC_MEMBER)),
        many("annotations", 2, String),
        many("annotation_locations", 4, Message(&SOURCE_LOCATION)),
        many("structured_annotations", 3, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static P4_ENUM_TYPE_SPEC_MEMBER: Schema = Schema {
    name: "Member",
    fields: &[
        one("name", 1, String),
        many("annotations", 2, String),
        many("annotation_locations", 4, Message(&SOURCE_LOCATION)),
        many("structured_annotations", 3, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static P4_ERROR_TYPE_SPEC: Schema = Schema { name: "P4ErrorTypeSpec", fields: &[many("members", 1, String)] };

static P4_TYPE_INFO_SERIALIZABLE_ENUMS_ENTRY: Schema = Schema {
    name: "SerializableEnumsEntry",
    fields: &[one("key", 1, String), one("value", 2, Message(&P4_SERIALIZABLE_ENUM_TYPE_SPEC))],
};

static P4_SERIALIZABLE_ENUM_TYPE_SPEC: Schema = Schema {
    name: "P4SerializableEnumTypeSpec",
    fields: &[
        one("underlying_type", 1, Message(&P4_BIT_TYPE_SPEC)),
        many("members", 2, Message(&P4_SERIALIZABLE_ENUM_TYPE_SPEC_MEMBER)),
        many("annotations", 3, String),
        many("annotation_locations", 5, Message(&SOURCE_LOCATION)),
        many("structured_annotations", 4, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static P4_SERIALIZABLE_ENUM_TYPE_SPEC_MEMBER: Schema = Schema {
    name: "Member",
    fields: &[
        one("name", 1, String),
        one("value", 2, Bytes),
        many("annotations", 3, String),
        many("annotation_locations", 5, Message(&SOURCE_LOCATION)),
        many("structured_annotations", 4, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static P4_TYPE_INFO_NEW_TYPES_ENTRY: Schema = Schema {
    name: "NewTypesEntry",
    fields: &[one("key", 1, String), one("value", 2, Message(&P4_NEW_TYPE_SPEC))],
};

static P4_NEW_TYPE_SPEC: Schema = Schema {
    name: "P4NewTypeSpec",
    fields: &[
        one("original_type", 1, Message(&P4_DATA_TYPE_SPEC)),
        one("translated_type", 2, Message(&P4_NEW_TYPE_TRANSLATION)),
        many("annotations", 3, String),
        many("annotation_locations", 5, Message(&SOURCE_LOCATION)),
        many("structured_annotations", 4, Message(&STRUCTURED_ANNOTATION)),
    ],
};

static P4_NEW_TYPE_TRANSLATION: Schema = Schema {
    name: "P4NewTypeTranslation",
    fields: &[
        one("uri", 1, String),
        one("sdn_bitwidth", 2, Int32),
        one("sdn_string", 3, Message(&P4_NEW_TYPE_TRANSLATION_SDN_STRING)),
    ],
};

static P4_NEW_TYPE_TRANSLATION_SDN_STRING: Schema = Schema { name: "SdnString", fields: &[] };
