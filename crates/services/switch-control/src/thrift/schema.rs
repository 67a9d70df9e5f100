//! What a service's methods take and give: tables that the server checks calls against and the client builds them by.

use super::codec::{Value, wire};
use super::errors::{Refusal, Throws};

/// A type.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum Ty {
    /// No result.
    Void,
    Bool,
    I16,
    I32,
    I64,
    Double,
    /// UTF-8.
    Text,
    Bytes,
    List(&'static Ty),
    Map(&'static Ty, &'static Ty),
    Struct(&'static Shape),
}

/// A struct.
#[derive(Debug)]
pub struct Shape {
    /// Its name in messages.
    pub name: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
}

/// A field of a struct or an argument of a method.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its number on the wire.
    pub id: i16,
    /// Its name in messages.
    pub name: &'static str,
    /// Its type.
    pub ty: Ty,
    /// It may be left out.
    pub optional: bool,
}

/// A field that must be there.
pub const fn field(id: i16, name: &'static str, ty: Ty) -> Field {
    Field { id, name, ty, optional: false }
}

/// A field that may be left out.
pub const fn optional(id: i16, name: &'static str, ty: Ty) -> Field {
    Field { id, name, ty, optional: true }
}

/// What a handler works on.
pub type Handler = fn(&super::Context, &Args) -> Result<Value, Refusal>;

/// A method. Its arguments are numbered from 1 in their order.
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// Its arguments.
    pub args: &'static [Field],
    /// Its result.
    pub returns: Ty,
    /// The exception it may answer with.
    pub throws: Throws,
    /// What it does here.
    pub(crate) run: Handler,
}

/// A service.
pub struct Service {
    /// Its name before the colon.
    pub name: &'static str,
    /// Its methods, in parts.
    pub parts: &'static [&'static [Method]],
}

impl Service {
    /// Its methods.
    pub fn methods(&self) -> impl Iterator<Item = &'static Method> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    /// The method of a name.
    pub fn method(&self, name: &str) -> Option<&'static Method> {
        self.methods().find(|method| method.name == name)
    }
}

/// A value that was left out of [`Args`], or stands for a void result.
pub const NOTHING: Value = Value::Struct(Vec::new());

/// The arguments of a call, checked against the method's types: one value an argument, the type's zero for those
/// that may be left out and were.
#[derive(Debug)]
pub struct Args(Vec<Value>);

impl Args {
    /// Check a call's arguments.
    pub fn check(method: &Method, body: Value) -> Result<Args, Refusal> {
        let Value::Struct(mut given) = body else {
            return Err(Refusal::protocol(format!("{}: the arguments are no struct", method.name)));
        };
        let mut args = Vec::with_capacity(method.args.len());
        for field in method.args {
            match given.iter().position(|(id, _)| *id == field.id) {
                Some(at) => {
                    let (_, value) = given.swap_remove(at);
                    args.push(conform(value, field.ty).map_err(|wrong| wrong.at(method.name, field.name))?);
                }
                None if field.optional => args.push(zero(field.ty)),
                None => {
                    return Err(Refusal::protocol(format!(
                        "{}: argument {} ({}) is missing",
                        method.name, field.id, field.name
                    )));
                }
            }
        }
        Ok(Args(args))
    }

    /// The value of an argument, by position from 0.
    pub fn get(&self, at: usize) -> &Value {
        debug_assert!(at < self.0.len(), "a handler asks for an argument its method does not have");
        self.0.get(at).unwrap_or(const { &NOTHING })
    }

    /// A string argument.
    pub fn text(&self, at: usize) -> &str {
        std::str::from_utf8(self.get(at).bytes()).unwrap_or_default()
    }

    /// An integer argument.
    pub fn int(&self, at: usize) -> i64 {
        self.get(at).int()
    }

    /// A 32-bit argument, its bits as an unsigned number.
    pub fn u32(&self, at: usize) -> u32 {
        self.int(at) as u32
    }
}

/// Why a value is not of a type: the path to it, and what is wrong there.
#[derive(Debug)]
pub struct Wrong {
    path: String,
    why: String,
}

impl Wrong {
    fn new(why: String) -> Wrong {
        Wrong { path: String::new(), why }
    }

    fn under(mut self, part: &str) -> Wrong {
        self.path.insert_str(0, part);
        self
    }

    fn at(self, method: &str, arg: &str) -> Refusal {
        Refusal::protocol(format!("{method}: {arg}{}: {}", self.path, self.why))
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.trim_start_matches('.'), self.why)
    }
}

/// A value of a type: unknown fields dropped (as every Thrift reader does), missing ones refused.
pub fn conform(value: Value, ty: Ty) -> Result<Value, Wrong> {
    let found = value.wire_type();
    match (ty, value) {
        (Ty::Bool, value @ Value::Bool(_))
        | (Ty::I16, value @ Value::I16(_))
        | (Ty::I32, value @ Value::I32(_))
        | (Ty::I64, value @ Value::I64(_))
        | (Ty::Double, value @ Value::Double(_))
        | (Ty::Bytes, value @ Value::Bytes(_)) => Ok(value),
        (Ty::Text, Value::Bytes(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Value::Bytes(text.into_bytes())),
            Err(_) => Err(Wrong::new("no UTF-8 text".into())),
        },
        (Ty::List(of), Value::List(_, items)) => {
            let checked: Result<Vec<Value>, Wrong> = items
                .into_iter()
                .enumerate()
                .map(|(at, item)| conform(item, *of).map_err(|wrong| wrong.under(&format!("[{at}]"))))
                .collect();
            Ok(Value::List(wire_of(*of), checked?))
        }
        (Ty::Map(keys, values), Value::Map(_, _, pairs)) => {
            let checked: Result<Vec<(Value, Value)>, Wrong> = pairs
                .into_iter()
                .map(|(key, value)| Ok((conform(key, *keys)?, conform(value, *values)?)))
                .collect();
            Ok(Value::Map(wire_of(*keys), wire_of(*values), checked?))
        }
        (Ty::Struct(shape), Value::Struct(mut given)) => {
            let mut fields = Vec::with_capacity(shape.fields.len());
            for field in shape.fields {
                match given.iter().position(|(id, _)| *id == field.id) {
                    Some(at) => {
                        let (_, value) = given.swap_remove(at);
                        let value = conform(value, field.ty)
                            .map_err(|wrong| wrong.under(&format!(".{}", field.name)))?;
                        fields.push((field.id, value));
                    }
                    None if field.optional => {}
                    None => {
                        return Err(Wrong::new(format!("{} without its field {}", shape.name, field.name)));
                    }
                }
            }
            Ok(Value::Struct(fields))
        }
        (ty, _) => Err(Wrong::new(format!("wire type {found} where {} belongs", wire_of(ty)))),
    }
}

/// The wire type of a type.
pub fn wire_of(ty: Ty) -> u8 {
    match ty {
        Ty::Void => wire::STOP,
        Ty::Bool => wire::BOOL,
        Ty::I16 => wire::I16,
        Ty::I32 => wire::I32,
        Ty::I64 => wire::I64,
        Ty::Double => wire::DOUBLE,
        Ty::Text | Ty::Bytes => wire::BYTES,
        Ty::List(_) => wire::LIST,
        Ty::Map(..) => wire::MAP,
        Ty::Struct(_) => wire::STRUCT,
    }
}

/// The zero of a type.
pub fn zero(ty: Ty) -> Value {
    match ty {
        Ty::Void | Ty::Struct(_) => NOTHING,
        Ty::Bool => Value::Bool(false),
        Ty::I16 => Value::I16(0),
        Ty::I32 => Value::I32(0),
        Ty::I64 => Value::I64(0),
        Ty::Double => Value::Double(0.0),
        Ty::Text | Ty::Bytes => Value::Bytes(Vec::new()),
        Ty::List(of) => Value::List(wire_of(*of), Vec::new()),
        Ty::Map(keys, values) => Value::Map(wire_of(*keys), wire_of(*values), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::types::{MATCH_KEY, METER_RATE};
    use super::*;

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let lpm = |prefix: Value| {
            Value::structs(vec![Value::Struct(vec![
                (1, Value::I32(1)),
                (3, Value::Struct(vec![(1, Value::text("abcd")), (2, prefix), (99, Value::Bool(true))])),
            ])])
        };
        let ty = MATCH_KEY;
        let good = conform(lpm(Value::I32(8)), ty).unwrap();
        assert_eq!(good.items()[0].field(3).unwrap().field(2), Some(&Value::I32(8)));
        assert_eq!(good.items()[0].field(3).unwrap().field(99), None);
        let wrong = conform(lpm(Value::I64(8)), ty).unwrap_err();
        assert_eq!(wrong.to_string(), "[0].lpm.prefix_length: wire type 10 where 8 belongs");
        let wrong =
            conform(Value::Struct(vec![(1, Value::Double(0.5))]), Ty::Struct(&METER_RATE)).unwrap_err();
        assert_eq!(wrong.to_string(), ": BmMeterRateConfig without its field burst_size");
    }
}
