//! How numbers of the program become values of P4 types (`P4Data`) and back: registers and digests carry them.

use super::message::P4Info;
use super::types::{DataTypeKind, P4DataTypeSpec, SdnType};

/// How a value of so many bits is written as `P4Data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ValueShape {
    Bits,
    Signed,
    Bool,
    EnumValue,
}

/// How several numbers become one value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DataShape {
    /// One number.
    Scalar(ValueShape, u32),
    Struct(Vec<DataShape>),
    Tuple(Vec<DataShape>),
    /// A header's fields; it is valid.
    Header(usize),
}

impl DataShape {
    /// How many numbers it takes.
    pub fn items(&self) -> usize {
        match self {
            DataShape::Scalar(..) => 1,
            DataShape::Struct(members) | DataShape::Tuple(members) => {
                members.iter().map(DataShape::items).sum()
            }
            DataShape::Header(fields) => *fields,
        }
    }

    /// The bits of each number, where all are known.
    pub fn widths(&self) -> Option<Vec<u32>> {
        match self {
            DataShape::Scalar(_, width) => Some(vec![*width]),
            DataShape::Struct(members) | DataShape::Tuple(members) => {
                let widths: Option<Vec<Vec<u32>>> = members.iter().map(DataShape::widths).collect();
                Some(widths?.concat())
            }
            DataShape::Header(_) => None,
        }
    }
}

/// The shape of a type; none when it has no fixed number of numbers.
pub(super) fn shape_of(info: &P4Info, spec: &P4DataTypeSpec, depth: usize) -> Option<DataShape> {
    use super::types::{BitstringKind, NewTypeRepresentation};
    if depth > 32 {
        return None;
    }
    let types = info.type_info.as_ref();
    Some(match spec.type_spec.as_ref()? {
        DataTypeKind::Bitstring(bits) => match bits.type_spec.as_ref()? {
            BitstringKind::Bit(bit) => DataShape::Scalar(ValueShape::Bits, u32::try_from(bit.bitwidth).ok()?),
            BitstringKind::Int(int) => {
                DataShape::Scalar(ValueShape::Signed, u32::try_from(int.bitwidth).ok()?)
            }
            BitstringKind::Varbit(_) => return None,
        },
        DataTypeKind::Bool(_) => DataShape::Scalar(ValueShape::Bool, 1),
        DataTypeKind::SerializableEnum(name) => {
            let spec = types?.serializable_enums.get(&name.name)?;
            DataShape::Scalar(ValueShape::EnumValue, u32::try_from(spec.underlying_type?.bitwidth).ok()?)
        }
        DataTypeKind::NewType(name) => match types?.new_types.get(&name.name)?.representation.as_ref()? {
            NewTypeRepresentation::OriginalType(original) => shape_of(info, original, depth + 1)?,
            NewTypeRepresentation::TranslatedType(translation) => match translation.sdn_type {
                Some(SdnType::SdnBitwidth(bits)) => {
                    DataShape::Scalar(ValueShape::Bits, u32::try_from(bits).ok()?)
                }
                _ => return None,
            },
        },
        DataTypeKind::Struct(name) => {
            let members = &types?.structs.get(&name.name)?.members;
            DataShape::Struct(
                members
                    .iter()
                    .map(|m| shape_of(info, m.type_spec.as_ref()?, depth + 1))
                    .collect::<Option<_>>()?,
            )
        }
        DataTypeKind::Tuple(tuple) => DataShape::Tuple(
            tuple.members.iter().map(|member| shape_of(info, member, depth + 1)).collect::<Option<_>>()?,
        ),
        DataTypeKind::Header(name) => DataShape::Header(types?.headers.get(&name.name)?.members.len()),
        _ => return None,
    })
}
