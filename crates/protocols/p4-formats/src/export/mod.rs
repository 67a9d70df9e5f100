//! bmv2 JSON out: a [`Program`] in the format that `simple_switch` and [`crate::import`] read (version 2.23).
//!
//! ```text
//! mod        the document: types, instances, lists, externs
//! expr       values, headers, places
//! stmt       statements as primitives
//! flow       parsers, pipelines, tables
//! ```
//! The format is narrower than the representation: keys of parser states and inputs of hashes are fields, a table stands
//! in one place. What can be brought into shape by a temporary field is; the rest is refused with its reason.

/// An object of values that are moved into it: `json!` copies what it is given, all the way down, at each level anew.
macro_rules! object {
    ($($key:literal: $value:expr),* $(,)?) => {{
        let mut map = serde_json::Map::new();
        $(map.insert($key.to_owned(), serde_json::Value::from($value));)*
        serde_json::Value::Object(map)
    }};
}

mod expr;
mod flow;
mod stmt;

use barewire_p4::hash::crc::NAMED;
use barewire_p4::ir::{
    Arch, CalcInput, CrcParameters, Expr, FieldId, FieldRef, HashAlgorithm, HeaderId, HeaderRef, ListItem,
    MeterUnit, Program, TableId, UnaryOp, Width,
};
use num_bigint::{BigInt, BigUint, Sign};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// What the format cannot say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: bmv2 JSON cannot say this: {reason}")]
pub struct ExportError {
    /// The object: kind and name.
    pub place: String,
    /// Why not.
    pub reason: String,
}

type Result<T> = std::result::Result<T, ExportError>;

/// The document, indented as p4c writes it.
///
/// # Errors
/// What the format has no form for.
pub fn export(program: &Program) -> Result<String> {
    let document = Export::new(program).document()?;
    text(program, serde_json::to_string_pretty(&document))
}

/// The same in one line, for those who are no people: indented, most of it is blanks.
///
/// # Errors
/// What the format has no form for.
pub fn export_compact(program: &Program) -> Result<String> {
    let document = Export::new(program).document()?;
    text(program, serde_json::to_string(&document))
}

fn text(program: &Program, written: serde_json::Result<String>) -> Result<String> {
    match written {
        Ok(text) => Ok(text + "\n"),
        Err(error) => {
            let place = format!("program '{}'", program.name);
            Err(ExportError { place, reason: error.to_string() })
        }
    }
}

/// A number as the format writes it.
fn hex(value: &BigUint) -> String {
    format!("0x{}", value.to_str_radix(16))
}

fn hex_signed(value: &BigInt) -> String {
    let sign = if value.sign() == Sign::Minus { "-" } else { "" };
    format!("{sign}{}", hex(value.magnitude()))
}

fn algorithm(algorithm: HashAlgorithm) -> Option<&'static str> {
    Some(match algorithm {
        HashAlgorithm::Crc8 => "crc8",
        HashAlgorithm::Crc8Custom => "crc8_custom",
        HashAlgorithm::Crc16 => "crc16",
        HashAlgorithm::Crc16Custom => "crc16_custom",
        HashAlgorithm::Crc32 => "crc32",
        HashAlgorithm::Crc32Custom => "crc32_custom",
        HashAlgorithm::Crc64Custom => "crc64_custom",
        HashAlgorithm::CrcCcitt => "crcCCITT",
        HashAlgorithm::Csum16 => "csum16",
        HashAlgorithm::Xor16 => "xor16",
        HashAlgorithm::Xor32 => "xor32",
        HashAlgorithm::Identity => "identity",
        HashAlgorithm::Toeplitz => "toeplitz",
        HashAlgorithm::Xxh64 => "xxh64",
        HashAlgorithm::Bmv2Hash => "bmv2_hash",
        HashAlgorithm::HashEx => "hash_ex",
        HashAlgorithm::RoundRobin => "round_robin",
        HashAlgorithm::RoundRobinConsistent => "round_robin_consistent",
        HashAlgorithm::Random => "random",
        HashAlgorithm::Crc(wanted) => {
            let same = |name: &&str| CrcParameters::named(name) == Some(wanted);
            return NAMED.iter().map(|crc| crc.0).find(same);
        }
    })
}

struct Export<'p> {
    program: &'p Program,
    /// What is being written, for messages.
    place: String,
    /// Widths of the fields that hold what the format has no place for.
    temps: Vec<u32>,
    /// The name of the metadata that has them.
    temp_header: String,
    /// Of each calculation, the inputs that are computed in front of its use: field, value.
    computed: Vec<Vec<(Value, Expr)>>,
    /// Algorithms of PSA's hashes.
    hashes: Vec<HashAlgorithm>,
    /// An empty field list is wanted.
    empty_list: bool,
    /// Names of nodes.
    nodes: HashSet<String>,
}

impl<'p> Export<'p> {
    fn new(program: &'p Program) -> Export<'p> {
        let mut temp_header = String::from("export_tmp");
        while program.headers.iter().any(|header| header.name == temp_header) {
            temp_header.push('_');
        }
        Export {
            program,
            place: String::new(),
            temps: Vec::new(),
            temp_header,
            computed: Vec::new(),
            hashes: Vec::new(),
            empty_list: false,
            nodes: program.tables.iter().map(|table| table.name.clone()).collect(),
        }
    }

    fn refuse<T>(&self, reason: impl Into<String>) -> Result<T> {
        Err(ExportError { place: self.place.clone(), reason: reason.into() })
    }

    fn at(&mut self, kind: &str, name: &str) {
        self.place = format!("{kind} '{name}'");
    }

    /// A new field of so many bits: `[header, field]`.
    fn temp(&mut self, width: u32) -> Value {
        self.temps.push(width);
        json!([self.temp_header, format!("tmp_{}", self.temps.len() - 1)])
    }

    fn header_name(&self, id: HeaderId) -> &'p str {
        &self.program.headers[id.at()].name
    }

    fn field_name(&self, field: &FieldRef) -> &'p str {
        &self.program.field_def_of_ref(field).name
    }

    fn field_id(&self, field: FieldId) -> Value {
        json!([self.header_name(field.header), self.program.field_def(field).name])
    }

    /// A field that is the same one for every packet: `[header, field]`.
    fn fixed(&self, field: &FieldRef) -> Result<Value> {
        match field.fixed() {
            Some(field) => Ok(self.field_id(field)),
            None => self.refuse("a field of an element of a stack stands where a fixed one belongs"),
        }
    }

    /// The number of a field list: those of the program begin at 1, 0 is none.
    fn empty_list_id(&mut self) -> usize {
        self.empty_list = true;
        self.program.field_lists.len() + 1
    }

    fn document(&mut self) -> Result<Value> {
        let calculations = self.calculations()?;
        let actions = self.actions()?;
        let parsers = self.parsers()?;
        let deparsers = self.deparsers()?;
        let pipelines = self.pipelines()?;
        let checksums = self.checksums()?;
        let field_lists = self.field_lists()?;
        let learn_lists = self.learn_lists()?;
        let (counters, meters) = (self.counters(), self.meters()?);
        let program = self.program;
        let mut externs = self.arrays_of_psa();
        for unit in &program.checksum_units {
            externs.push(json!({
                "name": unit, "id": externs.len(), "type": "InternetChecksum", "attribute_values": [],
            }));
        }
        for &hash in &self.hashes.clone() {
            self.place = String::from("hash");
            let name = self.algorithm(hash)?;
            let algo = json!({ "name": "algo", "type": "string", "value": name });
            externs.push(json!({
                "name": format!("export_hash_{name}"), "id": externs.len(), "type": "Hash", "attribute_values": [algo],
            }));
        }
        let mut header_types = self.header_types()?;
        let mut headers = self.headers();
        self.temporaries(&mut header_types, &mut headers);
        let stacks = program.stacks.iter().enumerate().map(|(id, stack)| {
            let ids: Vec<u32> = stack.elements.iter().map(|id| id.0).collect();
            let ty = &program.header_types[stack.ty.at()].name;
            json!({ "name": stack.name, "id": id, "header_type": ty, "size": ids.len(), "header_ids": ids })
        });
        let stacks: Vec<Value> = stacks.collect();
        let (union_types, unions, union_stacks) = self.unions();
        let registers = program.registers.iter().enumerate().map(|(id, register)| {
            let (name, size) = (&register.name, register.size);
            let mut shown = json!({ "name": name, "id": id, "size": size, "bitwidth": register.width });
            if register.initial != BigUint::ZERO {
                shown["initial_value"] = hex(&register.initial).into();
            }
            shown
        });
        let value_sets = program.value_sets.iter().enumerate().map(|(id, set)| {
            let bits: u32 = set.widths.iter().sum();
            json!({ "name": set.name, "id": id, "compressed_bitwidth": bits, "max_size": set.max_size })
        });
        let enums = program.enums.iter().map(|(name, members)| json!({ "name": name, "entries": members }));
        let aliases =
            program.field_aliases.iter().map(|(alias, field)| json!([alias, self.field_id(*field)]));
        Ok(object! {
            "program": &*program.name,
            "__meta__": json!({
                "version": [2, 23],
                "compiler": concat!("barewire ", env!("CARGO_PKG_VERSION")),
            }),
            "header_types": header_types,
            "headers": headers,
            "header_stacks": stacks,
            "header_union_types": union_types,
            "header_unions": unions,
            "header_union_stacks": union_stacks,
            "field_lists": field_lists,
            "errors": json!(program.errors),
            "enums": enums.collect::<Vec<_>>(),
            "parsers": parsers,
            "parse_vsets": value_sets.collect::<Vec<_>>(),
            "deparsers": deparsers,
            "meter_arrays": meters,
            "counter_arrays": counters,
            "register_arrays": registers.collect::<Vec<_>>(),
            "calculations": calculations,
            "learn_lists": learn_lists,
            "actions": actions,
            "pipelines": pipelines,
            "checksums": checksums,
            "force_arith": self.intrinsic_fields(),
            "extern_instances": externs,
            "field_aliases": aliases.collect::<Vec<_>>(),
        })
    }

    fn headers(&self) -> Vec<Value> {
        let headers = self.program.headers.iter().enumerate().map(|(id, header)| {
            let ty = &self.program.header_types[header.ty.at()].name;
            json!({ "name": header.name, "id": id, "header_type": ty, "metadata": header.metadata, "pi_omit": true })
        });
        headers.collect()
    }

    /// The header that has the temporaries, and its type, where any was needed.
    fn temporaries(&self, header_types: &mut Vec<Value>, headers: &mut Vec<Value>) {
        if self.temps.is_empty() {
            return;
        }
        let mut fields: Vec<Value> = self
            .temps
            .iter()
            .enumerate()
            .map(|(at, width)| json!([format!("tmp_{at}"), width, false]))
            .collect();
        pad(&mut fields, self.temps.iter().map(|width| u64::from(*width)).sum());
        let (name, id) = (&self.temp_header, header_types.len());
        header_types.push(json!({ "name": format!("{name}_t"), "id": id, "fields": fields }));
        headers.push(json!({
            "name": name, "id": headers.len(), "header_type": format!("{name}_t"), "metadata": true, "pi_omit": true,
        }));
    }

    /// Fields of the target's own metadata, which bmv2 keeps as numbers throughout (`force_arith`).
    fn intrinsic_fields(&self) -> Vec<Value> {
        let intrinsic = self.program.headers.iter().filter(|header| {
            header.metadata
                && matches!(&*header.name, "standard_metadata" | "intrinsic_metadata" | "queueing_metadata")
        });
        let fields = intrinsic.flat_map(|header| {
            let fields = &self.program.header_types[header.ty.at()].fields;
            fields.iter().map(move |field| json!([header.name, field.name]))
        });
        fields.collect()
    }

    fn header_types(&mut self) -> Result<Vec<Value>> {
        let program = self.program;
        let mut out = Vec::new();
        for (id, ty) in program.header_types.iter().enumerate() {
            let mut fields: Vec<Value> = Vec::new();
            for field in &ty.fields {
                fields.push(match field.width {
                    Width::Fixed(width) => json!([field.name, width, field.signed]),
                    Width::Varbit(_) => json!([field.name, "*"]),
                });
            }
            let metadata = program.headers.iter().any(|header| header.ty.at() == id && header.metadata);
            if metadata && ty.varbit().is_none() {
                pad(&mut fields, u64::from(ty.fixed_bits()));
            }
            let mut object = Map::new();
            object.insert("name".into(), json!(ty.name));
            object.insert("id".into(), json!(id));
            object.insert("fields".into(), Value::Array(fields));
            if let Some(at) = ty.varbit() {
                self.at("header type", &ty.name);
                let bits = ty.fixed_bits() + ty.fields[at].bits();
                if !bits.is_multiple_of(8) {
                    return self.refuse(format!("a header of at most {bits} bits: it counts whole bytes"));
                }
                object.insert("length_exp".into(), Value::Null);
                object.insert("max_length".into(), json!(bits / 8));
            }
            out.push(Value::Object(object));
        }
        if let Some(header) = program.headers.iter().find(|header| header.length_exp.is_some()) {
            self.at("header", &header.name);
            return self.refuse("a length expression of P4_14");
        }
        Ok(out)
    }

    /// Types of unions, unions, stacks of unions. Unions with the same members are of one type.
    fn unions(&self) -> (Vec<Value>, Vec<Value>, Vec<Value>) {
        let program = self.program;
        let mut types: Vec<Vec<(String, String)>> = Vec::new();
        let mut of = Vec::new();
        for union in &program.unions {
            let members: Vec<(String, String)> = union
                .members
                .iter()
                .zip(&union.member_names)
                .map(|(id, name)| (name.clone(), program.header_type_of(*id).name.clone()))
                .collect();
            let at = types.iter().position(|known| *known == members).unwrap_or(types.len());
            if at == types.len() {
                types.push(members);
            }
            of.push(format!("union_type_{at}"));
        }
        let type_list = types
            .iter()
            .enumerate()
            .map(|(id, members)| json!({ "name": format!("union_type_{id}"), "id": id, "headers": members }));
        let unions = program.unions.iter().enumerate().map(|(id, union)| {
            let ids: Vec<u32> = union.members.iter().map(|id| id.0).collect();
            json!({ "name": union.name, "id": id, "union_type": of[id], "header_ids": ids, "pi_omit": true })
        });
        let stacks = program.union_stacks.iter().enumerate().map(|(id, stack)| {
            let ids: Vec<u32> = stack.elements.iter().map(|id| id.0).collect();
            let ty = stack.elements.first().map(|id| of[id.at()].clone());
            json!({ "name": stack.name, "id": id, "union_type": ty, "size": ids.len(), "header_union_ids": ids })
        });
        (type_list.collect(), unions.collect(), stacks.collect())
    }

    /// What a hash, a selector or a digest is over; what has to be computed first goes to `computed`, where there is one.
    fn inputs(
        &mut self,
        list: &[CalcInput],
        mut computed: Option<&mut Vec<(Value, Expr)>>,
    ) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        for input in list {
            out.push(match input {
                CalcInput::Field(field) => match (field.fixed(), &mut computed) {
                    (Some(field), _) => json!({ "type": "field", "value": self.field_id(field) }),
                    (None, Some(computed)) => {
                        let temp = self.temp(self.program.field_def_of_ref(field).bits());
                        computed.push((temp.clone(), Expr::Field(field.clone())));
                        json!({ "type": "field", "value": temp })
                    }
                    (None, None) => return self.refuse("a field of an element of a stack as input"),
                },
                CalcInput::Header(HeaderRef::Header(id)) => {
                    json!({ "type": "header", "value": self.header_name(*id) })
                }
                CalcInput::Header(_) => return self.refuse("an element of a stack as input"),
                CalcInput::Const { value, width } => {
                    json!({ "type": "hexstr", "value": hex(value), "bitwidth": width })
                }
                CalcInput::Payload => json!({ "type": "payload", "value": Value::Null }),
                CalcInput::Expr { value, width } => match (value, &mut computed) {
                    (Expr::Unary(UnaryOp::BoolToInt, inner), _)
                        if matches!(**inner, Expr::Valid(HeaderRef::Header(_))) =>
                    {
                        let Expr::Valid(HeaderRef::Header(id)) = **inner else { continue };
                        json!({ "type": "field", "value": [self.header_name(id), "$valid$"] })
                    }
                    (value, Some(computed)) => {
                        let temp = self.temp(*width);
                        computed.push((temp.clone(), value.clone()));
                        json!({ "type": "field", "value": temp })
                    }
                    (_, None) => return self.refuse("a computed value as input"),
                },
            });
        }
        Ok(out)
    }

    fn algorithm(&self, of: HashAlgorithm) -> Result<&'static str> {
        match algorithm(of) {
            Some(name) => Ok(name),
            None => self.refuse("a CRC without a name"),
        }
    }

    fn calculations(&mut self) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        for (id, calculation) in self.program.calculations.iter().enumerate() {
            self.at("calculation", &calculation.name);
            let mut computed = Vec::new();
            let input = self.inputs(&calculation.input, Some(&mut computed))?;
            self.computed.push(computed);
            let algo = self.algorithm(calculation.algorithm)?;
            out.push(object! { "name": &*calculation.name, "id": id, "algo": algo, "input": input });
        }
        Ok(out)
    }

    fn checksums(&mut self) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        for (id, sum) in self.program.checksums.iter().enumerate() {
            self.at("checksum", &sum.name);
            if !self.computed[sum.calculation.at()].is_empty() {
                return self.refuse("a sum over computed values");
            }
            let condition = match &sum.condition {
                None => json!({ "type": "bool", "value": true }),
                Some(condition) => self.operand(condition, None)?,
            };
            out.push(json!({
                "name": sum.name,
                "id": id,
                "target": self.fixed(&sum.target)?,
                "type": "generic",
                "calculation": self.program.calculations[sum.calculation.at()].name,
                "verify": sum.verify,
                "update": sum.update,
                "if_cond": condition,
            }));
        }
        Ok(out)
    }

    fn field_lists(&mut self) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        for (at, list) in self.program.field_lists.iter().enumerate() {
            self.at("field list", &list.name);
            let mut elements = Vec::new();
            for item in &list.items {
                elements.push(match item {
                    ListItem::Field(field) => json!({ "type": "field", "value": self.fixed(field)? }),
                    ListItem::Const { value, width } => {
                        json!({ "type": "hexstr", "value": hex(value), "bitwidth": width })
                    }
                });
            }
            out.push(object! { "id": at + 1, "name": &*list.name, "elements": elements });
        }
        if self.empty_list {
            out.push(json!({ "id": out.len() + 1, "name": "empty", "elements": [] }));
        }
        Ok(out)
    }

    fn learn_lists(&mut self) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        for list in &self.program.learn_lists {
            self.at("learn list", &list.name);
            let items: Vec<CalcInput> = list.items.iter().map(|(input, _)| input.clone()).collect();
            let elements = self.inputs(&items, None)?;
            out.push(object! { "id": list.id, "name": &*list.name, "elements": elements });
        }
        Ok(out)
    }

    fn counters(&self) -> Vec<Value> {
        let counters = self.program.counters.iter().enumerate();
        counters
            .map(|(id, counter)| match counter.direct {
                Some(table) => {
                    let table = &self.program.tables[table.at()].name;
                    json!({ "name": counter.name, "id": id, "is_direct": true, "binding": table })
                }
                None => json!({ "name": counter.name, "id": id, "size": counter.size, "is_direct": false }),
            })
            .collect()
    }

    /// Whether an array of counters or meters that belongs to no table is an extern, as `psa_switch` has it: its primitives find no other.
    fn is_extern(&self, direct: Option<TableId>) -> bool {
        self.program.arch == Arch::Psa && direct.is_none()
    }

    /// The arrays that are externs.
    fn arrays_of_psa(&self) -> Vec<Value> {
        let mut out = Vec::new();
        let number = |name: &str, value: String| json!({ "name": name, "type": "hexstr", "value": value });
        for counter in self.program.counters.iter().filter(|counter| self.is_extern(counter.direct)) {
            // Packets and bytes: what is counted here, whatever is shown of it.
            let attributes =
                [number("n_counters", format!("{:#x}", counter.size)), number("type", "0x2".into())];
            out.push(json!({ "name": counter.name, "id": out.len(), "type": "Counter", "attribute_values": attributes }));
        }
        for meter in self.program.meters.iter().filter(|meter| self.is_extern(meter.direct)) {
            let attributes = [
                number("is_direct", "0x0".into()),
                number("n_meters", format!("{:#x}", meter.size)),
                number("rate_count", format!("{:#x}", meter.rate_count)),
                json!({ "name": "type", "type": "string", "value": unit_name(meter.unit) }),
            ];
            out.push(json!({ "name": meter.name, "id": out.len(), "type": "Meter", "attribute_values": attributes }));
        }
        out
    }

    fn meters(&mut self) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        for (id, meter) in self.program.meters.iter().enumerate() {
            if self.is_extern(meter.direct) {
                continue;
            }
            self.at("meter", &meter.name);
            let mut object = json!({
                "name": meter.name, "id": id, "is_direct": false, "size": meter.size, "rate_count": meter.rate_count,
                "type": unit_name(meter.unit),
            });
            if let (Some(table), Some(object)) = (meter.direct, object.as_object_mut()) {
                let result = match &meter.result {
                    Some(result) => self.fixed(result)?,
                    None => self.temp(8),
                };
                object.insert("is_direct".into(), json!(true));
                object.insert("binding".into(), json!(self.program.tables[table.at()].name));
                object.insert("result_target".into(), result);
            }
            out.push(object);
        }
        Ok(out)
    }
}

fn unit_name(unit: MeterUnit) -> &'static str {
    match unit {
        MeterUnit::Packets => "packets",
        MeterUnit::Bytes => "bytes",
    }
}

/// Metadata is of whole bytes in the format.
fn pad(fields: &mut Vec<Value>, bits: u64) {
    let missing = bits.next_multiple_of(8) - bits;
    if missing > 0 {
        fields.push(json!([format!("_padding_{}", fields.len()), missing, false]));
    }
}
