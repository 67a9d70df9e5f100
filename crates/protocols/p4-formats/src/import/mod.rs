//! bmv2 JSON in: the format that `p4c` and the retired `p4c-bm` write (version 2.x), read into a [`Program`].
//!
//! The file is untrusted: everything is bounded (the `MAX_…` constants here and in [`barewire_p4::ir`]), every reference is resolved and checked, and
//! what is not understood is refused with its place. Engines rely on it: after an import no index is out of range, no
//! truth value stands where a number belongs, entries and arguments fit their widths, pipelines have no cycle.
//!
//! Semantics follow the behavioral model's own loader where the format's document is silent; each such point is
//! noted where it is read.

mod action;
mod constant;
mod entries;
mod error;
mod expr;
mod externs;
mod headers;
mod json;
mod names;
mod parser;
mod primitive;
mod tables;
mod target;

use barewire_p4::ir::{MAX_ARRAY_SIZE, MAX_STATE_BYTES, Program};
use barewire_text::{Place, Quote, hint, nearest};
use error::{Fault, Result};
pub use error::{ImportError, JsonPlace, Problem, SyntaxProblem};
use json::Json;
use std::fmt;
pub(crate) use tables::OPTIONAL_KEY;

/// The major version of the format that is read.
pub const MAJOR_VERSION: i64 = 2;
/// The newest minor version known; newer ones are read with a note.
pub const MINOR_VERSION: i64 = 24;
/// Bytes of a file.
pub const MAX_SOURCE_BYTES: usize = 64 << 20;
/// Levels of JSON.
pub const MAX_NESTING: usize = 1600;
/// JSON values in a file.
pub const MAX_VALUES: usize = 8 << 20;
/// Levels of an expression.
pub const MAX_EXPRESSION_DEPTH: usize = 512;
/// Bits of a constant.
pub const MAX_CONSTANT_BITS: u64 = 1 << 16;
/// Bits of a field, a parameter, a register.
pub const MAX_FIELD_BITS: u32 = 4096;
/// Bits of a varbit field.
pub const MAX_VARBIT_BITS: u32 = 1 << 16;
/// Fields of a header type.
pub const MAX_FIELDS: u32 = 8192;
/// Header instances, stack elements and union members included.
pub const MAX_HEADERS: u32 = 1 << 16;
/// Bits of all instances together.
pub const MAX_PHV_BITS: u64 = 1 << 25;
/// Statements of an action.
pub const MAX_STATEMENTS: usize = 1 << 16;
/// Rates of a meter.
pub const MAX_METER_RATES: u32 = 16;

/// The members of a program file. `force_arith` and `config_options` tell bmv2 what engines here do not need to know.
const MEMBERS: [&str; 27] = [
    "program",
    "__meta__",
    "header_types",
    "headers",
    "header_stacks",
    "header_union_types",
    "header_unions",
    "header_union_stacks",
    "field_lists",
    "errors",
    "enums",
    "parsers",
    "parse_vsets",
    "deparsers",
    "meter_arrays",
    "counter_arrays",
    "register_arrays",
    "calculations",
    "learn_lists",
    "actions",
    "pipelines",
    "checksums",
    "force_arith",
    "extern_instances",
    "field_aliases",
    "config_options",
    "source_info",
];

/// Something in a program that was read, but that its author may want to know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where.
    pub place: JsonPlace,
    /// What.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Read a program.
///
/// # Errors
/// [`ImportError`] with the place in the file.
pub fn import(json: &str) -> std::result::Result<Program, ImportError> {
    import_with_notes(json).map(|(program, _)| program)
}

/// Read a program, with notes on what is odd in it.
///
/// # Errors
/// [`ImportError`] with the place in the file.
pub fn import_with_notes(json: &str) -> std::result::Result<(Program, Vec<Note>), ImportError> {
    if json.len() > MAX_SOURCE_BYTES {
        let problem = SyntaxProblem::TooLarge { bytes: json.len(), limit: MAX_SOURCE_BYTES };
        return Err(ImportError::Syntax { at: Place::START, problem });
    }
    let root = json::parse(json)
        .map_err(|(at, problem)| ImportError::Syntax { at: Place::of(json, at), problem })?;
    let mut importer = Importer::new();
    match importer.run(&root) {
        Ok(()) => {
            importer.program.source = json.to_owned();
            let notes = importer
                .notes
                .into_iter()
                .map(|(at, text)| Note { place: error::place_of(at, json, &root), text });
            Ok((importer.program, notes.collect()))
        }
        Err(fault) => Err(fault.into_error(json, &root)),
    }
}

/// The program as far as it has been read, and the names seen.
struct Importer {
    program: Program,
    names: names::Names,
    /// Offsets and texts of notes.
    notes: Vec<(u32, String)>,
    /// Bytes the declared arrays take.
    state_bytes: u64,
}

impl Importer {
    fn new() -> Importer {
        Importer {
            program: Program::empty(),
            names: names::Names::default(),
            notes: Vec::new(),
            state_bytes: 0,
        }
    }

    fn note(&mut self, at: &Json<'_>, text: impl Into<String>) {
        const MAX_NOTES: usize = 1000;
        if self.notes.len() < MAX_NOTES {
            self.notes.push((at.at, text.into()));
        }
    }

    fn run(&mut self, root: &Json<'_>) -> Result<()> {
        for (name, value) in root.object()? {
            if !MEMBERS.contains(&&**name) {
                let hint = hint(", ", nearest(name, MEMBERS), Quote::Single);
                self.note(value, format!("'{name}' is not part of the format{hint}"));
            }
        }
        self.version(root)?;
        if let Some(name) = root.get("program") {
            self.program.name = name.str()?.to_owned();
        }
        self.program.arch = target::arch(root)?;
        // In the order in which they refer to each other.
        self.enums_and_errors(root)?;
        self.header_types(root)?;
        self.headers(root)?;
        self.stacks(root)?;
        self.unions(root)?;
        self.union_stacks(root)?;
        self.aliases(root)?;
        self.length_expressions(root)?;
        self.check_phv(root)?;
        target::required_fields(self, root)?;
        self.field_lists(root)?;
        self.learn_lists(root)?;
        self.calculations(root)?;
        self.counters(root)?;
        self.meters(root)?;
        self.registers(root)?;
        self.externs(root)?;
        self.value_sets(root)?;
        self.parsers(root)?;
        self.deparsers(root)?;
        self.actions(root)?;
        self.pipelines(root)?;
        self.checksums(root)?;
        // The rules engines rely on, once more and independently of how the program was read.
        self.program.check().or_else(|error| Fault::invalid(root, error.to_string()))
    }

    fn version(&mut self, root: &Json<'_>) -> Result<()> {
        // The retired compiler wrote no version; the behavioral model reads such files too.
        let Some(version) = root.get("__meta__").and_then(|meta| meta.get("version")) else { return Ok(()) };
        let [major, minor] = version.tuple::<2>("version")?;
        let (major, minor) = (major.int()?, minor.int()?);
        if major != MAJOR_VERSION {
            return Err(Fault::new(version, Problem::Version { major, minor }));
        }
        if minor > MINOR_VERSION {
            self.note(
                version,
                format!("format version {major}.{minor} is newer than {MAJOR_VERSION}.{MINOR_VERSION}"),
            );
        }
        Ok(())
    }

    /// Account for so many bytes of counters, meters, registers.
    fn take_state(&mut self, at: &Json<'_>, bytes: u64) -> Result<()> {
        self.state_bytes = self.state_bytes.saturating_add(bytes);
        if self.state_bytes > MAX_STATE_BYTES {
            let what = "bytes of counters, meters and registers";
            return Err(Fault::new(
                at,
                Problem::Limit { what, value: self.state_bytes, limit: MAX_STATE_BYTES },
            ));
        }
        Ok(())
    }
}
