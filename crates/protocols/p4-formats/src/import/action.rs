//! Actions and their bodies.

use super::constant::hex;
use super::error::{Fault, Problem, Result};
use super::expr::Context;
use super::json::Json;
use super::{Importer, MAX_FIELD_BITS, MAX_FIELDS, MAX_STATEMENTS};
use barewire_p4::ir::{Action, ActionId, Param, Stmt};
use num_traits::ToPrimitive;

impl Importer {
    pub(super) fn actions(&mut self, root: &Json<'_>) -> Result<()> {
        for item in root.list("actions")? {
            let id = ActionId::from(self.program.actions.len());
            let number = self.names.actions.add(item, id)?;
            let name = item.need_str("name")?;
            let mut params = Vec::new();
            let list = item.list("runtime_data")?;
            if list.len() > MAX_FIELDS as usize {
                let (value, limit) = (list.len() as u64, MAX_FIELDS.into());
                return Err(Fault::new(
                    item,
                    Problem::Limit { what: "parameters of an action", value, limit },
                ));
            }
            for param in list {
                let width = param.need("bitwidth")?.count("a parameter's width", MAX_FIELD_BITS)?;
                params.push(Param { name: param.need_str("name")?.to_owned(), width });
            }
            let body = self.body(item.list("primitives")?, params.len())?;
            if self.names.first_action.get(name).is_none() {
                self.names.first_action.add(item, name, id)?;
            }
            self.program.actions.push(Action { name: name.to_owned(), id: number, params, body });
        }
        Ok(())
    }

    /// The statements of a list of primitives. Jumps count primitives in the file; here they count statements.
    pub(super) fn body(&mut self, primitives: &[Json<'_>], params: usize) -> Result<Vec<Stmt>> {
        let context = Context { params, ..Context::default() };
        let mut body = Vec::new();
        let mut starts = Vec::with_capacity(primitives.len() + 1);
        let mut jumps = Vec::new();
        for primitive in primitives {
            starts.push(body.len());
            if body.len() > MAX_STATEMENTS {
                let (value, limit) = (body.len() as u64, MAX_STATEMENTS as u64);
                return Err(Fault::new(
                    primitive,
                    Problem::Limit { what: "statements of an action", value, limit },
                ));
            }
            match primitive.need_str("op")? {
                "_jump" => {
                    let [target] = primitive.need("parameters")?.tuple::<1>("parameters of '_jump'")?;
                    jumps.push((body.len(), target));
                    body.push(Stmt::Jump(0));
                }
                "_jump_if_zero" => {
                    let parameters = primitive.need("parameters")?;
                    let [condition, target] = parameters.tuple::<2>("parameters of '_jump_if_zero'")?;
                    let condition = self.truth(condition, &context)?;
                    jumps.push((body.len(), target));
                    body.push(Stmt::JumpUnless { condition, target: 0 });
                }
                _ => self.primitive(primitive, &context, &mut body)?,
            }
        }
        starts.push(body.len());
        for (statement, target) in jumps {
            let offset = hex(target.need("value")?)?;
            let Some(&to) = offset.to_usize().and_then(|offset| starts.get(offset)) else {
                let text = format!("a jump to primitive {offset} of {}", primitives.len());
                return Fault::value(target, text);
            };
            match &mut body[statement] {
                Stmt::Jump(target) | Stmt::JumpUnless { target, .. } => *target = to,
                _ => return Fault::invalid(target, "a jump that is no jump"),
            }
        }
        Ok(body)
    }
}
