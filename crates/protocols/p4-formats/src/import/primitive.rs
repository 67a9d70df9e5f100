//! Primitives: what actions, parsers and deparsers do.

use super::Importer;
use super::constant::{hex, hex_u32};
use super::error::{Fault, Problem, Result, nearest};
use super::expr::{Context, FieldOrValid, Target, Value};
use super::json::{Json, Kind};
use super::names::Extern;
use barewire_p4::ir::{
    BinaryOp, CalcInput, Expr, FieldDef, FieldListId, FieldRef, HashSource, HeaderId, HeaderRef, Stmt,
    UnaryOp, Width,
};
use num_bigint::{BigUint, Sign};

/// The primitives that are read, for the hint when another one is named.
const PRIMITIVES: [&str; 55] = [
    "assign",
    "assign_VL",
    "assign_header",
    "assign_union",
    "assign_header_stack",
    "assign_union_stack",
    "push",
    "pop",
    "_jump",
    "_jump_if_zero",
    "exit",
    "assert",
    "assume",
    "log_msg",
    "modify_field",
    "modify_field_rng_uniform",
    "modify_field_with_hash_based_offset",
    "add_to_field",
    "subtract_from_field",
    "add",
    "subtract",
    "bit_xor",
    "bit_or",
    "bit_and",
    "shift_left",
    "shift_right",
    "drop",
    "mark_to_drop",
    "generate_digest",
    "add_header",
    "add_header_fast",
    "remove_header",
    "copy_header",
    "clone_ingress_pkt_to_egress",
    "clone_egress_pkt_to_egress",
    "resubmit",
    "recirculate",
    "no_op",
    "execute_meter",
    "count",
    "register_read",
    "register_write",
    "truncate",
    "_Counter_count",
    "_Meter_execute",
    "_Hash_get_hash",
    "_Hash_get_hash_mod",
    "_Random_read",
    "_InternetChecksum_add",
    "_InternetChecksum_clear",
    "_InternetChecksum_get",
    "_InternetChecksum_get_state",
    "_InternetChecksum_get_verify",
    "_InternetChecksum_set_state",
    "_InternetChecksum_subtract",
];

/// The operator of the P4_14 primitives with a destination and two operands.
fn three_operand(name: &str) -> Option<BinaryOp> {
    Some(match name {
        "add" => BinaryOp::Add,
        "subtract" => BinaryOp::Sub,
        "bit_xor" => BinaryOp::BitXor,
        "bit_or" => BinaryOp::BitOr,
        "bit_and" => BinaryOp::BitAnd,
        "shift_left" => BinaryOp::Shl,
        "shift_right" => BinaryOp::Shr,
        _ => return None,
    })
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary(op, Box::new(left), Box::new(right))
}

fn bit_not(value: Expr) -> Expr {
    Expr::Unary(UnaryOp::BitNot, Box::new(value))
}

/// The parameters of a primitive.
struct Call<'a, 's> {
    at: &'a Json<'s>,
    name: &'a str,
    params: &'a [Json<'s>],
}

impl<'a, 's> Call<'a, 's> {
    fn exactly<const N: usize>(&self) -> Result<&'a [Json<'s>; N]> {
        self.params.try_into().or_else(|_| self.wrong_count(&N.to_string()))
    }

    fn wrong_count<T>(&self, expected: &str) -> Result<T> {
        Fault::count(self.at, format!("parameters of '{}'", self.name), expected, self.params.len())
    }
}

impl Importer {
    /// An assignment; a field that saturates gets the value clamped, a register cell is written.
    pub(super) fn assignment(&self, target: Target, value: Expr) -> Stmt {
        match target {
            Target::Register(register, index) => Stmt::RegisterWrite { register, index, value },
            Target::Field(dst) => {
                let ty = self.program.type_of_ref(&dst.header);
                if !self.names.saturating.contains(&(ty, dst.field)) {
                    return Stmt::Assign { dst, value };
                }
                let def = self.program.field_def_of_ref(&dst);
                let (width, signed) = (def.bits().max(1), def.signed);
                Stmt::Assign { dst, value: Expr::Saturate { value: Box::new(value), width, signed } }
            }
        }
    }

    fn target_value(&self, target: &Target) -> Expr {
        match target {
            Target::Field(field) => Expr::Field(field.clone()),
            Target::Register(register, index) => {
                Expr::Register { register: *register, index: Box::new(index.clone()) }
            }
        }
    }

    /// One primitive (jumps excepted: they need the whole body) as statements.
    pub(super) fn primitive(&mut self, at: &Json<'_>, context: &Context, out: &mut Vec<Stmt>) -> Result<()> {
        let name = at.need_str("op")?;
        let call = Call { at, name, params: at.list("parameters")? };
        if let Some(op) = three_operand(name) {
            let [dst, left, right] = call.exactly::<3>()?;
            let dst = self.target(dst, context)?;
            let value = binary(op, self.int(left, context)?, self.int(right, context)?);
            out.push(self.assignment(dst, value));
            return Ok(());
        }
        let stmt = match name {
            "assign" | "modify_field" => self.modify_field(&call, context)?,
            "add_to_field" | "subtract_from_field" => {
                let [dst, value] = call.exactly::<2>()?;
                let dst = self.target(dst, context)?;
                let op = if name == "add_to_field" { BinaryOp::Add } else { BinaryOp::Sub };
                let value = binary(op, self.target_value(&dst), self.int(value, context)?);
                self.assignment(dst, value)
            }
            "assign_VL" => {
                let [dst_at, src_at] = call.exactly::<2>()?;
                let (dst, src) = (self.target_field(dst_at, context)?, self.target_field(src_at, context)?);
                self.assign_varbit(at, dst, src)?
            }
            "assign_header" | "copy_header" => {
                let [dst, src] = call.exactly::<2>()?;
                let (dst, src) = (self.header(dst, context)?, self.header(src, context)?);
                if !self.same_layout(self.program.type_of_ref(&dst), self.program.type_of_ref(&src)) {
                    return Fault::value(at, "a header copied to one of another type");
                }
                if self.is_metadata(&dst) || self.is_metadata(&src) {
                    return self.copy_metadata(at, &dst, &src, out);
                }
                Stmt::CopyHeader { dst, src }
            }
            "assign_union" | "assign_header_stack" | "assign_union_stack" => {
                self.copy_group(&call, context)?
            }
            "push" | "pop" => self.shift_stack(&call, context)?,
            "add_header" | "add_header_fast" | "remove_header" => {
                let [header] = call.exactly::<1>()?;
                let header = self.header(header, context)?;
                self.not_metadata(at, &header)?;
                if name == "remove_header" { Stmt::SetInvalid(header) } else { Stmt::SetValid(header) }
            }
            "exit" => {
                let [] = call.exactly::<0>()?;
                Stmt::Exit
            }
            "no_op" => {
                let [] = call.exactly::<0>()?;
                Stmt::NoOp
            }
            "drop" => {
                let [] = call.exactly::<0>()?;
                self.mark_to_drop(None)
            }
            "mark_to_drop" => self.mark_header_to_drop(&call, context)?,
            "assert" | "assume" => {
                let [condition] = call.exactly::<1>()?;
                let condition = self.truth(condition, context)?;
                if name == "assert" { Stmt::Assert(condition) } else { Stmt::Assume(condition) }
            }
            "log_msg" => self.log(&call, context)?,
            "count" | "execute_meter" | "register_read" | "register_write" => {
                self.use_array(&call, context)?
            }
            "modify_field_rng_uniform" => self.random(&call, context)?,
            "modify_field_with_hash_based_offset" => self.hash_with_offset(&call, context)?,
            "generate_digest" => self.digest(&call)?,
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => {
                let [session, list] = call.exactly::<2>()?;
                let (session, fields) = (self.int(session, context)?, self.field_list(list)?);
                if name == "clone_ingress_pkt_to_egress" {
                    Stmt::CloneIngress { session, fields }
                } else {
                    Stmt::CloneEgress { session, fields }
                }
            }
            "resubmit" | "recirculate" => self.resubmit_or_recirculate(&call)?,
            "truncate" => {
                let [len] = call.exactly::<1>()?;
                Stmt::Truncate { len: self.int(len, context)? }
            }
            "drop_packet" | "send_to_port" | "mirror_packet" | "add_entry" => {
                let reason = "it belongs to the Portable NIC Architecture; this switch has v1model and PSA";
                return Fault::unsupported(at, format!("primitive '{name}'"), reason);
            }
            _ if name.starts_with('_') => return self.method(&call, context, out),
            _ => return self.unknown(&call),
        };
        out.push(stmt);
        Ok(())
    }

    fn modify_field(&mut self, call: &Call<'_, '_>, context: &Context) -> Result<Stmt> {
        match call.params {
            [dst, src] => {
                let dst = self.target(dst, context)?;
                let value = self.int(src, context)?;
                Ok(self.assignment(dst, value))
            }
            // P4_14: only the bits under the mask.
            [dst, src, mask] if call.name == "modify_field" => {
                let dst = self.target(dst, context)?;
                let (src, mask) = (self.int(src, context)?, self.int(mask, context)?);
                let kept = binary(BinaryOp::BitAnd, self.target_value(&dst), bit_not(mask.clone()));
                let value = binary(BinaryOp::BitOr, kept, binary(BinaryOp::BitAnd, src, mask));
                Ok(self.assignment(dst, value))
            }
            _ => call.wrong_count(if call.name == "assign" { "2" } else { "2 or 3" }),
        }
    }

    /// A copy of a union, or of a stack.
    fn copy_group(&mut self, call: &Call<'_, '_>, context: &Context) -> Result<Stmt> {
        let [dst, src] = call.exactly::<2>()?;
        Ok(match (self.value(dst, context, 0)?, self.value(src, context, 0)?) {
            (Value::Union(dst), Value::Union(src)) if self.union_type(&dst) == self.union_type(&src) => {
                Stmt::CopyUnion { dst, src }
            }
            (Value::Stack(dst), Value::Stack(src)) if self.same_stacks(dst, src) => {
                Stmt::CopyStack { dst, src }
            }
            (Value::UnionStack(dst), Value::UnionStack(src)) if self.same_union_stacks(dst, src) => {
                Stmt::CopyUnionStack { dst, src }
            }
            _ => {
                return Fault::value(call.at, format!("'{}' with operands of different types", call.name));
            }
        })
    }

    fn shift_stack(&mut self, call: &Call<'_, '_>, context: &Context) -> Result<Stmt> {
        let [stack, count] = call.exactly::<2>()?;
        let count = hex_u32(self.constant(count)?, "a count")?;
        Ok(match (self.value(stack, context, 0)?, call.name) {
            (Value::Stack(stack), "push") => Stmt::Push { stack, count },
            (Value::Stack(stack), _) => Stmt::Pop { stack, count },
            (Value::UnionStack(stack), "push") => Stmt::PushUnions { stack, count },
            (Value::UnionStack(stack), _) => Stmt::PopUnions { stack, count },
            _ => return Fault::value(stack, format!("'{}' of something that is no stack", call.name)),
        })
    }

    /// A cell of a counter, meter or register array.
    fn use_array(&mut self, call: &Call<'_, '_>, context: &Context) -> Result<Stmt> {
        Ok(match call.name {
            "count" => {
                let [counter, index] = call.exactly::<2>()?;
                let counter = self.names.counters.at(self.operand(counter, "counter_array")?)?;
                Stmt::Count { counter, index: self.index(index, context)? }
            }
            "execute_meter" => {
                let [meter, index, dst] = call.exactly::<3>()?;
                let meter = self.names.meters.at(self.operand(meter, "meter_array")?)?;
                let index = self.index(index, context)?;
                Stmt::Meter { meter, index, precolor: None, dst: Some(self.target_field(dst, context)?) }
            }
            "register_read" => {
                let [dst, register, index] = call.exactly::<3>()?;
                let dst = self.target_field(dst, context)?;
                let register = self.names.registers.at(self.operand(register, "register_array")?)?;
                Stmt::RegisterRead { dst, register, index: self.index(index, context)? }
            }
            // register_write
            _ => {
                let [register, index, value] = call.exactly::<3>()?;
                let register = self.names.registers.at(self.operand(register, "register_array")?)?;
                let (index, value) = (self.index(index, context)?, self.int(value, context)?);
                Stmt::RegisterWrite { register, index, value }
            }
        })
    }

    fn random(&mut self, call: &Call<'_, '_>, context: &Context) -> Result<Stmt> {
        let [dst, low, high] = call.exactly::<3>()?;
        let dst = self.target_field(dst, context)?;
        Ok(Stmt::Random { dst, low: self.int(low, context)?, high: self.int(high, context)? })
    }

    fn hash_with_offset(&mut self, call: &Call<'_, '_>, context: &Context) -> Result<Stmt> {
        let [dst, base, calculation, max] = call.exactly::<4>()?;
        let dst = self.target_field(dst, context)?;
        let calculation = self.names.calculations.at(self.operand(calculation, "calculation")?)?;
        let (base, max) = (Some(self.int(base, context)?), Some(self.int(max, context)?));
        Ok(Stmt::Hash { dst, source: HashSource::Calculation(calculation), base, max })
    }

    fn digest(&mut self, call: &Call<'_, '_>) -> Result<Stmt> {
        let [_receiver, list] = call.exactly::<2>()?;
        let at = self.constant(list)?;
        let number = hex_u32(at, "a learn list's number")?;
        match self.names.learn_lists.get(number.into()) {
            Some(list) => Ok(Stmt::Digest { list }),
            // Number 0 is no digest in bmv2.
            None if number == 0 => Ok(Stmt::NoOp),
            None => self.names.learn_lists.numbered(at, number.into()).map(|list| Stmt::Digest { list }),
        }
    }

    fn resubmit_or_recirculate(&mut self, call: &Call<'_, '_>) -> Result<Stmt> {
        let fields = match call.params {
            [] => None,
            [list] => {
                let fields = self.field_list(list)?;
                if fields.is_none() {
                    // bmv2 keeps the number as the request itself: 0 asks for nothing.
                    self.note(call.at, format!("'{}' with field list 0 does nothing", call.name));
                    return Ok(Stmt::NoOp);
                }
                fields
            }
            _ => return call.wrong_count("0 or 1"),
        };
        Ok(if call.name == "resubmit" { Stmt::Resubmit { fields } } else { Stmt::Recirculate { fields } })
    }

    fn mark_header_to_drop(&mut self, call: &Call<'_, '_>, context: &Context) -> Result<Stmt> {
        let header = match call.params {
            [] => None,
            [header] => match self.header(header, context)? {
                HeaderRef::Header(header) => Some(header),
                _ => return Fault::value(header, "an element of a stack marked to drop"),
            },
            _ => return call.wrong_count("0 or 1"),
        };
        Ok(self.mark_to_drop(header))
    }

    /// The marking of a header, or of `standard_metadata`: of a header bmv2 writes that header's own fields.
    fn mark_to_drop(&self, header: Option<HeaderId>) -> Stmt {
        let program = &self.program;
        let Some(header) = header else {
            return Stmt::MarkToDrop {
                egress_spec: program.field("standard_metadata.egress_spec"),
                mcast_grp: program
                    .field("intrinsic_metadata.mcast_grp")
                    .or_else(|| program.field("standard_metadata.mcast_grp")),
            };
        };
        let field = |name: &str| program.plain_field(&program.headers[header.at()].name, name);
        let egress_spec = field("egress_spec");
        Stmt::MarkToDrop { egress_spec, mcast_grp: egress_spec.and_then(|_| field("mcast_grp")) }
    }

    /// An index of a counter, meter or register: bmv2 takes the low 32 bits.
    fn index(&self, at: &Json<'_>, context: &Context) -> Result<Expr> {
        let index = self.int(at, context)?;
        let bits = match &index {
            Expr::Int(index) if index.sign() != Sign::Minus => index.bits(),
            Expr::Field(field) => match self.program.field_def_of_ref(field) {
                FieldDef { width: Width::Fixed(bits), signed: false, .. } => u64::from(*bits),
                _ => u64::MAX,
            },
            Expr::Binary(BinaryOp::BitAnd, _, mask) => match &**mask {
                Expr::Int(mask) if mask.sign() != Sign::Minus => mask.bits(),
                _ => u64::MAX,
            },
            _ => u64::MAX,
        };
        if bits <= 32 {
            return Ok(index);
        }
        Ok(Expr::Binary(BinaryOp::BitAnd, Box::new(index), Box::new(Expr::Int(u32::MAX.into()))))
    }

    fn unknown<T>(&self, call: &Call<'_, '_>) -> Result<T> {
        let at = call.at.need("op")?;
        let nearest = nearest(call.name, PRIMITIVES);
        Err(Fault::new(at, Problem::Unknown { kind: "primitive", name: call.name.into(), nearest }))
    }

    /// The value of an operand that must be of a certain type.
    fn operand<'a, 's>(&self, at: &'a Json<'s>, ty: &'static str) -> Result<&'a Json<'s>> {
        let found = at.need("type")?;
        if found.str()? != ty {
            let found_text = found.describe();
            return Err(Fault::new(found, Problem::Kind { expected: ty, found: found_text }));
        }
        at.need("value")
    }

    /// The text of an operand that must be a constant.
    fn constant<'a, 's>(&self, at: &'a Json<'s>) -> Result<&'a Json<'s>> {
        self.operand(at, "hexstr")
    }

    /// A field list by its number; number 0 is none, if there is no such list.
    fn field_list(&self, at: &Json<'_>) -> Result<Option<FieldListId>> {
        let at = self.constant(at)?;
        let number = hex_u32(at, "a field list's number")?;
        match self.names.field_lists.get(number.into()) {
            None if number == 0 => Ok(None),
            _ => self.names.field_lists.numbered(at, number.into()).map(Some),
        }
    }

    fn is_metadata(&self, header: &HeaderRef) -> bool {
        matches!(header, HeaderRef::Header(id) if self.program.headers[id.at()].metadata)
    }

    fn not_metadata(&self, at: &Json<'_>, header: &HeaderRef) -> Result<()> {
        if self.is_metadata(header) { Fault::value(at, "metadata is always valid") } else { Ok(()) }
    }

    /// A copy from or to metadata, which is no header: field by field.
    fn copy_metadata(
        &self,
        at: &Json<'_>,
        dst: &HeaderRef,
        src: &HeaderRef,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        if !self.is_metadata(dst) {
            out.push(Stmt::SetValid(dst.clone()));
        }
        let fields = &self.program.header_types[self.program.type_of_ref(dst).at()].fields;
        for (index, field) in fields.iter().enumerate() {
            let part = |header: &HeaderRef| FieldRef { header: header.clone(), field: index as u32 };
            out.push(match field.width {
                Width::Fixed(_) => self.assignment(Target::Field(part(dst)), Expr::Field(part(src))),
                Width::Varbit(_) => self.assign_varbit(at, part(dst), part(src))?,
            });
        }
        Ok(())
    }

    pub(super) fn assign_varbit(&self, at: &Json<'_>, dst: FieldRef, src: FieldRef) -> Result<Stmt> {
        if !self.is_varbit(&dst) || !self.is_varbit(&src) {
            return Fault::value(at, "both fields must be varbit");
        }
        Ok(Stmt::AssignVarbit { dst, src })
    }

    fn log(&self, call: &Call<'_, '_>, context: &Context) -> Result<Stmt> {
        let (format, list) = match call.params {
            [format] => (format, None),
            [format, list] => (format, Some(list)),
            _ => return call.wrong_count("1 or 2"),
        };
        let format = self.operand(format, "string")?.str()?.to_owned();
        let mut args = Vec::new();
        if let Some(list) = list {
            let list = self.operand(list, "parameters_vector")?;
            // p4c writes no arguments as an empty object.
            if !matches!(&list.kind, Kind::Object(members) if members.is_empty()) {
                for arg in list.items()? {
                    args.push(self.int(arg, context)?);
                }
            }
        }
        Ok(Stmt::Log { format, args })
    }

    /// A method of a PSA extern: `_Type_method`, its instance the first parameter.
    fn method(&self, call: &Call<'_, '_>, context: &Context, out: &mut Vec<Stmt>) -> Result<()> {
        if !PRIMITIVES.contains(&call.name) {
            return self.unknown(call);
        }
        let [instance_at, params @ ..] = call.params else { return call.wrong_count("at least 1") };
        let instance_at = self.operand(instance_at, "extern")?;
        let instance = self.names.externs.at(instance_at)?;
        let stmt = match (call.name, instance, params) {
            ("_Counter_count", Extern::Counter(counter), [index]) => {
                Stmt::Count { counter, index: self.int(index, context)? }
            }
            ("_Meter_execute", Extern::Meter(meter), [index, dst]) => {
                let index = self.int(index, context)?;
                let dst = self.target_field(dst, context)?;
                out.push(Stmt::Meter { meter, index, precolor: None, dst: Some(dst.clone()) });
                let value = Expr::Field(dst.clone()).meter_to_psa_color();
                Stmt::Assign { dst, value }
            }
            ("_Hash_get_hash", Extern::Hash(algorithm), [dst, data]) => {
                let (dst, input) = (self.target_field(dst, context)?, self.data(data, 8)?);
                Stmt::Hash { dst, source: HashSource::Inline { algorithm, input }, base: None, max: None }
            }
            ("_Hash_get_hash_mod", Extern::Hash(algorithm), [dst, base, data, max]) => {
                let (dst, input) = (self.target_field(dst, context)?, self.data(data, 8)?);
                let (base, max) = (Some(self.int(base, context)?), Some(self.int(max, context)?));
                Stmt::Hash { dst, source: HashSource::Inline { algorithm, input }, base, max }
            }
            ("_Random_read", Extern::Random { low, high }, [dst]) => {
                let dst = self.target_field(dst, context)?;
                Stmt::Random { dst, low: Expr::Int(low.into()), high: Expr::Int(high.into()) }
            }
            ("_InternetChecksum_clear", Extern::Checksum(unit), []) => Stmt::ChecksumClear(unit),
            ("_InternetChecksum_add", Extern::Checksum(unit), [data]) => {
                Stmt::ChecksumAdd { unit, input: self.data(data, 16)? }
            }
            ("_InternetChecksum_subtract", Extern::Checksum(unit), [data]) => {
                Stmt::ChecksumSubtract { unit, input: self.data(data, 16)? }
            }
            ("_InternetChecksum_get", Extern::Checksum(unit), [dst]) => {
                Stmt::ChecksumGet { unit, dst: self.target_field(dst, context)? }
            }
            ("_InternetChecksum_get_state", Extern::Checksum(unit), [dst]) => {
                Stmt::ChecksumGetState { unit, dst: self.target_field(dst, context)? }
            }
            ("_InternetChecksum_get_verify", Extern::Checksum(unit), [dst, equals]) => {
                let (dst, equals) = (self.target_field(dst, context)?, self.int(equals, context)?);
                Stmt::ChecksumVerify { unit, dst, equals }
            }
            ("_InternetChecksum_set_state", Extern::Checksum(unit), [value]) => {
                Stmt::ChecksumSetState { unit, value: self.int(value, context)? }
            }
            (_, instance, _) => {
                let fits = match &instance {
                    Extern::Counter(_) => "_Counter_",
                    Extern::Meter(_) => "_Meter_",
                    Extern::Hash(_) => "_Hash_",
                    Extern::Random { .. } => "_Random_",
                    Extern::Checksum(_) => "_InternetChecksum_",
                };
                if call.name.starts_with(fits) {
                    return call.wrong_count("another number");
                }
                return Fault::value(instance_at, format!("the extern has no method '{}'", call.name));
            }
        };
        out.push(stmt);
        Ok(())
    }

    /// What is handed to a PSA hash or checksum. Unlike calculations, these externs take fields of invalid headers
    /// too and pad on the left (bmv2), to so many bits.
    fn data(&self, at: &Json<'_>, align: u64) -> Result<Vec<CalcInput>> {
        let value = self.operand(at, "field_list")?;
        // p4c writes a single element without its list.
        let items = match &value.kind {
            Kind::Array(items) => items.as_slice(),
            _ => std::slice::from_ref(value),
        };
        let mut input = Vec::new();
        for item in items {
            match item.need_str("type")? {
                "field" => match self.field_or_valid(item.need("value")?)? {
                    FieldOrValid::Field(field) if self.is_varbit(&field) => {
                        let reason = "the extern takes fields of fixed width";
                        return Fault::unsupported(item, "a varbit field as extern data", reason);
                    }
                    FieldOrValid::Field(field) => {
                        let width = self.width_of(&field);
                        input.push(CalcInput::Expr { value: Expr::Field(field), width });
                    }
                    FieldOrValid::Valid(header) => {
                        let value = Expr::Unary(UnaryOp::BoolToInt, Box::new(Expr::Valid(header)));
                        input.push(CalcInput::Expr { value, width: 1 });
                    }
                },
                "header" => {
                    let header: HeaderId = self.names.headers.at(item.need("value")?)?;
                    let ty = self.program.header_type_of(header);
                    for (index, field) in ty.fields.iter().enumerate() {
                        let Width::Fixed(width) = field.width else {
                            let reason = "the extern takes fields of fixed width";
                            return Fault::unsupported(
                                item,
                                "a header with a varbit field as extern data",
                                reason,
                            );
                        };
                        let field = FieldRef { header: header.into(), field: index as u32 };
                        input.push(CalcInput::Expr { value: Expr::Field(field), width });
                    }
                }
                "hexstr" => {
                    let value = hex(item.need("value")?)?;
                    let width = item.need("bitwidth")?.count("a width", super::MAX_FIELD_BITS)?;
                    input.push(CalcInput::Const { value: super::constant::low_bits(&value, width), width });
                }
                _ => {
                    let ty = item.need("type")?;
                    let (expected, found) = ("'field', 'header' or 'hexstr'", ty.describe());
                    return Err(Fault::new(ty, Problem::Kind { expected, found }));
                }
            }
        }
        let bits: u64 = input
            .iter()
            .map(|i| match i {
                CalcInput::Expr { width, .. } | CalcInput::Const { width, .. } => u64::from(*width),
                _ => 0,
            })
            .sum();
        let padding = (bits.next_multiple_of(align) - bits) as u32;
        if padding > 0 {
            input.insert(0, CalcInput::Const { value: BigUint::ZERO, width: padding });
        }
        Ok(input)
    }
}
