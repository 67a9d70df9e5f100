//! Header types, instances, stacks, unions, aliases; enumerations and errors.

use super::error::{Fault, Problem, Result, nearest};
use super::expr::Context;
use super::json::{Json, Kind};
use super::names::UnionType;
use super::{Importer, MAX_FIELD_BITS, MAX_FIELDS, MAX_HEADERS, MAX_PHV_BITS, MAX_VARBIT_BITS};
use barewire_p4::ir::{
    FieldDef, FieldId, Header, HeaderId, HeaderStack, HeaderType, HeaderTypeId, HeaderUnion, StackId,
    UnionId, UnionStack, UnionStackId, Width,
};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// The errors that every program has (P4-16 core library, and bmv2's ParserInvalidArgument).
const CORE_ERRORS: [&str; 7] = [
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
];

impl Importer {
    pub(super) fn enums_and_errors(&mut self, root: &Json<'_>) -> Result<()> {
        let mut seen = HashSet::new();
        for item in root.list("enums")? {
            let name = item.need_str("name")?;
            if !seen.insert(name) {
                return Err(Fault::new(item, Problem::Duplicate { kind: "enum", name: name.into() }));
            }
            let mut entries = Vec::new();
            for entry in item.list("entries")? {
                let [name, value] = entry.tuple::<2>("an enum entry")?;
                entries.push((name.str()?.to_owned(), value.count("an enum value", u32::MAX)?.into()));
            }
            self.program.enums.push((name.to_owned(), entries));
        }
        let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
        for item in root.list("errors")? {
            let [name, number] = item.tuple::<2>("an error")?;
            let (text, value) = (name.str()?, number.count("an error's number", u32::MAX - 16)?);
            if !names.insert(text) {
                return Err(Fault::new(name, Problem::Duplicate { kind: "error", name: text.into() }));
            }
            if !numbers.insert(value) {
                let name = value.to_string();
                return Err(Fault::new(number, Problem::Duplicate { kind: "error number", name }));
            }
            self.program.errors.push((text.to_owned(), value));
        }
        // Those the file does not number get the next free numbers, as in bmv2.
        let mut next = numbers.iter().max().map_or(0, |max| max + 1);
        for core in CORE_ERRORS {
            if !names.contains(core) {
                self.program.errors.push((core.to_owned(), next));
                next += 1;
            }
        }
        Ok(())
    }

    pub(super) fn header_types(&mut self, root: &Json<'_>) -> Result<()> {
        let mut ids = super::names::Numbers::new("header type number");
        for item in root.list("header_types")? {
            let id = HeaderTypeId::from(self.program.header_types.len());
            ids.add(item, id)?;
            let name = item.need_str("name")?;
            let mut fields: Vec<FieldDef> = Vec::new();
            let mut seen = HashSet::new();
            let list = item.list("fields")?;
            if list.len() > MAX_FIELDS as usize {
                let (value, limit) = (list.len() as u64, MAX_FIELDS.into());
                return Err(Fault::new(item, Problem::Limit { what: "fields of a header", value, limit }));
            }
            for field in list {
                let parts = field.items()?;
                let (2..=4) = parts.len() else {
                    return Fault::count(
                        field,
                        "a field (name, width, signed, saturating)",
                        "2 to 4",
                        parts.len(),
                    );
                };
                let field_name = parts[0].str()?;
                if !seen.insert(field_name) {
                    let kind = "field";
                    return Err(Fault::new(field, Problem::Duplicate { kind, name: field_name.into() }));
                }
                let width = match &parts[1].kind {
                    // The maximum is filled in below: it depends on the other fields.
                    Kind::Str(star) if star == "*" => Width::Varbit(0),
                    _ => Width::Fixed(parts[1].count("a field's width", MAX_FIELD_BITS)?),
                };
                let flag = |index: usize| parts.get(index).map_or(Ok(false), Json::bool);
                if flag(3)? {
                    self.names.saturating.insert((id, fields.len() as u32));
                }
                let signed = flag(2)?;
                if signed && width == Width::Fixed(0) {
                    return Fault::value(field, "a signed field of no bits");
                }
                fields.push(FieldDef { name: field_name.to_owned(), width, signed });
            }
            let mut ty = HeaderType { name: name.to_owned(), fields };
            let varbits = ty.fields.iter().filter(|f| matches!(f.width, Width::Varbit(_))).count();
            if varbits > 1 {
                return Fault::count(item, "varbit fields of a header type", "at most 1", varbits);
            }
            if let Some(at) = ty.varbit() {
                let fixed: u64 = ty.fields.iter().map(|f| u64::from(f.bits())).sum();
                // The length counts the whole header, in bytes. Without one there is no limit in bmv2; here the
                // longest header P4_14 programs have (a 60-byte option area) would be too little, a page is not.
                const DEFAULT_BYTES: u32 = 512;
                let bytes = match item.get("max_length") {
                    Some(max) => max.count("max_length", MAX_VARBIT_BITS / 8)?,
                    None => DEFAULT_BYTES,
                };
                // None may be left: `varbit<0>` is a type, too.
                let Some(bits) = (u64::from(bytes) * 8).checked_sub(fixed) else {
                    return Fault::value(
                        item,
                        format!("max_length {bytes} is less than the other fields take"),
                    );
                };
                ty.fields[at].width = Width::Varbit(bits as u32);
            }
            self.names.header_types.add(item.need("name")?, name, id)?;
            let places = ty.fields.iter().enumerate().map(|(index, f)| (f.name.clone(), index as u32));
            self.names.fields.push(places.collect());
            self.program.header_types.push(ty);
        }
        Ok(())
    }

    pub(super) fn headers(&mut self, root: &Json<'_>) -> Result<()> {
        let list = root.list("headers")?;
        if list.len() > MAX_HEADERS as usize {
            let (value, limit) = (list.len() as u64, MAX_HEADERS.into());
            return Err(Fault::new(root, Problem::Limit { what: "headers", value, limit }));
        }
        for item in list {
            let id = HeaderId::from(self.program.headers.len());
            let name = item.need_str("name")?;
            let ty = self.names.header_types.at(item.need("header_type")?)?;
            let metadata = item.flag("metadata", false)?;
            let def = &self.program.header_types[ty.at()];
            if !metadata && !def.fixed_bits().is_multiple_of(8) {
                let bits = def.fixed_bits();
                return Fault::value(item, format!("a header of {bits} bits: headers must be whole bytes"));
            }
            self.names.header_numbers.add(item, id)?;
            self.names.headers.add(item.need("name")?, name, id)?;
            self.program.headers.push(Header {
                name: name.to_owned(),
                ty,
                metadata,
                union: None,
                length_exp: None,
            });
        }
        Ok(())
    }

    /// The instances that a stack or a union lists by number; each can be in one only.
    fn elements(&mut self, item: &Json<'_>, key: &'static str) -> Result<Vec<HeaderId>> {
        let mut ids = Vec::new();
        for number in item.need(key)?.items()? {
            let id = self.names.header_numbers.at(number)?;
            if self.program.headers[id.at()].metadata {
                return Fault::value(number, "metadata cannot be in a stack or a union");
            }
            if !self.names.owned_headers.insert(id) {
                let name = &self.program.headers[id.at()].name;
                return Fault::value(number, format!("'{name}' is in a stack or a union already"));
            }
            ids.push(id);
        }
        if ids.is_empty() {
            return Fault::value(item, "a stack or union without elements");
        }
        Ok(ids)
    }

    pub(super) fn stacks(&mut self, root: &Json<'_>) -> Result<()> {
        let mut ids = super::names::Numbers::new("header stack number");
        for item in root.list("header_stacks")? {
            let id = StackId::from(self.program.stacks.len());
            ids.add(item, id)?;
            let name = item.need_str("name")?;
            let ty = self.names.header_types.at(item.need("header_type")?)?;
            let elements = self.elements(item, "header_ids")?;
            self.check_size(item, elements.len())?;
            for &element in &elements {
                if self.program.headers[element.at()].ty != ty {
                    let element = &self.program.headers[element.at()].name;
                    return Fault::value(item, format!("'{element}' is not of the stack's header type"));
                }
            }
            self.names.stacks.add(item.need("name")?, name, id)?;
            self.program.stacks.push(HeaderStack { name: name.to_owned(), ty, elements });
        }
        Ok(())
    }

    fn check_size(&self, item: &Json<'_>, found: usize) -> Result<()> {
        if let Some(size) = item.get("size") {
            let expected = size.count("a stack's size", MAX_HEADERS)?;
            if expected as usize != found {
                return Fault::count(item, "elements of a stack", expected.to_string(), found);
            }
        }
        Ok(())
    }

    pub(super) fn unions(&mut self, root: &Json<'_>) -> Result<()> {
        for item in root.list("header_union_types")? {
            let mut members = Vec::new();
            for member in item.list("headers")? {
                let [name, ty] = member.tuple::<2>("a union member (name, header type)")?;
                members.push((name.str()?.to_owned(), self.names.header_types.at(ty)?));
            }
            let id = self.names.union_type_list.len();
            self.names.union_types.add(item.need("name")?, item.need_str("name")?, id)?;
            self.names.union_type_list.push(UnionType { members });
        }
        for item in root.list("header_unions")? {
            let id = UnionId::from(self.program.unions.len());
            let name = item.need_str("name")?;
            let ty = self.names.union_types.at(item.need("union_type")?)?;
            let members = self.elements(item, "header_ids")?;
            let types = &self.names.union_type_list[ty].members;
            if types.len() != members.len() {
                return Fault::count(item, "members of a union", types.len().to_string(), members.len());
            }
            for (&member, (wanted, member_ty)) in members.iter().zip(types) {
                let header = &mut self.program.headers[member.at()];
                if header.ty != *member_ty {
                    let text = format!("'{}' is not of the header type of member '{wanted}'", header.name);
                    return Fault::value(item, text);
                }
                header.union = Some(id);
            }
            let member_names = types.iter().map(|(name, _)| name.clone()).collect();
            self.names.union_numbers.add(item, id)?;
            self.names.unions.add(item.need("name")?, name, id)?;
            self.names.type_of_union.push(ty);
            self.program.unions.push(HeaderUnion { name: name.to_owned(), member_names, members });
        }
        Ok(())
    }

    pub(super) fn union_stacks(&mut self, root: &Json<'_>) -> Result<()> {
        let mut ids = super::names::Numbers::new("header union stack number");
        let mut taken = HashSet::new();
        for item in root.list("header_union_stacks")? {
            let id = UnionStackId::from(self.program.union_stacks.len());
            ids.add(item, id)?;
            let name = item.need_str("name")?;
            let ty = self.names.union_types.at(item.need("union_type")?)?;
            let mut elements = Vec::new();
            for number in item.need("header_union_ids")?.items()? {
                let union = self.names.union_numbers.at(number)?;
                if self.names.type_of_union[union.at()] != ty {
                    return Fault::value(number, "the union is not of the stack's union type");
                }
                if !taken.insert(union) {
                    return Fault::value(number, "the union is in a stack already");
                }
                elements.push(union);
            }
            if elements.is_empty() {
                return Fault::value(item, "a stack without elements");
            }
            self.check_size(item, elements.len())?;
            self.names.union_stacks.add(item.need("name")?, name, id)?;
            self.program.union_stacks.push(UnionStack { name: name.to_owned(), elements });
        }
        Ok(())
    }

    pub(super) fn aliases(&mut self, root: &Json<'_>) -> Result<()> {
        let mut places: HashMap<String, usize> = HashMap::new();
        for item in root.list("field_aliases")? {
            let [alias, target] = item.tuple::<2>("an alias (name, field)")?;
            let field = self.plain_field(target)?;
            let name = alias.str()?.to_owned();
            // p4c repeats aliases; the last one counts, as in bmv2.
            let aliases = &mut self.program.field_aliases;
            match places.entry(name.clone()) {
                Entry::Occupied(place) => aliases[*place.get()].1 = field,
                Entry::Vacant(place) => {
                    place.insert(aliases.len());
                    aliases.push((name.clone(), field));
                }
            }
            self.names.aliases.insert(name, field);
        }
        Ok(())
    }

    /// A field by `[header, field]`.
    fn plain_field(&self, at: &Json<'_>) -> Result<FieldId> {
        let [header, field] = at.tuple::<2>("a field (header, field)")?;
        let header_id = self.names.headers.at(header)?;
        let index = self.field_index(self.program.headers[header_id.at()].ty, field)?;
        Ok(FieldId { header: header_id, field: index })
    }

    /// The position of the field named at `at` in a type.
    pub(super) fn field_index(&self, ty: HeaderTypeId, at: &Json<'_>) -> Result<u32> {
        let name = at.str()?;
        match self.names.fields[ty.at()].get(name) {
            Some(&index) => Ok(index),
            None => {
                let ty = &self.program.header_types[ty.at()];
                let nearest = nearest(name, ty.fields.iter().map(|f| f.name.as_str()));
                let name = format!("{}.{name}", ty.name);
                Err(Fault::new(at, Problem::Unknown { kind: "field", name, nearest }))
            }
        }
    }

    /// P4_14 length expressions, per instance (their `local`s are the header's own fields).
    pub(super) fn length_expressions(&mut self, root: &Json<'_>) -> Result<()> {
        let mut instances: Vec<Vec<HeaderId>> = vec![Vec::new(); self.program.header_types.len()];
        for (index, header) in self.program.headers.iter().enumerate() {
            instances[header.ty.at()].push(HeaderId::from(index));
        }
        for (item, instances) in root.list("header_types")?.iter().zip(instances) {
            let Some(length) = item.get("length_exp") else { continue };
            let ty = self.names.header_types.at(item.need("name")?)?;
            let Some(varbit) = self.program.header_types[ty.at()].varbit() else {
                self.note(length, "a length expression of a header without a varbit field is not used");
                continue;
            };
            for own in instances {
                let context = Context { own: Some((own, varbit as u32)), ..Context::default() };
                let value = self.int(length, &context)?;
                self.program.headers[own.at()].length_exp = Some(value);
            }
        }
        Ok(())
    }

    pub(super) fn check_phv(&self, root: &Json<'_>) -> Result<()> {
        let types: Vec<u64> = self
            .program
            .header_types
            .iter()
            .map(|ty| ty.fields.iter().map(|f| u64::from(f.bits()).next_multiple_of(64)).sum())
            .collect();
        let value: u64 = self.program.headers.iter().map(|h| types[h.ty.at()] + 64).sum();
        if value > MAX_PHV_BITS {
            let at = root.get("headers").unwrap_or(root);
            let what = "bits of all headers together";
            return Err(Fault::new(at, Problem::Limit { what, value, limit: MAX_PHV_BITS }));
        }
        Ok(())
    }
}
