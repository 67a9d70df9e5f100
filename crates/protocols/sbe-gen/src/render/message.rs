//! A template's module: its view, its entries, their encoders.

use super::block::{Block, getters};
use super::encoder::{clear, copy_fields, lengths, setters};
use super::{ALLOW, Context, since_note};
use crate::layout::{Body, Data, Group, Template};
use crate::names::{self, Scope};
use std::collections::HashMap;
use std::fmt::Write;

/// A block with what follows it, named.
struct Node<'a> {
    block: Block<'a>,
    groups: Vec<Child<'a>>,
    /// Data with their accessors.
    data: Vec<(&'a Data, String)>,
}

struct Child<'a> {
    group: &'a Group,
    accessor: String,
    /// The entry's type.
    entry: String,
    node: Node<'a>,
}

impl<'a> Node<'a> {
    fn new(body: &'a Body, base: u16, entries: &mut Scope) -> Self {
        let mut scope = Scope::default();
        let block = Block::new(body, base, &mut scope);
        let mut groups = Vec::new();
        for group in &body.groups {
            let entry = entries.unique(names::entry(&group.name));
            entries.unique(format!("{entry}Encoder"));
            entries.unique(format!("{entry}GroupEncoder"));
            let node = Node::new(&group.body, base.max(group.since), entries);
            groups.push(Child { group, accessor: scope.unique(names::group(&group.name)), entry, node });
        }
        let data = body.data.iter().map(|data| (data, scope.unique(names::snake(&data.name)))).collect();
        Node { block, groups, data }
    }

    /// Whether nothing follows the block.
    fn is_flat(&self) -> bool {
        self.groups.is_empty() && self.data.is_empty()
    }

    /// Whether an encoder has anything to set.
    fn is_bare(&self) -> bool {
        self.is_flat() && self.block.settable().next().is_none()
    }

    /// The fields that a view of it keeps, as declarations.
    fn declarations(&self, out: &mut String, always_version: bool) {
        if self.block.has_base() {
            let _ = writeln!(out, "block: &'a [u8; {}],", self.block.min);
        }
        if self.block.has_late() {
            out.push_str("whole: &'a [u8],\n");
        }
        if self.block.has_late() || always_version {
            out.push_str("version: u16,\n");
        }
        for Child { accessor, entry, node, .. } in &self.groups {
            let _ = writeln!(out, "{accessor}: {}<'a, {entry}<'a>>,", group_type(node));
        }
        for (_, accessor) in &self.data {
            let _ = writeln!(out, "{accessor}: &'a [u8],");
        }
    }

    /// The lines that read what follows the block, from `parts`.
    fn read_parts(&self, out: &mut String, context: &Context<'_>) {
        for Child { group, accessor, node, .. } in &self.groups {
            let d = &group.dimension;
            let header = context.types.header((true, d.len, d.block_length, Some(d.count)));
            let method = if node.is_flat() { "group" } else { "nested" };
            let late = group.since > self.block.base;
            let (suffix, since) =
                if late { ("_since", group.since.to_string()) } else { ("", String::new()) };
            let _ = writeln!(
                out,
                "let {accessor} = parts.{method}{suffix}::<{}, super::{header}, _>({since})?;",
                d.len
            );
        }
        for (data, accessor) in &self.data {
            let header = context.types.header((false, data.header_len, data.length, None));
            let since = if data.since > self.block.base { data.since } else { 0 };
            let _ = writeln!(out, "let {accessor} = parts.data::<super::{header}>({since})?;");
        }
    }

    /// The names of what a view keeps, for its construction.
    fn kept(&self) -> Vec<String> {
        let mut kept = Vec::new();
        kept.extend(self.block.has_base().then(|| "block".to_owned()));
        kept.extend(self.block.has_late().then(|| "whole".to_owned()));
        kept.extend(self.groups.iter().map(|child| child.accessor.clone()));
        kept.extend(self.data.iter().map(|(_, accessor)| accessor.clone()));
        kept
    }

    /// Accessors of what follows the block.
    fn part_getters(&self, out: &mut String) {
        for Child { group, accessor, entry, node } in &self.groups {
            let _ = writeln!(
                out,
                "/// `{}`, tag {}{}.\n#[inline]\npub fn {accessor}(&self) -> {}<'a, {entry}<'a>> {{\nself.{accessor}\n}}\n",
                group.name,
                group.tag,
                since_note(group.since),
                group_type(node)
            );
        }
        for (data, accessor) in &self.data {
            let _ = writeln!(
                out,
                "/// `{}`, tag {}{}.\n#[inline]\npub fn {accessor}(&self) -> &'a [u8] {{\nself.{accessor}\n}}\n",
                data.name,
                data.tag,
                since_note(data.since)
            );
        }
    }

    /// What begins groups and writes data; `w` is the writer's own lifetime.
    fn part_setters(&self, out: &mut String, w: &str) {
        for (index, Child { group, accessor, entry, .. }) in self.groups.iter().enumerate() {
            let _ = writeln!(
                out,
                "/// Begins `{}`; what is left out before it is empty.\n///\n/// # Errors\n/// The buffer is full, or a later part was begun.\npub fn {accessor}(&mut self) -> Result<{entry}GroupEncoder<'_, '{w}>, rt::EncodeError> {{\nOk({entry}GroupEncoder(self.0.group({index})?))\n}}\n",
                group.name
            );
        }
        for (i, (data, accessor)) in self.data.iter().enumerate() {
            let index = self.groups.len() + i;
            let _ = writeln!(
                out,
                "/// Writes `{}`; what is left out before it is empty.\n///\n/// # Errors\n/// The buffer is full, the data are longer than their length can say, or a later part was begun.\npub fn {accessor}(&mut self, bytes: &[u8]) -> Result<&mut Self, rt::EncodeError> {{\nself.0.data({index}, bytes)?;\nOk(self)\n}}\n",
                data.name
            );
        }
    }

    /// The lines that copy all of it from a view to an encoder.
    fn copy(&self, out: &mut String, context: &Context<'_>, to: &str, from: &str, depth: usize) {
        copy_fields(out, context, &self.block, to, from);
        for Child { accessor, node, .. } in &self.groups {
            let (group, entry, of) =
                (format!("group{depth}"), format!("entry{depth}"), format!("from{depth}"));
            let _ =
                writeln!(out, "if !{from}.{accessor}.is_empty() {{\nlet mut {group} = {to}.{accessor}()?;");
            if node.is_bare() {
                let _ = writeln!(out, "for _ in {from}.{accessor} {{\n{group}.push()?;\n}}\n}}");
            } else {
                let _ = writeln!(out, "for {of} in {from}.{accessor} {{\nlet mut {entry} = {group}.push()?;");
                node.copy(out, context, &entry, &of, depth + 1);
                out.push_str("}\n}\n");
            }
        }
        for (_, accessor) in &self.data {
            let _ = writeln!(
                out,
                "if !{from}.{accessor}.is_empty() {{\n{to}.{accessor}({from}.{accessor})?;\n}}"
            );
        }
    }

    /// What follows the block, as the encoder knows it.
    fn layouts(&self, context: &Context<'_>) -> String {
        let mut out = String::from("&[\n");
        let late = |since: u16| if since > self.block.base { since } else { 0 };
        for Child { group, node, .. } in &self.groups {
            let d = &group.dimension;
            let _ = writeln!(
                out,
                "rt::PartLayout::Group(rt::GroupLayout {{\nname: {:?},\nheader: {},\nsince: {},\nblock: {},\nblock_length: {},\ncount: {},\nclear: {},\nparts: {},\n}}),",
                group.name,
                d.len,
                late(group.since),
                lengths(&group.body),
                context.num(d.block_length),
                context.num(d.count),
                clear(context, &node.block),
                node.layouts(context)
            );
        }
        for (data, _) in &self.data {
            let _ = writeln!(
                out,
                "rt::PartLayout::Data(rt::DataLayout {{ name: {:?}, header: {}, since: {}, length: {} }}),",
                data.name,
                data.header_len,
                late(data.since),
                context.num(data.length)
            );
        }
        out + "]"
    }
}

fn group_type(node: &Node<'_>) -> &'static str {
    if node.is_flat() { "rt::Group" } else { "rt::NestedGroup" }
}

/// Writes the module of `template`. `shared`: the text of entries that were written, with the module that has them.
pub(super) fn write(
    out: &mut String,
    context: &Context<'_>,
    template: &Template,
    file: &str,
    name: &str,
    shared: &mut HashMap<String, String>,
) {
    let mut entries = Scope::default();
    entries.unique(name.to_owned());
    entries.unique(format!("{name}Encoder"));
    let root = Node::new(&template.body, template.since, &mut entries);
    let _ = write!(out, "/// Template {}: `{}`", template.id, template.name);
    if !template.message_type.is_empty() {
        let _ = write!(out, " (FIX message type {})", template.message_type);
    }
    let _ = write!(out, "{}", since_note(template.since));
    if let Some(until) = template.until {
        let _ = write!(out, "; until version {until}");
    }
    let _ = writeln!(out, ".\n{ALLOW}pub mod {file} {{\nuse {}::rt;\n", context.runtime);
    view(out, context, template, name, &root);
    encoder(out, context, template, name, &root);
    entry_types(out, context, &root, file, shared);
    let _ = writeln!(
        out,
        "static LAYOUT: rt::MessageLayout = rt::MessageLayout {{\nheader: &super::HEADER,\ntemplate_id: {},\nblock: {},\nclear: {},\nparts: {},\n}};\n}}\n",
        template.id,
        lengths(&template.body),
        clear(context, &root.block),
        root.layouts(context)
    );
}

fn view(out: &mut String, context: &Context<'_>, template: &Template, name: &str, root: &Node<'_>) {
    let block = &root.block;
    let _ = writeln!(
        out,
        "/// A `{}` in place.\n#[derive(Clone, Copy, Debug)]\npub struct {name}<'a> {{",
        template.name
    );
    root.declarations(out, true);
    out.push_str("trailing: &'a [u8],\n}\n\n");
    let _ = writeln!(
        out,
        "impl<'a> rt::MessageView<'a> for {name}<'a> {{\nconst TEMPLATE_ID: u16 = {};\nconst NAME: &'static str = {:?};\n",
        template.id, template.name
    );
    out.push_str("#[inline]\nfn decode(message: &rt::Message<'a>) -> Result<Self, rt::DecodeError> {\n");
    let whole = if block.has_base() || block.has_late() { "whole" } else { "_" };
    let rest = if root.is_flat() { "trailing" } else { "rest" };
    let _ = writeln!(out, "let ({whole}, {rest}) = rt::root(message, Self::TEMPLATE_ID, super::SCHEMA_ID)?;");
    if block.has_base() {
        out.push_str("let block = rt::first(message, whole)?;\n");
    }
    if !root.is_flat() {
        out.push_str(
            "let mut parts = rt::Cursor::new(rest, usize::from(message.block_length), message.version);\n",
        );
        root.read_parts(out, context);
        out.push_str("let trailing = parts.rest();\n");
    }
    let mut kept = root.kept();
    kept.extend(["version: message.version".to_owned(), "trailing".to_owned()]);
    let _ = writeln!(out, "Ok({name} {{ {} }})\n}}\n", kept.join(", "));
    out.push_str("#[inline]\nfn version(&self) -> u16 {\nself.version\n}\n\n");
    out.push_str("#[inline]\nfn trailing(&self) -> &'a [u8] {\nself.trailing\n}\n\n");
    let mutable = if root.is_bare() { "" } else { "mut " };
    let _ = writeln!(
        out,
        "fn encode(&self, buf: &mut [u8]) -> Result<usize, rt::EncodeError> {{\nlet {mutable}message = {name}Encoder::with_version(buf, self.version)?;"
    );
    root.copy(out, context, "message", "self", 0);
    out.push_str("message.finish()\n}\n}\n\n");
    let _ = writeln!(
        out,
        "impl<'a> {name}<'a> {{\n/// The template's id.\npub const TEMPLATE_ID: u16 = {};\n",
        template.id
    );
    getters(out, context, block);
    root.part_getters(out);
    out.push_str("}\n\n");
}

fn encoder(out: &mut String, context: &Context<'_>, template: &Template, name: &str, root: &Node<'_>) {
    let newest = template.until.unwrap_or(context.schema.version);
    let _ = writeln!(
        out,
        "/// Writes a `{}`. Fields that are not set are null, or zero where they cannot be.
#[derive(Debug)]
pub struct {name}Encoder<'b>(rt::Writer<'b>);

impl<'b> {name}Encoder<'b> {{
/// Begins a message of version {newest} at the start of `buf`.
///
/// # Errors
/// The buffer is full.
pub fn new(buf: &'b mut [u8]) -> Result<Self, rt::EncodeError> {{
Self::with_version(buf, {newest})
}}

/// Begins a message as `version` writes it: what came later is not written.
///
/// # Errors
/// The buffer is full.
pub fn with_version(buf: &'b mut [u8], version: u16) -> Result<Self, rt::EncodeError> {{
Ok({name}Encoder(rt::Writer::begin(buf, &LAYOUT, version)?))
}}

/// Ends the message: what was left out is empty. Returns its length, with all that stands before it.
///
/// # Errors
/// The buffer is full, or the message too long for its size field.
pub fn finish(self) -> Result<usize, rt::EncodeError> {{
self.0.finish()
}}
",
        template.name
    );
    setters(out, context, &root.block, "'_");
    root.part_setters(out, "b");
    out.push_str("}\n\n");
}

/// The views and encoders of all entries below `node`.
fn entry_types(
    out: &mut String,
    context: &Context<'_>,
    node: &Node<'_>,
    file: &str,
    shared: &mut HashMap<String, String>,
) {
    for child in &node.groups {
        let text = entry_type(context, child);
        let entry = &child.entry;
        match shared.get(&text).filter(|_| child.node.is_flat()) {
            Some(of) => {
                let _ =
                    writeln!(out, "pub use super::{of}::{{{entry}, {entry}Encoder, {entry}GroupEncoder}};\n");
            }
            None => {
                out.push_str(&text);
                shared.insert(text, file.to_owned());
            }
        }
        entry_types(out, context, &child.node, file, shared);
    }
}

/// The view of an entry and its encoders. Entries that read alike have the same text, and are one type.
fn entry_type(context: &Context<'_>, child: &Child<'_>) -> String {
    let Child { group, entry, node, .. } = child;
    let (block, mut out) = (&node.block, String::new());
    let _ = writeln!(
        out,
        "/// An entry of `{}` in place.\n#[derive(Clone, Copy, Debug)]\npub struct {entry}<'a> {{",
        group.name
    );
    node.declarations(&mut out, false);
    let empty = !block.has_base() && !block.has_late() && node.is_flat();
    if empty {
        out.push_str("whole: &'a [u8],\n");
    }
    out.push_str("}\n\n");
    let mut kept = node.kept();
    kept.extend(empty.then(|| "whole".to_owned()));
    let first = if block.has_base() { "let block = whole.first_chunk()?;\n" } else { "" };
    if node.is_flat() {
        kept.extend(block.has_late().then(|| "version".to_owned()));
        let _ = writeln!(
            out,
            "impl<'a> rt::GroupEntry<'a> for {entry}<'a> {{\nconst MIN_BLOCK: usize = {};\n\n#[inline(always)]\nfn from_block(whole: &'a [u8], version: u16) -> Option<Self> {{\n{first}Some({entry} {{ {} }})\n}}\n}}\n",
            block.min,
            kept.join(", ")
        );
    } else {
        kept.extend(block.has_late().then(|| "version: parts.version()".to_owned()));
        let first = first.replace("whole.first_chunk()?", "rt::entry_block(whole, parts)?");
        let _ = writeln!(
            out,
            "impl<'a> rt::NestedEntry<'a> for {entry}<'a> {{\nfn read(whole: &'a [u8], parts: &mut rt::Cursor<'a>) -> Result<Self, rt::DecodeError> {{\n{first}"
        );
        node.read_parts(&mut out, context);
        let _ = writeln!(out, "Ok({entry} {{ {} }})\n}}\n}}\n", kept.join(", "));
    }
    let _ = writeln!(out, "impl<'a> {entry}<'a> {{");
    getters(&mut out, context, block);
    node.part_getters(&mut out);
    out.push_str("}\n\n");
    let (writer, push, generics, within) = match node.is_flat() {
        true => ("rt::EntryWriter<'e>", "push", "<'e>", "<'_>"),
        false => ("rt::NestedWriter<'e, 'b>", "push_nested", "<'e, 'b>", "<'_, 'b>"),
    };
    let _ = writeln!(
        out,
        "/// Writes the entries of `{0}`.
#[derive(Debug)]
pub struct {entry}GroupEncoder<'w, 'b>(pub(super) rt::GroupWriter<'w, 'b>);

impl<'w, 'b> {entry}GroupEncoder<'w, 'b> {{
/// The next entry. Fields that are not set are null, or zero where they cannot be.
///
/// # Errors
/// The buffer is full, or the group has as many entries as its header can count.
pub fn push(&mut self) -> Result<{entry}Encoder{within}, rt::EncodeError> {{
Ok({entry}Encoder(self.0.{push}()?))
}}
}}

/// Writes an entry of `{0}`.
#[derive(Debug)]
pub struct {entry}Encoder{generics}({writer});

impl{generics} {entry}Encoder{generics} {{",
        group.name
    );
    setters(&mut out, context, block, "'_");
    node.part_setters(&mut out, "b");
    out.push_str("}\n\n");
    out
}
