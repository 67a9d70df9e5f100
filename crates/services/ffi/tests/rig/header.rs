//! Headers that are generated from a library's source, and compared with those committed.

use cbindgen::{Builder, Config, DocumentationStyle, Language};
use std::path::Path;

/// How a header is made.
pub struct Header {
    /// Its name in bindings/c.
    pub file: &'static str,
    /// What it begins with.
    pub head: &'static str,
    pub guard: &'static str,
    /// Of types: in Rust, in C.
    pub names: &'static [(&'static str, &'static str)],
    /// Files of the library's source, in the header's order.
    pub source: &'static [&'static str],
}

impl Header {
    fn generate(&self) -> String {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut config = Config {
            language: Language::C,
            header: Some(self.head.to_owned()),
            include_guard: Some(self.guard.to_owned()),
            no_includes: true,
            sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
            cpp_compat: true,
            documentation_style: DocumentationStyle::Doxy,
            usize_is_size_t: true,
            line_length: 110,
            ..Config::default()
        };
        for (rust, c) in self.names {
            config.export.rename.insert((*rust).to_owned(), (*c).to_owned());
        }
        let mut builder = Builder::new().with_config(config);
        for file in self.source {
            builder = builder.with_src(source.join(file));
        }
        let mut header = Vec::new();
        builder.generate().expect("the source can be read").write(&mut header);
        // What Rust's documentation calls the safety contract is what the head says once for all of C.
        let mut text = String::new();
        let mut skipping = false;
        for line in String::from_utf8(header).unwrap().lines() {
            let bare = line.trim_start().trim_start_matches('*').trim();
            if bare == "# Safety" {
                skipping = true;
                while text.ends_with(" *\n") {
                    text.truncate(text.len() - 3);
                }
            }
            skipping &= bare != "/";
            if !skipping {
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        text
    }

    /// Fails where the committed header is not what the source says.
    pub fn check(&self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bindings/c").join(self.file);
        let generated = self.generate();
        if std::env::var_os("BAREWIRE_BLESS").is_some() {
            std::fs::write(&path, &generated).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        for (i, (a, b)) in committed.lines().zip(generated.lines()).enumerate() {
            assert_eq!(a, b, "line {}: BAREWIRE_BLESS=1 writes the header anew", i + 1);
        }
        assert_eq!(committed.len(), generated.len(), "BAREWIRE_BLESS=1 writes the header anew");
    }
}
