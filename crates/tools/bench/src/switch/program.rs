//! The programs that are measured: those of the repository by name, any other by its file.

use crate::error::BenchError;
use barewire_p4::ir::Program;
use barewire_p4_source::Options;
use barewire_port::suggest;
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::source;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// The workload that a program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Routes IPv4: `ipv4_lpm`, `forward`, `send_frame`.
    Router(RouterWords),
    /// Routes IPv4 with several next hops a prefix.
    Ecmp,
    /// Filters by ternary rules.
    Acl,
    /// Sixteen exact tables in a row.
    ManyTables,
    /// A stack of labels over a tunnel.
    DeepHeaders,
}

/// What a router calls its actions: ours, and the program of bmv2's own throughput test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterWords {
    /// Of `ipv4_lpm`: next hop and port.
    pub next_hop: &'static str,
    /// Of `forward`: destination address.
    pub dst_addr: &'static str,
    /// Of `send_frame`: source address.
    pub src_addr: &'static str,
}

/// Our own router's words.
pub const OURS: RouterWords =
    RouterWords { next_hop: "set_next_hop", dst_addr: "set_dst_addr", src_addr: "set_src_addr" };
/// The words of bmv2's `simple_router`.
pub const BMV2S: RouterWords =
    RouterWords { next_hop: "set_nhop", dst_addr: "set_dmac", src_addr: "rewrite_mac" };

macro_rules! embedded {
    ($($name:literal),*) => {
        /// Names of the programs that need no file.
        pub const NAMES: &[&str] = &[$($name),*];

        fn embedded(name: &str) -> Option<&'static str> {
            match name {
                // Links to the repository's own: a packed crate has nothing of what lies outside it.
                $($name => Some(include_str!(concat!("programs/", $name, ".p4"))),)*
                _ => None,
            }
        }
    };
}
embedded!("simple_router", "ecmp_router", "acl", "many_tables", "deep_headers");

/// A program that can be read.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// What rows call it: its name, or that of its file where another program has the same ([`tell_apart`]).
    pub shown: String,
    /// What was typed to get it: the name, or the path of its file.
    pub typed: String,
    form: Form,
}

#[derive(Clone, PartialEq, Eq)]
enum Form {
    /// P4-16 source that is here.
    Embedded(&'static str),
    /// A file of P4-16 source.
    File,
    /// bmv2 JSON.
    Json(String),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Source {
    /// The program, read anew: what a switch does when it is started with it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn program(&self) -> Result<Program, String> {
        match &self.form {
            Form::Embedded(text) => source::from_text(&format!("{}.p4", self.name), text),
            Form::File => {
                source::load(&source::Files, &Options::default(), &self.typed).map(|made| made.program)
            }
            Form::Json(json) => barewire_p4_formats::import::import(json).map_err(|error| error.to_string()),
        }
    }

    /// The program made ready for an engine, from its text on.
    ///
    /// # Errors
    /// [`BenchError::Plan`], or the switch's: what is wrong with it.
    pub fn prepare(&self, engine: EngineKind) -> Result<Prepared, BenchError> {
        let program = self.program().map_err(|why| BenchError::Plan(format!("{}: {why}", self.typed)))?;
        Prepared::new(Arc::new(program), engine)
            .map_err(BenchError::control(format!("program {}", self.name)))
    }

    /// Its bmv2 JSON, for bmv2.
    ///
    /// # Errors
    /// [`BenchError::Plan`]: there is none.
    pub fn json(&self) -> Result<String, BenchError> {
        if let Form::Json(json) = &self.form {
            return Ok(json.clone());
        }
        let program = self.program().map_err(|why| BenchError::Plan(format!("{}: {why}", self.typed)))?;
        barewire_p4_formats::export::export(&program)
            .map_err(|why| BenchError::Plan(format!("{} has no form for bmv2: {why}", self.typed)))
    }
}

impl FromStr for Source {
    type Err = String;

    /// A name of [`NAMES`], or the path of P4 source or of a JSON file, known by its ending or a slash.
    fn from_str(text: &str) -> Result<Source, String> {
        if let Some(source) = embedded(text) {
            let form = Form::Embedded(source);
            return Ok(Source {
                name: text.to_owned(),
                shown: text.to_owned(),
                typed: text.to_owned(),
                form,
            });
        }
        let is_source = text.ends_with(".p4");
        if !text.contains('/') && !text.ends_with(".json") && !is_source {
            let near = suggest(text, NAMES);
            return Err(format!(
                "`{text}` is neither a program here nor a file of P4 source or JSON; {near}"
            ));
        }
        let form = match is_source {
            true => Form::File,
            false => Form::Json(std::fs::read_to_string(text).map_err(|e| format!("{text}: {e}"))?),
        };
        let name = Path::new(text).file_stem().and_then(|s| s.to_str()).unwrap_or(text);
        let source = Source { name: name.to_owned(), shown: name.to_owned(), typed: text.to_owned(), form };
        if is_source {
            source.program()?;
        }
        Ok(source)
    }
}

/// Gives programs of one name (source and JSON of the same, two versions) names by which their rows can be told apart: those of their
/// files, or what was typed.
#[must_use]
pub fn tell_apart(mut sources: Vec<Source>) -> Vec<Source> {
    let of_file = |source: &Source| {
        Path::new(&source.typed)
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or(&source.typed)
            .to_owned()
    };
    for name in [of_file, |source: &Source| source.typed.clone()] {
        let shown: Vec<String> = sources.iter().map(|source| source.shown.clone()).collect();
        for source in &mut sources {
            if shown.iter().filter(|other| **other == source.shown).count() > 1 {
                source.shown = name(source);
            }
        }
    }
    sources
}

/// The workload that `program` takes, by its tables and their actions.
///
/// # Errors
/// [`BenchError::Plan`] when nothing here knows what to send it.
pub fn kind_of(program: &Program) -> Result<Kind, BenchError> {
    let is = |full: &str, last: &str| full == last || full.ends_with(&format!(".{last}"));
    let has = |table: &str, action: &str| {
        let found = program.tables.iter().find(|t| is(&t.name, table));
        found.is_some_and(|t| t.actions.iter().any(|a| is(&program.actions[a.at()].name, action)))
    };
    for words in [OURS, BMV2S] {
        let found = has("ipv4_lpm", words.next_hop)
            && has("forward", words.dst_addr)
            && has("send_frame", words.src_addr);
        if found {
            return Ok(Kind::Router(words));
        }
    }
    if has("ipv4_lpm", "set_next_hop") && program.profiles.iter().any(|p| is(&p.name, "next_hops")) {
        return Ok(Kind::Ecmp);
    }
    if has("rules", "permit_to") && has("pair", "forward") {
        return Ok(Kind::Acl);
    }
    if has("stage_15", "set_15") && has("ports", "forward") {
        return Ok(Kind::ManyTables);
    }
    if has("labels", "swap_label") {
        return Ok(Kind::DeepHeaders);
    }
    let tables: Vec<&str> = program.tables.iter().map(|t| t.name.as_str()).collect();
    Err(BenchError::Plan(format!(
        "no workload is known for a program with the tables {}; known are those of {}, and bmv2's simple_router",
        tables.join(", "),
        NAMES.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_repository_have_their_workloads() {
        let kinds = [Kind::Router(OURS), Kind::Ecmp, Kind::Acl, Kind::ManyTables, Kind::DeepHeaders];
        for (name, kind) in NAMES.iter().zip(kinds) {
            let source: Source = name.parse().unwrap();
            assert_eq!(kind_of(&source.program().unwrap()).unwrap(), kind, "{name}");
            // The same from its file, from what the reference compiler makes of it, and from the JSON that bmv2 gets of us.
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
            for path in [format!("{root}/programs/{name}.p4"), format!("{root}/tests/p4c/{name}.json")] {
                let other: Source = path.parse().unwrap();
                assert_eq!(other.name, *name);
                assert_eq!(kind_of(&other.program().unwrap()).unwrap(), kind, "{path}");
            }
            let written = barewire_p4_formats::import::import(&source.json().unwrap()).unwrap();
            assert_eq!(kind_of(&written).unwrap(), kind, "{name}");
        }
    }

    #[test]
    fn programs_of_one_name_are_told_apart_by_their_files() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
        let acl = [format!("{root}/programs/acl.p4"), format!("{root}/tests/p4c/acl.json")];
        let shown = |typed: &[&str]| -> Vec<String> {
            let sources = typed.iter().map(|text| text.parse().unwrap()).collect();
            tell_apart(sources).into_iter().map(|source| source.shown).collect()
        };
        assert_eq!(shown(&["simple_router", &acl[0]]), ["simple_router", "acl"]);
        assert_eq!(shown(&["acl", &acl[0], &acl[1]]), ["acl", "acl.p4", "acl.json"]);
        let again = format!("{root}/programs/../programs/acl.p4");
        assert_eq!(shown(&[&acl[0], &again]), [acl[0].as_str(), again.as_str()]);
    }

    #[test]
    fn others_are_refused_in_words() {
        let why = "simple_ruoter".parse::<Source>().unwrap_err();
        assert!(why.contains("did you mean `simple_router`?"), "{why}");
        assert!("/no/such.json".parse::<Source>().is_err());
        assert!("/no/such.p4".parse::<Source>().is_err());
        let source: Source =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../../programs/l2_learning.p4").parse().unwrap();
        assert_eq!(source.name, "l2_learning");
        assert!(
            kind_of(&source.program().unwrap()).unwrap_err().to_string().contains("no workload is known")
        );
    }
}
