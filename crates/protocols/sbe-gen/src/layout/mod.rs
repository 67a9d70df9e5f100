//! Layouts as data: which fields a template has, where, of which type, and since which version.
//!
//! One model, two sources: [`Schema::from_xml`] reads a templates file in the form of the FIX SBE standard;
//! [`Schema::from_layout`] reads our own shorter form (`layout/*.layout` of `barewire-sbe`), which also says what earlier
//! versions had.

mod text;
mod xml;

pub use text::LayoutError;
pub use xml::XmlError;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The types and templates of one schema, of one version or of a range of versions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// The package's name.
    pub package: String,
    /// The schema's id, as in message headers.
    pub id: u16,
    /// The newest version described.
    pub version: u16,
    /// Ascending by id.
    pub templates: Vec<Template>,
    /// By name, as declared; those that a composite declares inside it, before it.
    pub types: Vec<Arc<NamedType>>,
    /// How numbers are written.
    pub byte_order: ByteOrder,
    /// What stands before each message.
    pub header: Header,
    /// Where each template id is in `templates`.
    index: HashMap<u16, usize>,
}

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ByteOrder {
    /// The least significant one.
    #[default]
    Little,
    /// The most significant one.
    Big,
}

/// The header of a message: where and how it says what follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Bytes.
    pub len: usize,
    /// The length of the root block.
    pub block_length: (usize, Primitive),
    /// The template.
    pub template_id: (usize, Primitive),
    /// The schema.
    pub schema_id: (usize, Primitive),
    /// The schema's version.
    pub version: (usize, Primitive),
}

/// The standard's: four words of 16 bits.
impl Default for Header {
    fn default() -> Self {
        let word = |at| (at, Primitive::U16);
        Header { len: 8, block_length: word(0), template_id: word(2), schema_id: word(4), version: word(6) }
    }
}

/// A message's layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// As in message headers.
    pub id: u16,
    /// With the id at its end, as CME writes it.
    pub name: String,
    /// FIX tag 35; may be empty.
    pub message_type: String,
    /// The first version that has it; zero for the first of all.
    pub since: u16,
    /// The last version that has it; `None` for the newest.
    pub until: Option<u16>,
    /// Root block and groups.
    pub body: Body,
}

/// A block with the groups that follow it: a message's root, or an entry of a group.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Body {
    /// Block lengths by version: (first version, bytes), ascending.
    pub block_lengths: Vec<(u16, usize)>,
    /// Ascending by offset, as declared.
    pub fields: Vec<Field>,
    /// In order.
    pub groups: Vec<Group>,
    /// Data of variable length, behind the groups, in order.
    pub data: Vec<Data>,
}

/// A field of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// FIX tag.
    pub tag: u32,
    /// Offset in the block; zero for a constant, which takes no bytes.
    pub offset: usize,
    /// The first version that has it.
    pub since: u16,
    /// Its type.
    pub ty: Arc<NamedType>,
}

/// A repeating group.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// FIX tag of its count.
    pub tag: u32,
    /// The first version that has it.
    pub since: u16,
    /// Its header.
    pub dimension: Dimension,
    /// Each entry.
    pub body: Body,
}

/// Data of variable length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its name.
    pub name: String,
    /// FIX tag.
    pub tag: u32,
    /// The first version that has it.
    pub since: u16,
    /// Bytes before the data.
    pub header_len: usize,
    /// Where and how they say the length of the data.
    pub length: (usize, Primitive),
}

/// The header of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// The composite type's name.
    pub name: String,
    /// Bytes.
    pub len: usize,
    /// Where and how the block length of an entry is written.
    pub block_length: (usize, Primitive),
    /// Where and how the count of entries is written.
    pub count: (usize, Primitive),
}

/// A type under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedType {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// A number or a character; with its null value where it may be missing.
    Scalar {
        /// How it is written.
        primitive: Primitive,
        /// The value that says "no value".
        null: Option<i128>,
    },
    /// Characters, filled up with zeros.
    Text {
        /// Bytes.
        len: usize,
    },
    /// Several numbers of one kind.
    Array {
        /// How each is written.
        primitive: Primitive,
        /// How many.
        len: usize,
    },
    /// Text that takes no bytes.
    ConstantText {
        /// It.
        text: String,
    },
    /// A value of an enum that takes no bytes.
    ConstantEnum {
        /// The enum.
        of: Arc<NamedType>,
        /// The value's name.
        name: String,
        /// The value.
        value: u64,
    },
    /// A number or a character that takes no bytes.
    Constant {
        /// What it would be written as.
        primitive: Primitive,
        /// Its value; a character's code.
        value: i128,
    },
    /// One of named values; unknown ones are possible.
    Enum {
        /// How it is written.
        primitive: Primitive,
        /// The value that says "no value".
        null: Option<i128>,
        /// The names.
        values: Vec<EnumValue>,
    },
    /// Bits with names.
    Set {
        /// How it is written.
        primitive: Primitive,
        /// The names; `value` is the number of the bit.
        choices: Vec<EnumValue>,
    },
    /// Several values, one behind the other.
    Composite {
        /// They.
        members: Vec<Member>,
    },
}

/// A name for a value of an enum or for a bit of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumValue {
    /// The name.
    pub name: String,
    /// The value, a character's code, or the number of the bit.
    pub value: u64,
    /// The first version that has it.
    pub since: u16,
}

/// A part of a composite type.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Offset in the composite; of a constant, where the next part begins.
    pub offset: usize,
    /// Its type; without a name where it is declared in place and is no enum, set or composite.
    pub ty: Arc<NamedType>,
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Primitive {
    Char,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl Primitive {
    /// Bytes it takes.
    pub const fn size(self) -> usize {
        match self {
            Primitive::Char | Primitive::I8 | Primitive::U8 => 1,
            Primitive::I16 | Primitive::U16 => 2,
            Primitive::I32 | Primitive::U32 | Primitive::F32 => 4,
            Primitive::I64 | Primitive::U64 | Primitive::F64 => 8,
        }
    }

    /// Whether values below zero exist.
    pub const fn is_signed(self) -> bool {
        matches!(self, Primitive::I8 | Primitive::I16 | Primitive::I32 | Primitive::I64)
    }

    /// Whether this is floating-point; a value then stands for its bits.
    pub const fn is_float(self) -> bool {
        matches!(self, Primitive::F32 | Primitive::F64)
    }

    /// The least value of an integer.
    pub const fn min(self) -> i128 {
        if self.is_signed() { -(1 << (self.size() * 8 - 1)) } else { 0 }
    }

    /// The greatest value of an integer.
    pub const fn max(self) -> i128 {
        (1 << (self.size() * 8 - self.is_signed() as usize)) - 1
    }

    /// The null value of the SBE standard for a field that may be missing and names none itself.
    pub const fn default_null(self) -> i128 {
        match self {
            Primitive::Char => 0,
            Primitive::F32 => f32::NAN.to_bits() as i128,
            Primitive::F64 => f64::NAN.to_bits() as i128,
            _ if self.is_signed() => self.min(),
            _ => self.max(),
        }
    }

    /// The value at the start of `bytes`, of a floating-point number its bits; `None` when they are too few.
    pub fn read(self, bytes: &[u8], order: ByteOrder) -> Option<i128> {
        let bytes = bytes.get(..self.size())?;
        let mut word = [0u8; 8];
        let place = &mut word[..bytes.len()];
        place.copy_from_slice(bytes);
        if order == ByteOrder::Big {
            place.reverse();
        }
        let raw = u64::from_le_bytes(word);
        if self.is_signed() {
            let shift = 64 - 8 * self.size() as u32;
            return Some(i128::from((raw << shift) as i64 >> shift));
        }
        Some(i128::from(raw))
    }

    /// As the schema's XML names it.
    pub fn from_xml_name(name: &str) -> Option<Self> {
        XML_NAMES.iter().find(|(known, _)| *known == name).map(|(_, primitive)| *primitive)
    }
}

/// The names that a schema's XML has for primitives.
pub(crate) const XML_NAMES: [(&str, Primitive); 11] = [
    ("char", Primitive::Char),
    ("int8", Primitive::I8),
    ("int16", Primitive::I16),
    ("int32", Primitive::I32),
    ("int64", Primitive::I64),
    ("uint8", Primitive::U8),
    ("uint16", Primitive::U16),
    ("uint32", Primitive::U32),
    ("uint64", Primitive::U64),
    ("float", Primitive::F32),
    ("double", Primitive::F64),
];

impl Kind {
    /// Bytes it takes in a block.
    pub fn size(&self) -> usize {
        match self {
            Kind::Scalar { primitive, .. } | Kind::Enum { primitive, .. } | Kind::Set { primitive, .. } => {
                primitive.size()
            }
            Kind::Text { len } => *len,
            Kind::Array { primitive, len } => primitive.size() * len,
            Kind::Constant { .. } | Kind::ConstantText { .. } | Kind::ConstantEnum { .. } => 0,
            Kind::Composite { members } => {
                members.iter().map(|m| m.offset + m.ty.kind.size()).max().unwrap_or_default()
            }
        }
    }

    /// A decimal's mantissa and exponent, where that is what this composite is.
    pub fn as_decimal(&self) -> Option<(Primitive, Option<i128>, i8)> {
        let Kind::Composite { members } = self else { return None };
        match members.as_slice() {
            [mantissa, exponent] if mantissa.name == "mantissa" && exponent.name == "exponent" => {
                match (&mantissa.ty.kind, &exponent.ty.kind) {
                    (Kind::Scalar { primitive, null }, Kind::Constant { value, .. })
                        if mantissa.offset == 0 && !primitive.is_float() =>
                    {
                        Some((*primitive, *null, i8::try_from(*value).ok()?))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether this composite is a month as CME writes it: year, month, day, week.
    pub fn is_month_year(&self) -> bool {
        let Kind::Composite { members } = self else { return false };
        let parts = [
            ("year", 0, Primitive::U16),
            ("month", 2, Primitive::U8),
            ("day", 3, Primitive::U8),
            ("week", 4, Primitive::U8),
        ];
        members.len() == parts.len()
            && members.iter().zip(parts).all(|(member, (name, offset, primitive))| {
                let kind = Kind::Scalar { primitive, null: Some(primitive.max()) };
                member.name == name && member.offset == offset && member.ty.kind == kind
            })
    }

    /// Whether it takes no bytes.
    pub fn is_constant(&self) -> bool {
        matches!(self, Kind::Constant { .. } | Kind::ConstantText { .. } | Kind::ConstantEnum { .. })
    }
}

impl NamedType {
    /// This type with the names that `version` has.
    fn at_version(self: &Arc<Self>, version: u16) -> Arc<Self> {
        let known = |names: &[EnumValue]| -> Vec<EnumValue> {
            names.iter().filter(|name| name.since <= version).cloned().collect()
        };
        let kind = match &self.kind {
            Kind::Enum { primitive, null, values } => {
                Kind::Enum { primitive: *primitive, null: *null, values: known(values) }
            }
            Kind::Set { primitive, choices } => Kind::Set { primitive: *primitive, choices: known(choices) },
            _ => return Arc::clone(self),
        };
        Arc::new(NamedType { name: self.name.clone(), kind })
    }
}

impl Body {
    /// The block length that `version` writes.
    pub fn block_length(&self, version: u16) -> usize {
        let known = self.block_lengths.iter().rev().find(|(since, _)| *since <= version);
        known.or(self.block_lengths.first()).map_or(0, |(_, len)| *len)
    }

    /// What `version` has of it.
    fn at_version(&self, version: u16) -> Body {
        Body {
            block_lengths: vec![(0, self.block_length(version))],
            fields: (self.fields.iter().filter(|field| field.since <= version))
                .map(|field| Field { ty: field.ty.at_version(version), ..field.clone() })
                .collect(),
            groups: (self.groups.iter().filter(|group| group.since <= version))
                .map(|group| Group { body: group.body.at_version(version), ..group.clone() })
                .collect(),
            data: self.data.iter().filter(|data| data.since <= version).cloned().collect(),
        }
    }
}

impl Schema {
    /// Reads a description in our own form from `sources`: (name for errors, text), one after the other.
    pub fn from_layout(sources: &[(&str, &str)]) -> Result<Schema, LayoutError> {
        text::parse(sources)
    }

    /// Reads a schema's XML in the form of the FIX SBE standard, such as CME's `templates_FixBinary.xml`.
    pub fn from_xml(xml: &str) -> Result<Schema, XmlError> {
        xml::parse(xml)
    }

    /// The template with this id.
    #[inline]
    pub fn template(&self, id: u16) -> Option<&Template> {
        self.templates.get(*self.index.get(&id)?)
    }

    /// The type of this name.
    pub fn named_type(&self, name: &str) -> Option<&Arc<NamedType>> {
        self.types.iter().find(|ty| ty.name == name)
    }

    /// What `version` had of this schema: its templates, fields, groups, names and block lengths.
    pub fn at_version(&self, version: u16) -> Schema {
        let mut schema = Schema {
            package: self.package.clone(),
            id: self.id,
            version,
            byte_order: self.byte_order,
            header: self.header.clone(),
            types: self.types.iter().map(|ty| ty.at_version(version)).collect(),
            ..Schema::default()
        };
        let live = |t: &&Template| t.since <= version && t.until.is_none_or(|until| version <= until);
        for template in self.templates.iter().filter(live) {
            schema.push(Template { body: template.body.at_version(version), ..template.clone() });
        }
        schema
    }

    /// Adds a template; `false` when there is one of its id.
    fn push(&mut self, template: Template) -> bool {
        if self.index.contains_key(&template.id) {
            return false;
        }
        let at = self.templates.partition_point(|t| t.id < template.id);
        self.templates.insert(at, template);
        self.index = self.templates.iter().enumerate().map(|(i, t)| (t.id, i)).collect();
        true
    }
}

/// The group header that a composite is, when it has `blockLength` and `numInGroup`.
fn dimension_of(ty: &NamedType) -> Option<Dimension> {
    let Kind::Composite { members } = &ty.kind else { return None };
    let part = |name: &str| {
        let member = members.iter().find(|member| member.name == name)?;
        unsigned(member)
    };
    Some(Dimension {
        name: ty.name.clone(),
        len: ty.kind.size(),
        block_length: part("blockLength")?,
        count: part("numInGroup")?,
    })
}

/// Where and how a member is written that is an unsigned number.
fn unsigned(member: &Member) -> Option<(usize, Primitive)> {
    match member.ty.kind {
        Kind::Scalar {
            primitive: p @ (Primitive::U8 | Primitive::U16 | Primitive::U32 | Primitive::U64),
            ..
        } => Some((member.offset, p)),
        _ => None,
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = XML_NAMES.iter().find(|(_, primitive)| primitive == self).map_or("", |(name, _)| *name);
        f.write_str(name)
    }
}
