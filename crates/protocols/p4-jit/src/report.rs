//! What came of a compilation, for people.

use std::fmt;

/// One compiled function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionReport {
    /// Its name: `parse parser`, `run ingress`, `prepare deparser`, `emit deparser`.
    pub name: String,
    /// Instructions of the intermediate code it was made from.
    pub instructions: usize,
    /// Bytes of machine code.
    pub bytes: usize,
    /// What in it the interpreter does.
    pub delegated: Vec<String>,
    /// The machine code as text, if it was asked for.
    pub listing: Option<String>,
}

/// A whole program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its functions.
    pub functions: Vec<FunctionReport>,
    /// Metadata fields that are never read, whose writes were left out.
    pub dead_fields: usize,
}

impl Report {
    /// Bytes of machine code of all functions.
    pub fn bytes(&self) -> usize {
        self.functions.iter().map(|function| function.bytes).sum()
    }

    /// How many statements, conditions and so on are left to the interpreter.
    pub fn delegated(&self) -> usize {
        self.functions.iter().map(|function| function.delegated.len()).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for function in &self.functions {
            writeln!(
                f,
                "{}: {} instructions, {} bytes",
                function.name, function.instructions, function.bytes
            )?;
            for what in &function.delegated {
                writeln!(f, "  interpreted: {what}")?;
            }
        }
        write!(f, "{} bytes of machine code, {} metadata fields never read", self.bytes(), self.dead_fields)
    }
}
