//! Typed views and encoders for any Simple Binary Encoding schema: XML in, Rust out.
//!
//! CME's schema is built into `barewire-sbe` this way (`barewire_sbe::mdp3`). For another exchange's, add to `Cargo.toml`
//! ```toml
//! [dependencies]
//! barewire-sbe = "0.1"
//! [build-dependencies]
//! barewire-sbe-gen = "0.1"
//! ```
//! write `build.rs`
//! ```no_run
//! fn main() {
//!     if let Err(error) = barewire_sbe_gen::Generator::new().xml_file("schema/venue.xml", "venue.rs") {
//!         panic!("{error}"); // schema/venue.xml: line 12, column 5: no type `Prise`; did you mean `Price`?
//!     }
//! }
//! ```
//! and include what it wrote:
//! ```ignore
//! pub mod venue {
//!     include!(concat!(env!("OUT_DIR"), "/venue.rs"));
//! }
//!
//! let message = venue::message(bytes)?;                   // the header; what it says of the rest is not yet judged
//! match message.template_id {
//!     venue::template::TRADE => {
//!         let trade = venue::Trade::decode(&message)?;    // everything is checked here; accessors cannot fail
//!         for leg in trade.legs() { println!("{:?}", leg.price()); }
//!     }
//!     _ => {}
//! }
//! ```
//! The first page of `barewire-sbe` has the mapping from schema to Rust. Beyond what CME uses: big-endian schemas, headers of messages and
//! groups of other widths, floating-point numbers, arrays, composites (a view; `bytes()` as they lie there), groups within
//! groups, and data of variable length (`&[u8]`). Groups whose entries have groups or data of their own are a `NestedGroup`,
//! which is iterated and not indexed. Messages are taken from a slice that begins with the message header; what frames
//! them (a size, a length of the datagram) is the exchange's own.
//!
//! [`layout::Schema`] is a schema as data, for those who read it at run time (`barewire_sbe::dynamic`).
#![forbid(unsafe_code)]
// The example of a build script is one.
#![allow(clippy::needless_doctest_main)]
#![warn(missing_docs)]

pub mod layout;
mod names;
mod render;

use layout::{LayoutError, Schema, XmlError};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why no Rust was written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The schema makes no sense.
    #[error("{}: {source}", path.display())]
    Xml {
        /// The schema's file.
        path: PathBuf,
        /// Where, and what is wrong.
        source: XmlError,
    },
    /// The description makes no sense.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// `OUT_DIR` is not set: this is no build script.
    #[error("OUT_DIR is not set: run this from a build script, or use `source`")]
    NoOutDir,
}

/// Writes the Rust of a schema.
#[derive(Clone, Debug)]
pub struct Generator {
    runtime: String,
    size_prefix: bool,
}

impl Default for Generator {
    fn default() -> Self {
        Generator { runtime: "::barewire_sbe".to_owned(), size_prefix: false }
    }
}

impl Generator {
    /// For a crate that depends on `barewire-sbe`.
    pub fn new() -> Self {
        Generator::default()
    }

    /// The path of the crate `barewire-sbe` where it is not `::barewire_sbe`.
    #[must_use]
    pub fn runtime(mut self, path: &str) -> Self {
        path.clone_into(&mut self.runtime);
        self
    }

    /// Encoders write a little-endian size of 16 bits before each message, which counts itself, as CME frames messages.
    #[must_use]
    pub fn size_prefix(mut self) -> Self {
        self.size_prefix = true;
        self
    }

    /// The Rust for `schema`: the contents of a module.
    pub fn source(&self, schema: &Schema) -> String {
        render::module(schema, &self.runtime, self.size_prefix)
    }

    /// In a build script: reads the schema's XML at `xml`, writes the Rust to `name` in `OUT_DIR`, and has the script run again
    /// when the schema changes.
    ///
    /// # Errors
    /// [`GenerateError`], with file, line and column for what is wrong with the schema.
    pub fn xml_file(&self, xml: impl AsRef<Path>, name: &str) -> Result<(), GenerateError> {
        let path = xml.as_ref();
        println!("cargo:rerun-if-changed={}", path.display());
        let file = |source| GenerateError::File { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(file)?;
        let schema = Schema::from_xml(&text);
        let schema = schema.map_err(|source| GenerateError::Xml { path: path.to_owned(), source })?;
        self.write(&schema, name)
    }

    /// In a build script: writes the Rust for `schema` to `name` in `OUT_DIR`.
    ///
    /// # Errors
    /// [`GenerateError::File`], [`GenerateError::NoOutDir`].
    pub fn write(&self, schema: &Schema, name: &str) -> Result<(), GenerateError> {
        let folder = std::env::var_os("OUT_DIR").ok_or(GenerateError::NoOutDir)?;
        let path = Path::new(&folder).join(name);
        std::fs::write(&path, self.source(schema)).map_err(|source| GenerateError::File { path, source })
    }
}
