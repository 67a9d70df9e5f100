//! A schema's XML, in the form of the FIX SBE standard: `messageSchema` with `types` and `message`s.
//!
//! What the standard does not have, or what names something that is not there, is refused with its place rather than read
//! wrongly.

use super::text::value;
use super::{
    Body, ByteOrder, Data, Dimension, EnumValue, Field, Group, Header, Kind, Member, NamedType, Primitive,
    Schema, Template, XML_NAMES, dimension_of, unsigned,
};
use barewire_text::{Quote, hint};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// A schema's XML that makes no sense or that we cannot follow, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct XmlError {
    /// From one.
    pub line: u32,
    /// From one.
    pub column: u32,
    /// What is wrong.
    pub reason: String,
}

/// Groups within groups; the standard's own examples have two.
const DEPTH_MAX: usize = 8;
/// Composites within composites, references included.
const REF_DEPTH_MAX: usize = 8;
/// Nodes of a document: CME's have five thousand.
const NODES_MAX: u32 = 4_000_000;
/// The longest block that a block length of 16 bits can say.
const BLOCK_MAX: usize = u16::MAX as usize;
/// The composite before every message, where the schema names no other.
const HEADER: &str = "messageHeader";

/// Reads a schema.
pub(super) fn parse(xml: &str) -> Result<Schema, XmlError> {
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(xml, options).map_err(|error| {
        let at = error.pos();
        XmlError { line: at.row, column: at.col, reason: format!("no well-formed XML: {error}") }
    })?;
    let reader = Reader { document: &document };
    reader.schema(document.root_element())
}

/// Types by name, and what each node that declares one says.
type Declared<'a, 'i> = HashMap<&'a str, Node<'a, 'i>>;

struct Reader<'a, 'i> {
    document: &'a Document<'i>,
}

impl<'a, 'i> Reader<'a, 'i> {
    fn fail<T>(&self, node: Node<'a, 'i>, reason: String) -> Result<T, XmlError> {
        let at = self.document.text_pos_at(node.range().start);
        Err(XmlError { line: at.row, column: at.col, reason })
    }

    fn schema(&self, root: Node<'a, 'i>) -> Result<Schema, XmlError> {
        if root.tag_name().name() != "messageSchema" {
            return self
                .fail(root, format!("`{}` where `messageSchema` is expected", root.tag_name().name()));
        }
        let byte_order = match root.attribute("byteOrder").unwrap_or("littleEndian") {
            "littleEndian" => ByteOrder::Little,
            "bigEndian" => ByteOrder::Big,
            order => {
                let near = nearest(order, ["littleEndian", "bigEndian"]);
                return self.fail(root, format!("byte order `{order}`{near}"));
            }
        };
        let mut schema = Schema {
            package: root.attribute("package").unwrap_or_default().to_owned(),
            id: self.number(root, "id")?,
            version: self.number(root, "version")?,
            byte_order,
            ..Schema::default()
        };
        let declarations = || {
            let types = root.children().filter(|node| node.tag_name().name() == "types");
            types.flat_map(|types| types.children()).filter(Node::is_element)
        };
        let mut declared = Declared::new();
        for node in declarations() {
            if declared.insert(self.name(node)?, node).is_some() {
                return self.fail(node, format!("a second type `{}`", self.name(node)?));
            }
        }
        let mut types = HashMap::new();
        for node in declarations() {
            let ty = Arc::new(self.declaration(node, &declared, 0)?);
            types.insert(ty.name.clone(), Arc::clone(&ty));
            self.keep(node, &mut schema.types, &ty)?;
        }
        for (name, primitive) in XML_NAMES {
            let kind = Kind::Scalar { primitive, null: None };
            let plain = || Arc::new(NamedType { name: name.to_owned(), kind });
            types.entry(name.to_owned()).or_insert_with(plain);
        }
        if let Some(header) = types.get(root.attribute("headerType").unwrap_or(HEADER)) {
            schema.header = self.header(root, header)?;
        }
        for node in root.children().filter(Node::is_element) {
            match node.tag_name().name() {
                "types" => {}
                "message" => {
                    let template = self.message(node, &types, &declared)?;
                    let id = template.id;
                    if !schema.push(template) {
                        return self.fail(node, format!("a second message {id}"));
                    }
                }
                other => {
                    return self
                        .fail(node, format!("element `{other}` where `types` or `message` may stand"));
                }
            }
        }
        Ok(schema)
    }

    fn name(&self, node: Node<'a, 'i>) -> Result<&'a str, XmlError> {
        self.attribute(node, "name")
    }

    fn attribute(&self, node: Node<'a, 'i>, attribute: &str) -> Result<&'a str, XmlError> {
        match node.attribute(attribute).filter(|text| !text.is_empty()) {
            Some(text) if text.contains(char::is_control) => {
                self.fail(node, format!("`{attribute}` with a control character: {text:?}"))
            }
            Some(text) => Ok(text),
            None => self.fail(node, format!("`{}` without `{attribute}`", node.tag_name().name())),
        }
    }

    fn number<T: FromStr>(&self, node: Node<'a, 'i>, attribute: &str) -> Result<T, XmlError> {
        let text = self.attribute(node, attribute)?;
        match text.trim().parse() {
            Ok(number) => Ok(number),
            Err(_) => self.fail(node, format!("`{text}` is not a number that `{attribute}` can be")),
        }
    }

    fn number_or<T: FromStr>(
        &self,
        node: Node<'a, 'i>,
        attribute: &str,
        otherwise: T,
    ) -> Result<T, XmlError> {
        if node.has_attribute(attribute) { self.number(node, attribute) } else { Ok(otherwise) }
    }

    fn since(&self, node: Node<'a, 'i>) -> Result<u16, XmlError> {
        self.number_or(node, "sinceVersion", 0)
    }

    /// Keeps `ty` behind what it declares inside it.
    fn keep(
        &self,
        node: Node<'a, 'i>,
        types: &mut Vec<Arc<NamedType>>,
        ty: &Arc<NamedType>,
    ) -> Result<(), XmlError> {
        if let Kind::Composite { members } = &ty.kind {
            for member in members.iter().filter(|member| !member.ty.name.is_empty()) {
                self.keep(node, types, &member.ty)?;
            }
        }
        match types.iter().find(|known| known.name == ty.name) {
            Some(known) if known == ty => {}
            Some(_) => return self.fail(node, format!("two types are called `{}`", ty.name)),
            None => types.push(Arc::clone(ty)),
        }
        Ok(())
    }

    fn declaration(
        &self,
        node: Node<'a, 'i>,
        declared: &Declared<'a, 'i>,
        depth: usize,
    ) -> Result<NamedType, XmlError> {
        let name = self.name(node)?.to_owned();
        let kind = match node.tag_name().name() {
            "type" => self.scalar(node, declared, false)?,
            "composite" => self.composite(node, declared, depth)?,
            "enum" => {
                let (primitive, null) = self.encoding(node, declared)?;
                Kind::Enum { primitive, null, values: self.names(node, "validValue", primitive)? }
            }
            "set" => {
                let (primitive, _) = self.encoding(node, declared)?;
                let choices = self.names(node, "choice", Primitive::U8)?;
                if choices.iter().any(|choice| choice.value >= 8 * primitive.size() as u64) {
                    return self.fail(node, format!("set `{name}` names a bit that {primitive} has not"));
                }
                Kind::Set { primitive, choices }
            }
            other => {
                return self.fail(node, format!("`{other}` (`{name}`) is no kind of type that we can read"));
            }
        };
        Ok(NamedType { name, kind })
    }

    fn primitive(&self, node: Node<'a, 'i>) -> Result<Primitive, XmlError> {
        let word = self.attribute(node, "primitiveType")?;
        match Primitive::from_xml_name(word) {
            Some(primitive) => Ok(primitive),
            None => {
                let name = node.attribute("name").unwrap_or_default();
                self.fail(
                    node,
                    format!(
                        "type `{name}`: primitive type `{word}` is not read{}",
                        nearest(word, XML_NAMES.map(|(known, _)| known))
                    ),
                )
            }
        }
    }

    /// A `type`. `member`: within a composite, where one without a length is the data of variable length.
    fn scalar(
        &self,
        node: Node<'a, 'i>,
        declared: &Declared<'a, 'i>,
        member: bool,
    ) -> Result<Kind, XmlError> {
        let (name, primitive) = (self.name(node)?, self.primitive(node)?);
        let len: usize = self.number_or(node, "length", 1)?;
        let presence = node.attribute("presence").unwrap_or("required");
        if (len == 0 && !member) || len > BLOCK_MAX {
            return self.fail(node, format!("type `{name}`: a length of {len}"));
        }
        match (presence, len) {
            ("required", 1) => Ok(Kind::Scalar { primitive, null: None }),
            ("optional", 1) => {
                let null = match node.attribute("nullValue") {
                    Some(word) => self.value(node, word, primitive)?,
                    None => primitive.default_null(),
                };
                Ok(Kind::Scalar { primitive, null: Some(null) })
            }
            ("constant", _) if node.has_attribute("valueRef") => self.constant(node, declared),
            ("constant", _) => match node.text().map(str::trim).filter(|text| !text.is_empty()) {
                Some(text) if primitive == Primitive::Char && (len > 1 || text.len() > 1) => {
                    Ok(Kind::ConstantText { text: text.to_owned() })
                }
                Some(text) => Ok(Kind::Constant { primitive, value: self.value(node, text, primitive)? }),
                None => self.fail(node, format!("constant `{name}` says no value of its own")),
            },
            ("required" | "optional", _) if primitive == Primitive::Char => Ok(Kind::Text { len }),
            ("required" | "optional", _) => Ok(Kind::Array { primitive, len }),
            (other, _) => self.fail(node, format!("type `{name}`: presence `{other}`")),
        }
    }

    /// The enum's value that `valueRef` names.
    fn constant(&self, node: Node<'a, 'i>, declared: &Declared<'a, 'i>) -> Result<Kind, XmlError> {
        let reference = self.attribute(node, "valueRef")?;
        let Some((of, name)) = reference.split_once('.') else {
            return self.fail(node, format!("`{reference}` is not of the form `Enum.Value`"));
        };
        let Some(ty) = declared.get(of).filter(|ty| ty.tag_name().name() == "enum") else {
            let near = nearest(of, declared.keys().copied());
            return self.fail(node, format!("no enum `{of}`{near}"));
        };
        let of = Arc::new(self.declaration(*ty, declared, 0)?);
        let Kind::Enum { values, .. } = &of.kind else { return self.fail(node, "no enum".to_owned()) };
        match values.iter().find(|value| value.name == name) {
            Some(value) => {
                let (name, value) = (name.to_owned(), value.value);
                Ok(Kind::ConstantEnum { of, name, value })
            }
            None => {
                let near = nearest(name, values.iter().map(|value| value.name.as_str()));
                self.fail(node, format!("enum `{}` has no value `{name}`{near}", of.name))
            }
        }
    }

    fn value(&self, node: Node<'a, 'i>, word: &str, primitive: Primitive) -> Result<i128, XmlError> {
        value(word, primitive).or_else(|reason| self.fail(node, reason))
    }

    fn composite(
        &self,
        node: Node<'a, 'i>,
        declared: &Declared<'a, 'i>,
        depth: usize,
    ) -> Result<Kind, XmlError> {
        if depth > REF_DEPTH_MAX {
            return self.fail(node, format!("composites within composites, more than {REF_DEPTH_MAX} deep"));
        }
        let mut members: Vec<Member> = Vec::new();
        let mut next = 0usize;
        for part in node.children().filter(Node::is_element) {
            let ty = match part.tag_name().name() {
                "type" => NamedType { name: String::new(), kind: self.scalar(part, declared, true)? },
                "ref" => {
                    let word = self.attribute(part, "type")?;
                    match declared.get(word) {
                        Some(ty) => self.declaration(*ty, declared, depth + 1)?,
                        None => {
                            let near = nearest(word, declared.keys().copied());
                            return self.fail(part, format!("no type `{word}`{near}"));
                        }
                    }
                }
                _ => self.declaration(part, declared, depth + 1)?,
            };
            let offset = self.offset(part, next)?;
            next = offset + ty.kind.size();
            if next > BLOCK_MAX {
                return self.fail(part, format!("a composite of {next} bytes"));
            }
            members.push(Member { name: self.name(part)?.to_owned(), offset, ty: Arc::new(ty) });
        }
        Ok(Kind::Composite { members })
    }

    /// The offset that `node` says, or `next`; never before `next`.
    fn offset(&self, node: Node<'a, 'i>, next: usize) -> Result<usize, XmlError> {
        let offset = self.number_or(node, "offset", next)?;
        if offset < next {
            return self
                .fail(node, format!("offset {offset} lies in what is before it, which ends at {next}"));
        }
        if offset > BLOCK_MAX {
            return self.fail(node, format!("offset {offset} is past the longest block"));
        }
        Ok(offset)
    }

    /// The type that an enum or a set is written as.
    fn encoding(
        &self,
        node: Node<'a, 'i>,
        declared: &Declared<'a, 'i>,
    ) -> Result<(Primitive, Option<i128>), XmlError> {
        let word = self.attribute(node, "encodingType")?;
        if let Some(ty) = declared.get(word).filter(|ty| ty.tag_name().name() == "type") {
            if let Kind::Scalar { primitive, null } = self.scalar(*ty, declared, false)? {
                return Ok((primitive, null));
            }
        } else if let Some(primitive) = Primitive::from_xml_name(word) {
            return Ok((primitive, None));
        }
        let name = self.name(node)?;
        let near = nearest(word, declared.keys().copied());
        self.fail(node, format!("`{name}` is encoded as `{word}`, which is no scalar type{near}"))
    }

    fn names(
        &self,
        node: Node<'a, 'i>,
        element: &str,
        primitive: Primitive,
    ) -> Result<Vec<EnumValue>, XmlError> {
        let since_all = self.since(node)?;
        let mut names = Vec::new();
        for part in node.children().filter(Node::is_element) {
            if part.tag_name().name() != element {
                let found = part.tag_name().name();
                return self.fail(part, format!("`{found}` where `{element}` is expected"));
            }
            let value = self.value(part, part.text().unwrap_or_default().trim(), primitive)?;
            let Ok(value) = u64::try_from(value) else {
                return self.fail(part, format!("a value of {value}, below zero"));
            };
            let since = self.since(part)?.max(since_all);
            names.push(EnumValue { name: self.name(part)?.to_owned(), value, since });
        }
        Ok(names)
    }

    fn header(&self, root: Node<'a, 'i>, header: &NamedType) -> Result<Header, XmlError> {
        let part = |name: &str| {
            let Kind::Composite { members } = &header.kind else {
                return self.fail(root, format!("message header `{}` is no composite", header.name));
            };
            match members.iter().find(|member| member.name == name).and_then(unsigned) {
                Some(place) => Ok(place),
                None => self.fail(root, format!("message header `{}` has no number `{name}`", header.name)),
            }
        };
        Ok(Header {
            len: header.kind.size(),
            block_length: part("blockLength")?,
            template_id: part("templateId")?,
            schema_id: part("schemaId")?,
            version: part("version")?,
        })
    }

    fn message(
        &self,
        node: Node<'a, 'i>,
        types: &HashMap<String, Arc<NamedType>>,
        declared: &Declared<'a, 'i>,
    ) -> Result<Template, XmlError> {
        Ok(Template {
            id: self.number(node, "id")?,
            name: self.name(node)?.to_owned(),
            message_type: match node.attribute("semanticType") {
                None | Some("") => String::new(),
                Some(_) => self.attribute(node, "semanticType")?.to_owned(),
            },
            since: self.since(node)?,
            until: None,
            body: self.body(node, types, declared, 0)?,
        })
    }

    fn body(
        &self,
        node: Node<'a, 'i>,
        types: &HashMap<String, Arc<NamedType>>,
        declared: &Declared<'a, 'i>,
        depth: usize,
    ) -> Result<Body, XmlError> {
        let mut body = Body::default();
        let mut next = 0usize;
        for part in node.children().filter(Node::is_element) {
            match part.tag_name().name() {
                "field" => {
                    let field = self.field(part, types, declared, next)?;
                    next = next.max(field.offset + field.ty.kind.size());
                    body.fields.push(field);
                }
                "group" if depth == DEPTH_MAX => {
                    return self.fail(part, format!("groups within groups, more than {DEPTH_MAX} deep"));
                }
                "group" => body.groups.push(Group {
                    name: self.name(part)?.to_owned(),
                    tag: self.number_or(part, "id", 0)?,
                    since: self.since(part)?,
                    dimension: self.dimension(part, types)?,
                    body: self.body(part, types, declared, depth + 1)?,
                }),
                "data" => body.data.push(self.data(part, types)?),
                other => {
                    let name = part.attribute("name").unwrap_or_default();
                    return self.fail(part, format!("`{other}` (`{name}`) is nothing that we can read"));
                }
            }
        }
        let len: usize = self.number_or(node, "blockLength", next)?;
        if len < next {
            return self.fail(node, format!("a block of {len} bytes, but its fields end at {next}"));
        }
        if len > BLOCK_MAX {
            return self.fail(node, format!("a block of {len} bytes"));
        }
        body.block_lengths.push((0, len));
        Ok(body)
    }

    fn field(
        &self,
        node: Node<'a, 'i>,
        types: &HashMap<String, Arc<NamedType>>,
        declared: &Declared<'a, 'i>,
        next: usize,
    ) -> Result<Field, XmlError> {
        let name = self.name(node)?;
        let mut ty = self.find(node, self.attribute(node, "type")?, types)?;
        if node.attribute("presence") == Some("constant") && node.has_attribute("valueRef") {
            let kind = self.constant(node, declared)?;
            ty = Arc::new(NamedType { name: ty.name.clone(), kind });
        }
        let constant = ty.kind.is_constant();
        if node.attribute("presence") == Some("constant") && !constant {
            return self.fail(node, format!("field `{name}` is a constant, but its type is none"));
        }
        Ok(Field {
            name: name.to_owned(),
            tag: self.number_or(node, "id", 0)?,
            offset: if constant { 0 } else { self.offset(node, next)? },
            since: self.since(node)?,
            ty: if node.attribute("presence") == Some("optional") { optional(ty) } else { ty },
        })
    }

    fn data(&self, node: Node<'a, 'i>, types: &HashMap<String, Arc<NamedType>>) -> Result<Data, XmlError> {
        let ty = self.find(node, self.attribute(node, "type")?, types)?;
        let length = match &ty.kind {
            Kind::Composite { members } if members.iter().any(|member| member.name == "varData") => {
                members.iter().find(|member| member.name == "length").and_then(unsigned)
            }
            _ => None,
        };
        let Some(length) = length else {
            return self.fail(node, format!("`{}` has no number `length` before `varData`", ty.name));
        };
        Ok(Data {
            name: self.name(node)?.to_owned(),
            tag: self.number_or(node, "id", 0)?,
            since: self.since(node)?,
            header_len: ty.kind.size(),
            length,
        })
    }

    fn find(
        &self,
        node: Node<'a, 'i>,
        name: &str,
        types: &HashMap<String, Arc<NamedType>>,
    ) -> Result<Arc<NamedType>, XmlError> {
        match types.get(name) {
            Some(ty) => Ok(Arc::clone(ty)),
            None => {
                let near = nearest(name, types.keys().map(String::as_str));
                self.fail(node, format!("no type `{name}`{near}"))
            }
        }
    }

    fn dimension(
        &self,
        node: Node<'a, 'i>,
        types: &HashMap<String, Arc<NamedType>>,
    ) -> Result<Dimension, XmlError> {
        let ty = self.find(node, node.attribute("dimensionType").unwrap_or("groupSizeEncoding"), types)?;
        match dimension_of(&ty) {
            Some(dimension) => Ok(dimension),
            None => self.fail(node, format!("`{}` is no header of a group", ty.name)),
        }
    }
}

/// A field that may be missing although its type says no null value: the standard's null values.
fn optional(ty: Arc<NamedType>) -> Arc<NamedType> {
    let kind = match &ty.kind {
        Kind::Scalar { primitive, null: None } => {
            Kind::Scalar { primitive: *primitive, null: Some(primitive.default_null()) }
        }
        Kind::Enum { primitive, null: None, values } => {
            let null = Some(primitive.default_null());
            Kind::Enum { primitive: *primitive, null, values: values.clone() }
        }
        _ => return ty,
    };
    Arc::new(NamedType { name: ty.name.clone(), kind })
}

/// `; did you mean …`, where one of `known` is close.
fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> String {
    hint("; ", barewire_text::nearest(word, known), Quote::Back)
}
