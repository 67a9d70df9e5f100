//! Statements as primitives, and actions.

use super::expr::Ahead;
use super::{Export, Result, hex};
use barewire_p4::ir::{
    CalcInput, CalculationId, ChecksumUnitId, Expr, FieldListId, FieldRef, HashAlgorithm, HashSource,
    MeterId, Stmt, UnaryOp,
};
use num_bigint::BigUint;
use serde_json::{Value, json};

fn primitive(op: &str, parameters: Vec<Value>) -> Value {
    object! { "op": op, "parameters": parameters }
}

fn constant(value: u64) -> Value {
    json!({ "type": "hexstr", "value": hex(&BigUint::from(value)) })
}

impl Export<'_> {
    pub(super) fn actions(&mut self) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        for (id, action) in self.program.actions.iter().enumerate() {
            self.at("action", &action.name);
            let params: Vec<Value> = action
                .params
                .iter()
                .map(|param| json!({ "name": param.name, "bitwidth": param.width }))
                .collect();
            let primitives = self.body(&action.body)?;
            out.push(object! {
                "name": &*action.name, "id": id, "runtime_data": params, "primitives": primitives,
            });
        }
        Ok(out)
    }

    /// The primitives of a body. A statement may come to several; jumps count primitives.
    pub(super) fn body(&mut self, body: &[Stmt]) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        let mut starts = Vec::with_capacity(body.len() + 1);
        let mut jumps = Vec::new();
        for stmt in body {
            starts.push(out.len());
            match stmt {
                Stmt::Jump(target) => {
                    jumps.push((out.len(), 0, *target));
                    out.push(primitive("_jump", vec![Value::Null]));
                }
                Stmt::JumpUnless { condition, target } => {
                    let number = Expr::Unary(UnaryOp::BoolToInt, Box::new(condition.clone()));
                    let condition = self.param(&number, None)?;
                    jumps.push((out.len(), 1, *target));
                    out.push(primitive("_jump_if_zero", vec![condition, Value::Null]));
                }
                stmt => self.stmt(stmt, None, &mut out)?,
            }
        }
        starts.push(out.len());
        for (at, parameter, target) in jumps {
            out[at]["parameters"][parameter] = constant(starts[target] as u64);
        }
        Ok(out)
    }

    fn unit(&self, unit: ChecksumUnitId) -> Value {
        json!({ "type": "extern", "value": self.program.checksum_units[unit.at()] })
    }

    /// The instance of a hash of PSA that has this algorithm.
    fn hash_instance(&mut self, algorithm: HashAlgorithm) -> Result<Value> {
        let name = format!("export_hash_{}", self.algorithm(algorithm)?);
        if !self.hashes.contains(&algorithm) {
            self.hashes.push(algorithm);
        }
        Ok(json!({ "type": "extern", "value": name }))
    }

    /// What is handed to an extern of PSA; what is computed goes to a field first.
    fn data(
        &mut self,
        input: &[CalcInput],
        mut ahead: Option<&mut Ahead>,
        out: &mut Vec<Value>,
    ) -> Result<Value> {
        let mut items = Vec::new();
        for item in input {
            items.push(match item {
                CalcInput::Const { value, width } => {
                    json!({ "type": "hexstr", "value": hex(value), "bitwidth": width })
                }
                CalcInput::Expr { value: Expr::Field(field), width }
                    if field.fixed().is_some() && self.program.field_def_of_ref(field).bits() == *width =>
                {
                    json!({ "type": "field", "value": self.fixed(field)? })
                }
                CalcInput::Expr { value, width } => {
                    let temp = json!({ "type": "field", "value": self.temp(*width) });
                    let value = self.param(value, ahead.as_deref_mut())?;
                    out.push(primitive("assign", vec![temp.clone(), value]));
                    temp
                }
                CalcInput::Field(_) | CalcInput::Header(_) | CalcInput::Payload => {
                    return self.refuse("this data of an extern");
                }
            });
        }
        Ok(object! { "type": "field_list", "value": items })
    }

    fn list_id(&self, list: Option<FieldListId>) -> u64 {
        list.map_or(0, |list| u64::from(list.0) + 1)
    }

    /// One statement, jumps excepted. In a parser, what it looks ahead for goes to `ahead`.
    pub(super) fn stmt(
        &mut self,
        stmt: &Stmt,
        mut ahead: Option<&mut Ahead>,
        out: &mut Vec<Value>,
    ) -> Result<()> {
        let made = match stmt {
            Stmt::Assign { dst, value } => {
                let dst = self.place(dst, ahead.as_deref_mut())?;
                primitive("assign", vec![dst, self.param(value, ahead)?])
            }
            Stmt::AssignVarbit { dst, src } => {
                let dst = self.place(dst, ahead.as_deref_mut())?;
                primitive("assign_VL", vec![dst, self.place(src, ahead)?])
            }
            Stmt::CopyHeader { dst, src } => {
                let dst = self.header_param(dst, ahead.as_deref_mut())?;
                primitive("assign_header", vec![dst, self.header_param(src, ahead)?])
            }
            Stmt::CopyUnion { dst, src } => {
                let dst = self.union_param(dst, ahead.as_deref_mut())?;
                primitive("assign_union", vec![dst, self.union_param(src, ahead)?])
            }
            Stmt::CopyStack { dst, src } => {
                primitive("assign_header_stack", vec![self.stack_param(*dst), self.stack_param(*src)])
            }
            Stmt::CopyUnionStack { dst, src } => {
                let pair = vec![self.union_stack_param(*dst), self.union_stack_param(*src)];
                primitive("assign_union_stack", pair)
            }
            Stmt::SetValid(header) => primitive("add_header", vec![self.header_param(header, ahead)?]),
            Stmt::SetInvalid(header) => primitive("remove_header", vec![self.header_param(header, ahead)?]),
            Stmt::Push { stack, count } => {
                primitive("push", vec![self.stack_param(*stack), constant((*count).into())])
            }
            Stmt::Pop { stack, count } => {
                primitive("pop", vec![self.stack_param(*stack), constant((*count).into())])
            }
            Stmt::PushUnions { stack, count } => {
                primitive("push", vec![self.union_stack_param(*stack), constant((*count).into())])
            }
            Stmt::PopUnions { stack, count } => {
                primitive("pop", vec![self.union_stack_param(*stack), constant((*count).into())])
            }
            Stmt::Jump(_) | Stmt::JumpUnless { .. } => return self.refuse("a jump outside an action"),
            Stmt::Exit => primitive("exit", Vec::new()),
            Stmt::Apply { .. } => return self.refuse("a table in an action"),
            Stmt::NoOp => primitive("no_op", Vec::new()),
            Stmt::Assert(condition) | Stmt::Assume(condition) => {
                let op = if matches!(stmt, Stmt::Assert(_)) { "assert" } else { "assume" };
                // bmv2's primitives take numbers: a condition itself ends it.
                let number = Expr::Unary(UnaryOp::BoolToInt, Box::new(condition.clone()));
                primitive(op, vec![self.param(&number, ahead)?])
            }
            Stmt::Log { format, args } => {
                let mut list = Vec::new();
                for arg in args {
                    list.push(self.param(arg, ahead.as_deref_mut())?);
                }
                let format = json!({ "type": "string", "value": format });
                primitive("log_msg", vec![format, object! { "type": "parameters_vector", "value": list }])
            }
            Stmt::Count { counter, index } => {
                let counter = &self.program.counters[counter.at()];
                let (op, kind) = match self.is_extern(counter.direct) {
                    true => ("_Counter_count", "extern"),
                    false => ("count", "counter_array"),
                };
                let array = json!({ "type": kind, "value": counter.name });
                primitive(op, vec![array, self.param(index, ahead)?])
            }
            Stmt::Meter { precolor: Some(_), .. } => return self.refuse("a meter that is given a colour"),
            Stmt::Meter { dst: None, .. } => return self.refuse("a meter whose colour goes nowhere"),
            Stmt::Meter { meter, index, precolor: None, dst: Some(dst) } => {
                self.meter(*meter, index, dst, ahead, out)?
            }
            Stmt::RegisterRead { dst, register, index } => {
                let dst = self.place(dst, ahead.as_deref_mut())?;
                let array = &self.program.registers[register.at()].name;
                let array = json!({ "type": "register_array", "value": array });
                primitive("register_read", vec![dst, array, self.param(index, ahead)?])
            }
            Stmt::RegisterWrite { register, index, value } => {
                let array = &self.program.registers[register.at()].name;
                let array = json!({ "type": "register_array", "value": array });
                let index = self.param(index, ahead.as_deref_mut())?;
                primitive("register_write", vec![array, index, self.param(value, ahead)?])
            }
            Stmt::Random { dst, low, high } => {
                let dst = self.place(dst, ahead.as_deref_mut())?;
                let low = self.param(low, ahead.as_deref_mut())?;
                primitive("modify_field_rng_uniform", vec![dst, low, self.param(high, ahead)?])
            }
            Stmt::Hash { dst, source, base, max } => {
                let range = base.as_ref().zip(max.as_ref());
                match source {
                    HashSource::Calculation(calculation) => {
                        self.hash(*calculation, dst, range, ahead, out)?
                    }
                    HashSource::Inline { algorithm, input } => {
                        self.hash_of_psa(*algorithm, input, dst, range, ahead, out)?
                    }
                }
            }
            Stmt::Digest { list } => {
                let id = self.program.learn_lists[list.at()].id;
                primitive("generate_digest", vec![constant(1), constant(id.into())])
            }
            Stmt::CloneIngress { session, fields } => {
                let session = self.param(session, ahead)?;
                primitive("clone_ingress_pkt_to_egress", vec![session, constant(self.list_id(*fields))])
            }
            Stmt::CloneEgress { session, fields } => {
                let session = self.param(session, ahead)?;
                primitive("clone_egress_pkt_to_egress", vec![session, constant(self.list_id(*fields))])
            }
            Stmt::Resubmit { fields } | Stmt::Recirculate { fields } => {
                let op = if matches!(stmt, Stmt::Resubmit { .. }) { "resubmit" } else { "recirculate" };
                // The number is the request itself: 0 would ask for nothing.
                let id = match fields {
                    Some(_) => self.list_id(*fields),
                    None => self.empty_list_id() as u64,
                };
                primitive(op, vec![constant(id)])
            }
            Stmt::Truncate { len } => primitive("truncate", vec![self.param(len, ahead)?]),
            Stmt::MarkToDrop { egress_spec: Some(spec), .. } => {
                let header = self.header_name(spec.header);
                primitive("mark_to_drop", vec![json!({ "type": "header", "value": header })])
            }
            Stmt::MarkToDrop { egress_spec: None, .. } => {
                return self.refuse("a mark to drop that marks nothing");
            }
            Stmt::ChecksumClear(unit) => primitive("_InternetChecksum_clear", vec![self.unit(*unit)]),
            Stmt::ChecksumAdd { unit, input } => {
                let data = self.data(input, ahead, out)?;
                primitive("_InternetChecksum_add", vec![self.unit(*unit), data])
            }
            Stmt::ChecksumSubtract { unit, input } => {
                let data = self.data(input, ahead, out)?;
                primitive("_InternetChecksum_subtract", vec![self.unit(*unit), data])
            }
            Stmt::ChecksumGet { unit, dst } => {
                primitive("_InternetChecksum_get", vec![self.unit(*unit), self.place(dst, ahead)?])
            }
            Stmt::ChecksumGetState { unit, dst } => {
                primitive("_InternetChecksum_get_state", vec![self.unit(*unit), self.place(dst, ahead)?])
            }
            Stmt::ChecksumVerify { unit, dst, equals } => {
                let dst = self.place(dst, ahead.as_deref_mut())?;
                let equals = self.param(equals, ahead)?;
                primitive("_InternetChecksum_get_verify", vec![self.unit(*unit), dst, equals])
            }
            Stmt::ChecksumSetState { unit, value } => {
                primitive("_InternetChecksum_set_state", vec![self.unit(*unit), self.param(value, ahead)?])
            }
        };
        out.push(made);
        Ok(())
    }

    /// A meter that writes its colour to a field. The last of its primitives; those before it are in `out`.
    fn meter(
        &mut self,
        meter: MeterId,
        index: &Expr,
        dst: &FieldRef,
        mut ahead: Option<&mut Ahead>,
        out: &mut Vec<Value>,
    ) -> Result<Value> {
        let meter = &self.program.meters[meter.at()];
        let is_extern = self.is_extern(meter.direct);
        let (op, kind) = match is_extern {
            true => ("_Meter_execute", "extern"),
            false => ("execute_meter", "meter_array"),
        };
        let array = json!({ "type": kind, "value": meter.name });
        let index = self.param(index, ahead.as_deref_mut())?;
        let measured = primitive(op, vec![array, index, self.place(dst, ahead.as_deref_mut())?]);
        if !is_extern {
            return Ok(measured);
        }
        out.push(measured);
        // The extern numbers colours as PSA does, and what follows expects them as meters have them.
        let value = Expr::Field(dst.clone()).psa_to_meter_color();
        let to = self.place(dst, ahead.as_deref_mut())?;
        Ok(primitive("assign", vec![to, self.param(&value, ahead)?]))
    }

    /// v1model's hash, by a named calculation, into `range` (base, maximum). The last of its primitives; those before it are in `out`.
    fn hash(
        &mut self,
        calculation: CalculationId,
        dst: &FieldRef,
        range: Option<(&Expr, &Expr)>,
        mut ahead: Option<&mut Ahead>,
        out: &mut Vec<Value>,
    ) -> Result<Value> {
        let Some((base, max)) = range else { return self.refuse("a hash without base and maximum") };
        for (temp, value) in self.computed[calculation.at()].clone() {
            let value = self.param(&value, ahead.as_deref_mut())?;
            out.push(primitive("assign", vec![json!({ "type": "field", "value": temp }), value]));
        }
        let dst = self.place(dst, ahead.as_deref_mut())?;
        let base = self.param(base, ahead.as_deref_mut())?;
        let name = &self.program.calculations[calculation.at()].name;
        let calculation = json!({ "type": "calculation", "value": name });
        let max = self.param(max, ahead)?;
        Ok(primitive("modify_field_with_hash_based_offset", vec![dst, base, calculation, max]))
    }

    /// A hash of PSA: an extern instance for each algorithm. The last of its primitives; those before it are in `out`.
    fn hash_of_psa(
        &mut self,
        algorithm: HashAlgorithm,
        input: &[CalcInput],
        dst: &FieldRef,
        range: Option<(&Expr, &Expr)>,
        mut ahead: Option<&mut Ahead>,
        out: &mut Vec<Value>,
    ) -> Result<Value> {
        let hash = self.hash_instance(algorithm)?;
        let data = self.data(input, ahead.as_deref_mut(), out)?;
        let dst = self.place(dst, ahead.as_deref_mut())?;
        let Some((base, max)) = range else {
            return Ok(primitive("_Hash_get_hash", vec![hash, dst, data]));
        };
        let base = self.param(base, ahead.as_deref_mut())?;
        let max = self.param(max, ahead)?;
        Ok(primitive("_Hash_get_hash_mod", vec![hash, dst, base, data, max]))
    }
}
