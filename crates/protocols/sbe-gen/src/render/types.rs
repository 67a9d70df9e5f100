//! Enums, sets, decimals, composites, and the headers of groups and data.

use super::block::{Block, getters};
use super::encoder::setters;
use super::{ALLOW, Context, has_type, literal, rust};
use crate::layout::{Body, ByteOrder, Kind, Member, NamedType, Primitive, Schema};
use crate::names::{Scope, pascal, screaming, snake};
use std::collections::HashMap;
use std::fmt::Write;

/// What a field's type is in Rust.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ty {
    /// A number, with its null value.
    Number(Primitive, Option<i128>),
    /// A transparent number with `NULL`; whether accessors answer `Option`.
    Word { path: String, repr: Primitive, nullable: bool },
    /// Characters.
    Text(usize),
    /// Numbers.
    Array(Primitive, usize),
    /// A month as CME writes it.
    Month,
    /// A view of so many bytes.
    View(String, usize),
    /// Takes no bytes: Rust type and value.
    Constant(String, String),
}

/// Headers of groups (true) and of data: length, then the places of block length and count, or of the length.
type HeaderKey = (bool, usize, (usize, Primitive), Option<(usize, Primitive)>);

/// The types of a schema, with their names in Rust.
pub(super) struct Types<'s> {
    named: Vec<(&'s NamedType, String)>,
    headers: Vec<(HeaderKey, String)>,
    index: HashMap<&'s str, usize>,
    little: bool,
}

/// The decimal types that the runtime has.
fn built_in(mantissa: Primitive, null: Option<i128>, exponent: i8) -> Option<&'static str> {
    let name = match (mantissa, exponent) {
        (Primitive::I64, -9) => "Price9",
        (Primitive::I64, -7) => "Price7",
        (Primitive::I32, -4) => "DecimalQty",
        _ => return None,
    };
    null.is_none_or(|null| null == mantissa.max()).then_some(name)
}

/// A decimal that is written as a transparent number: mantissa, null value, exponent.
fn decimal(kind: &Kind) -> Option<(Primitive, Option<i128>, i8)> {
    let (mantissa, null, exponent) = kind.as_decimal()?;
    (!matches!(mantissa, Primitive::Char | Primitive::U64)).then_some((mantissa, null, exponent))
}

impl<'s> Types<'s> {
    pub(super) fn new(schema: &'s Schema, scope: &mut Scope) -> Self {
        let little = schema.byte_order == ByteOrder::Little;
        let mut types = Types { named: Vec::new(), headers: Vec::new(), index: HashMap::new(), little };
        for ty in schema.types.iter().filter(|ty| has_type(&ty.kind)) {
            let name = pascal(&ty.name);
            let needs_type = match &ty.kind {
                Kind::Composite { members } => {
                    // Headers are read by those who need them.
                    let header =
                        members.iter().any(|m| ["blockLength", "varData"].contains(&m.name.as_str()));
                    let known = decimal(&ty.kind).and_then(|(m, n, e)| built_in(m, n, e)).is_some();
                    !(header || known || types.is_month(&ty.kind))
                }
                _ => true,
            };
            if needs_type {
                types.index.insert(&ty.name, types.named.len());
                types.named.push((ty, scope.unique(name.clone())));
                scope.unique(format!("{name}Encoder"));
            }
        }
        for template in &schema.templates {
            types.collect(&template.body, scope);
        }
        types
    }

    fn collect(&mut self, body: &'s Body, scope: &mut Scope) {
        for group in &body.groups {
            let d = &group.dimension;
            self.add((true, d.len, d.block_length, Some(d.count)), &d.name, scope);
            self.collect(&group.body, scope);
        }
        for data in &body.data {
            self.add((false, data.header_len, data.length, None), "DataHeader", scope);
        }
    }

    fn add(&mut self, key: HeaderKey, name: &str, scope: &mut Scope) {
        if !self.headers.iter().any(|(known, _)| *known == key) {
            self.headers.push((key, scope.unique(pascal(name))));
        }
    }

    /// The type of the header of a group or of data.
    pub(super) fn header(&self, key: HeaderKey) -> &str {
        self.headers.iter().find(|(known, _)| *known == key).map_or("", |(_, name)| name)
    }

    /// A month is one of ours only where it lies as CME writes it.
    fn is_month(&self, kind: &Kind) -> bool {
        self.little && kind.is_month_year()
    }

    fn path(&self, name: &str, within: &str) -> String {
        let known = self.index.get(name).map(|&i| &self.named[i].1);
        format!("{within}{}", known.cloned().unwrap_or_else(|| pascal(name)))
    }

    /// What `ty` is in Rust; `within` leads from where it is named to the schema's module.
    pub(super) fn of(&self, ty: &NamedType, within: &str) -> Ty {
        let path = || self.path(&ty.name, within);
        match &ty.kind {
            Kind::Scalar { primitive, null } => Ty::Number(*primitive, *null),
            Kind::Enum { primitive, .. } | Kind::Set { primitive, .. } => {
                Ty::Word { path: path(), repr: *primitive, nullable: false }
            }
            Kind::Text { len } => Ty::Text(*len),
            Kind::Array { primitive, len } => Ty::Array(*primitive, *len),
            Kind::Constant { primitive, value } => {
                Ty::Constant(rust(*primitive).to_owned(), literal(*primitive, *value))
            }
            Kind::ConstantText { text } => Ty::Constant("&'static str".to_owned(), format!("{text:?}")),
            Kind::ConstantEnum { of, name, .. } => {
                let path = self.path(&of.name, within);
                Ty::Constant(path.clone(), format!("{path}::{}", screaming(name)))
            }
            kind @ Kind::Composite { .. } => match decimal(kind) {
                Some((mantissa, null, exponent)) => {
                    let known = built_in(mantissa, null, exponent).map(|name| format!("rt::{name}"));
                    Ty::Word { path: known.unwrap_or_else(path), repr: mantissa, nullable: null.is_some() }
                }
                None if self.is_month(kind) => Ty::Month,
                None => Ty::View(path(), kind.size()),
            },
        }
    }

    pub(super) fn write(&self, out: &mut String, context: &Context<'_>) {
        for (ty, name) in &self.named {
            self.one(out, context, ty, name);
        }
        for (key, name) in &self.headers {
            header(out, context, key, name);
        }
    }

    fn one(&self, out: &mut String, context: &Context<'_>, ty: &NamedType, name: &str) {
        let runtime = context.runtime;
        match &ty.kind {
            Kind::Enum { primitive, null, values } => {
                let null = literal(*primitive, null.unwrap_or(primitive.default_null()));
                let repr = rust(*primitive);
                let _ =
                    writeln!(out, "{runtime}::__values!(\"`{}`.\", {name}({repr}), null {null}, {{", ty.name);
                let mut scope = Scope::default();
                for value in values {
                    let constant = scope.unique(screaming(&value.name));
                    let number = literal(*primitive, i128::from(value.value));
                    let _ =
                        writeln!(out, "    {constant} = {number}, {:?} since {},", value.name, value.since);
                }
                out.push_str("});\n\n");
            }
            Kind::Set { primitive, choices } => {
                let repr = rust(*primitive);
                let _ = writeln!(out, "{runtime}::__bits!(\"`{}`.\", {name}({repr}), {{", ty.name);
                let mut scope = Scope::default();
                for choice in choices {
                    let constant = scope.unique(screaming(&choice.name));
                    let test = scope.unique(snake(&choice.name));
                    let (bit, name, since) = (choice.value, &choice.name, choice.since);
                    let _ = writeln!(out, "    {constant}, {test} = {bit} {name:?} since {since},");
                }
                out.push_str("});\n\n");
            }
            kind => match decimal(kind) {
                Some((mantissa, null, exponent)) => {
                    let null = literal(mantissa, null.unwrap_or(mantissa.default_null()));
                    let _ = writeln!(
                        out,
                        "{runtime}::__decimal! {{\n/// `{}`: a number in units of 10^{exponent}.\n{name}, {}, {exponent}, null {null}\n}}\n",
                        ty.name,
                        rust(mantissa)
                    );
                }
                None => self.composite(out, context, ty, name),
            },
        }
    }

    fn composite(&self, out: &mut String, context: &Context<'_>, ty: &NamedType, name: &str) {
        let (Kind::Composite { members }, runtime, len) = (&ty.kind, context.runtime, ty.kind.size()) else {
            return;
        };
        let module = format!("{}_parts", snake(&ty.name));
        let body = body_of(members);
        let block = Block::composite(&body);
        let _ = writeln!(out, "{ALLOW}pub use {module}::{{{name}, {name}Encoder}};\n");
        let _ =
            writeln!(out, "/// The composite `{}`.\n{ALLOW}mod {module} {{\nuse {runtime}::rt;\n", ty.name);
        let _ = writeln!(
            out,
            "/// A `{}` in place.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub struct {name}<'a> {{\npub(super) block: &'a [u8; {len}],\n}}\n",
            ty.name
        );
        let _ = writeln!(out, "impl<'a> {name}<'a> {{");
        let _ = writeln!(
            out,
            "/// The bytes as they lie there.\n#[inline]\npub fn bytes(&self) -> &'a [u8; {len}] {{\nself.block\n}}\n"
        );
        getters(out, context, &block);
        out.push_str("}\n\n");
        let _ = writeln!(
            out,
            "/// Writes a `{}`.\n#[derive(Debug)]\npub struct {name}Encoder<'e>(pub(super) rt::EntryWriter<'e>);\n",
            ty.name
        );
        let _ = writeln!(
            out,
            "impl<'e> {name}Encoder<'e> {{\n/// Copies one that was read.\npub fn copy(&mut self, from: {name}<'_>) -> &mut Self {{\nrt::put(self.0.block(), 0, *from.block);\nself\n}}\n"
        );
        setters(out, context, &block, "'_");
        out.push_str("}\n}\n\n");
    }
}

/// A composite's members as the fields of a block.
pub(super) fn body_of(members: &[Member]) -> Body {
    let fields = members.iter().map(|member| crate::layout::Field {
        name: member.name.clone(),
        tag: 0,
        offset: member.offset,
        since: 0,
        ty: std::sync::Arc::clone(&member.ty),
    });
    Body { fields: fields.collect(), ..Body::default() }
}

/// How the header of a group or of data is read.
fn header(out: &mut String, context: &Context<'_>, key: &HeaderKey, name: &str) {
    let (_, len, first, count) = key;
    let runtime = context.runtime;
    let load = |(at, primitive): (usize, Primitive)| {
        let load = context.word("load");
        format!("<{} as {runtime}::rt::Word>::{load}(head, {at}) as usize", rust(primitive))
    };
    let head = format!(
        "#[doc(hidden)]\n#[derive(Clone, Copy, Debug)]\npub struct {name};\n\n{ALLOW}impl {runtime}::rt::"
    );
    let _ = match count {
        Some(count) => {
            let bits = 8 * (first.1.size() + count.1.size());
            writeln!(
                out,
                "/// The header of a group.\n{head}Dimension<{len}> for {name} {{\nconst NARROW: bool = {};\n\n#[inline(always)]\nfn sizes(head: &[u8; {len}]) -> (usize, usize) {{\n({}, {})\n}}\n}}\n",
                bits < 64,
                load(*first),
                load(*count)
            )
        }
        None => writeln!(
            out,
            "/// The header of data of variable length.\n{head}DataHeader for {name} {{\nconst LEN: usize = {len};\n\n#[inline(always)]\nfn split(bytes: &[u8]) -> Option<(usize, &[u8])> {{\nlet (head, rest) = bytes.split_first_chunk::<{len}>()?;\nSome(({}, rest))\n}}\n}}\n",
            load(*first)
        ),
    };
}
