//! Rust from a schema: one module of types, a module for each template, and the enum over all of them.
//!
//! What is written calls the crate's `rt` for everything that is not a name, an offset or a type. Accessors read from an array of
//! the bytes that every version has (`block`), where the compiler needs no check, or from the acting block (`whole`), where
//! fields that came later may be.

mod block;
mod encoder;
mod message;
mod types;

use crate::layout::{ByteOrder, Kind, Primitive, Schema};
use crate::names::{Scope, pascal, screaming, snake};
use std::collections::HashMap;
use std::fmt::Write;
use types::Types;

/// Before what is written: nobody uses all of a schema, and lints are for what people write.
const ALLOW: &str = "#[allow(clippy::all, dead_code, unused_imports, unused_variables, rustdoc::all)]\n";

/// What all of it is written with.
struct Context<'s> {
    schema: &'s Schema,
    runtime: &'s str,
    size_prefix: bool,
    types: Types<'s>,
}

impl Context<'_> {
    /// `load` or `load_be`.
    fn word(&self, method: &str) -> String {
        let big = self.schema.byte_order == ByteOrder::Big;
        format!("{method}{}", if big { "_be" } else { "" })
    }

    /// A number somewhere in a header, as `rt::Num`.
    fn num(&self, (at, primitive): (usize, Primitive)) -> String {
        let big = self.schema.byte_order == ByteOrder::Big;
        format!("rt::Num {{ at: {at}, len: {}, big: {big} }}", primitive.size())
    }
}

/// The Rust type of a number.
fn rust(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Char | Primitive::U8 => "u8",
        Primitive::I8 => "i8",
        Primitive::I16 => "i16",
        Primitive::I32 => "i32",
        Primitive::I64 => "i64",
        Primitive::U16 => "u16",
        Primitive::U32 => "u32",
        Primitive::U64 => "u64",
        Primitive::F32 => "f32",
        Primitive::F64 => "f64",
    }
}

fn literal(primitive: Primitive, value: i128) -> String {
    match u8::try_from(value) {
        Ok(byte)
            if primitive == Primitive::Char && byte.is_ascii_graphic() && !matches!(byte, b'\'' | b'\\') =>
        {
            format!("b'{}'", byte as char)
        }
        _ if primitive.is_float() => format!("{}::from_bits({value})", rust(primitive)),
        _ if value == primitive.max() && value > 0 && primitive != Primitive::Char => {
            format!("{}::MAX", rust(primitive))
        }
        _ if value == primitive.min() && value < 0 => format!("{}::MIN", rust(primitive)),
        _ => value.to_string(),
    }
}

fn since_note(since: u16) -> String {
    if since == 0 { String::new() } else { format!("; since version {since}") }
}

/// The whole of a schema's module.
pub(crate) fn module(schema: &Schema, runtime: &str, size_prefix: bool) -> String {
    let mut scope = Scope::default();
    let mut modules = Scope::default();
    for taken in ["AnyMessage", "Message"] {
        scope.unique(taken.to_owned());
    }
    modules.unique("template".to_owned());
    let names: Vec<(String, String)> = schema
        .templates
        .iter()
        .map(|t| {
            let name = scope.unique(pascal(&t.name));
            scope.unique(format!("{name}Encoder"));
            (modules.unique(snake(&t.name)), name)
        })
        .collect();
    let context = Context { schema, runtime, size_prefix, types: Types::new(schema, &mut scope) };
    let mut out = String::new();
    heads(&mut out, &context, &names);
    any(&mut out, &context, &names);
    context.types.write(&mut out, &context);
    let mut shared = HashMap::new();
    for (template, (file, name)) in schema.templates.iter().zip(&names) {
        let _ = writeln!(out, "{ALLOW}pub use {file}::{{{name}, {name}Encoder}};\n");
        message::write(&mut out, &context, template, file, name, &mut shared);
    }
    out
}

/// Ids, the header of messages, constants.
fn heads(out: &mut String, context: &Context<'_>, names: &[(String, String)]) {
    let Context { schema, runtime, .. } = context;
    let _ = writeln!(out, "/// The schema's id.\n{ALLOW}pub const SCHEMA_ID: u16 = {};", schema.id);
    let _ = writeln!(out, "/// The newest version of the schema that is known here.");
    let _ = writeln!(out, "{ALLOW}pub const VERSION: u16 = {};\n", schema.version);
    let _ = writeln!(out, "/// Template ids by name.\n{ALLOW}pub mod template {{");
    let mut constants = Scope::default();
    for template in &schema.templates {
        let constant = constants.unique(screaming(&template.name));
        let _ = writeln!(out, "/// `{}`.\npub const {constant}: u16 = {};", template.name, template.id);
    }
    out.push_str("}\n\n");
    let header = &schema.header;
    let part = |(at, primitive): (usize, Primitive)| {
        let load = context.word("load");
        let value = format!("<{} as {runtime}::rt::Word>::{load}(head, {at})", rust(primitive));
        match primitive {
            Primitive::U16 => value,
            Primitive::U8 => format!("u16::from({value})"),
            _ => format!("u16::try_from({value}).map_err(|_| {runtime}::FrameError::HeaderTooWide)?"),
        }
    };
    let _ = writeln!(
        out,
        "/// The message at the start of `bytes`, which begin with the message header. What follows the message is taken for a\n/// part of it, and is its view's `trailing`.\n///\n/// # Errors\n/// [`FrameError`]({runtime}::FrameError) where there is no whole header.\n{ALLOW}#[inline]\npub fn message(bytes: &[u8]) -> Result<{runtime}::Message<'_>, {runtime}::FrameError> {{\nlet Some((head, body)) = bytes.split_first_chunk::<{}>() else {{\nreturn Err({runtime}::FrameError::NoMessageHeader {{ at: 0, left: bytes.len() }});\n}};\nOk({runtime}::Message {{\nblock_length: {},\ntemplate_id: {},\nschema_id: {},\nversion: {},\nat: 0,\nbody,\n}})\n}}\n",
        header.len,
        part(header.block_length),
        part(header.template_id),
        part(header.schema_id),
        part(header.version)
    );
    let size = if context.size_prefix { 2 } else { 0 };
    let shift = |(at, primitive): (usize, Primitive)| context.num((at + size, primitive));
    let _ = writeln!(
        out,
        "{ALLOW}static HEADER: {runtime}::rt::HeaderLayout = {{ use {runtime}::rt; rt::HeaderLayout {{\nlen: {},\nsized: {},\nblock_length: {},\ntemplate_id: {},\nschema_id: {},\nversion: {},\nschema: {},\n}} }};\n",
        header.len + size,
        context.size_prefix,
        shift(header.block_length),
        shift(header.template_id),
        shift(header.schema_id),
        shift(header.version),
        schema.id
    );
    let _ = names;
}

/// The enum over all templates.
fn any(out: &mut String, context: &Context<'_>, names: &[(String, String)]) {
    let (schema, runtime) = (context.schema, context.runtime);
    let each = |line: &dyn Fn(u16, &str) -> String| -> String {
        schema.templates.iter().zip(names).map(|(t, (_, name))| line(t.id, name) + "\n").collect()
    };
    let known = format!("{runtime}::MessageView::");
    let _ = writeln!(
        out,
        "/// The typed view of a message of any template.\n#[derive(Clone, Copy, Debug)]\n{ALLOW}#[non_exhaustive]\npub enum AnyMessage<'a> {{\n{}}}\n",
        each(&|id, name| format!("/// Template {id}.\n{name}({name}<'a>),"))
    );
    let _ = writeln!(
        out,
        "{ALLOW}impl<'a> AnyMessage<'a> {{
/// The view of `message`. Another schema's messages and unknown templates have errors of their own.
pub fn decode(message: &{runtime}::Message<'a>) -> Result<Self, {runtime}::DecodeError> {{
if message.schema_id != SCHEMA_ID {{
return Err({runtime}::DecodeError::ForeignSchema {{ schema_id: message.schema_id }});
}}
match message.template_id {{
{}template_id => Err({runtime}::DecodeError::UnknownTemplate {{ template_id }}),
}}
}}

/// The template's id.
pub fn template_id(&self) -> u16 {{
match *self {{
{}}}
}}

/// The template's name.
pub fn name(&self) -> &'static str {{
match *self {{
{}}}
}}

/// The version that the message was written by.
pub fn version(&self) -> u16 {{
match self {{
{}}}
}}

/// Bytes behind the last part that this version knows.
pub fn trailing(&self) -> &'a [u8] {{
match self {{
{}}}
}}

/// Writes the same message again; see [`MessageView::encode`]({runtime}::MessageView::encode).
pub fn encode(&self, buf: &mut [u8]) -> Result<usize, {runtime}::EncodeError> {{
match self {{
{}}}
}}
}}
",
        each(&|id, name| format!("{id} => {known}decode(message).map(AnyMessage::{name}),")),
        each(&|id, name| format!("AnyMessage::{name}(_) => {id},")),
        each(&|_, name| format!(
            "AnyMessage::{name}(_) => <{name}<'_> as {runtime}::MessageView<'_>>::NAME,"
        )),
        each(&|_, name| format!("AnyMessage::{name}(view) => {known}version(view),")),
        each(&|_, name| format!("AnyMessage::{name}(view) => {known}trailing(view),")),
        each(&|_, name| format!("AnyMessage::{name}(view) => {known}encode(view, buf),")),
    );
}

/// Whether a kind has a Rust type of its own, by its name.
fn has_type(kind: &Kind) -> bool {
    matches!(kind, Kind::Enum { .. } | Kind::Set { .. } | Kind::Composite { .. })
}
