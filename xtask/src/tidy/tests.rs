//! The repository is tidy; and a canary for each rule: a small tree in which it must fire.

use super::{Finding, check};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[test]
fn the_repository_is_tidy() {
    let findings = check(&crate::root()).unwrap();
    let list: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "{} findings:\n{}", list.len(), list.join("\n"));
}

/// A made-up repository, removed when dropped.
struct House(PathBuf);

impl Drop for House {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SOUND: &str = "//! A crate.\n#![forbid(unsafe_code)]\n";

impl House {
    /// One sound crate on each floor, and nothing wrong.
    fn new() -> House {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("barewire-tidy-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let house = House(std::env::temp_dir().join(name));
        house.write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*/*\"]\n[workspace.lints]\n",
        );
        house.member("ground/base", "");
        house.member("ports/port", "base = { path = \"../../ground/base\" }");
        house.member("protocols/host", "base = { path = \"../../ground/base\" }");
        house.member(
            "runtime/engine",
            "port = { path = \"../../ports/port\" }\nhost = { path = \"../../protocols/host\" }",
        );
        house.member("services/daemon", "engine = { path = \"../../runtime/engine\" }");
        house.member("tools/cli", "daemon = { path = \"../../services/daemon\" }");
        house
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn member(&self, place: &str, dependencies: &str) {
        let name = place.rsplit('/').next().unwrap();
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lints]\nworkspace = true\n\n\
             [dependencies]\n{dependencies}\n"
        );
        self.write(&format!("crates/{place}/Cargo.toml"), &manifest);
        self.write(&format!("crates/{place}/src/lib.rs"), SOUND);
    }

    fn findings(&self) -> Vec<Finding> {
        check(&self.0).unwrap()
    }

    /// The rule fires once, at `file`, and no other does.
    #[track_caller]
    fn expect(&self, rule: &str, file: &str) -> Finding {
        let findings = self.findings();
        let list: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(findings.len(), 1, "{}", list.join("\n"));
        assert_eq!((findings[0].rule, findings[0].file.as_str()), (rule, file));
        assert!(!findings[0].reason.is_empty() && !findings[0].hint.is_empty());
        findings[0].clone()
    }

    #[track_caller]
    fn expect_none(&self) {
        assert_eq!(self.findings(), []);
    }
}

#[test]
fn a_sound_house_has_no_findings() {
    House::new().expect_none();
}

#[test]
fn who_asks_for_the_time_of_day() {
    let house = House::new();
    let call = |path| format!("{SOUND}pub fn date() -> u64 {{\n    {path}()\n}}\n");
    house.write("crates/services/daemon/src/lib.rs", &call("measure::realtime_ns"));
    assert_eq!(house.expect("wall clock", "crates/services/daemon/src/lib.rs").line, 4);
    house.write(
        "crates/services/daemon/src/lib.rs",
        &format!("{SOUND}/// Not `CLOCK_REALTIME`.\npub const BWF_CLOCK_REALTIME: u8 = 1;\n"),
    );
    house.write("crates/tools/cli/src/lib.rs", &call("measure::realtime_ns"));
    house.write("crates/services/daemon/tests/dates.rs", &call("measure::realtime_ns"));
    house.expect_none();
    house.write("crates/protocols/host/src/lib.rs", &call("std::time::SystemTime::now"));
    house.expect("wall clock", "crates/protocols/host/src/lib.rs");
}

#[test]
fn an_arrow_that_climbs() {
    let house = House::new();
    house.member("ground/base", "port = { path = \"../../ports/port\", optional = true }");
    house.write("crates/ports/port/Cargo.toml", &manifest_without_needs("port"));
    let finding = house.findings();
    // `host` needs `base`, which now needs `port`: only the one arrow is wrong.
    assert_eq!(finding.len(), 1, "{finding:?}");
    assert_eq!((finding[0].rule, finding[0].file.as_str()), ("arrow", "crates/ground/base/Cargo.toml"));
    assert_eq!(finding[0].reason, "`base` (floor 1) depends on `port` (floor 2)");
}

fn manifest_without_needs(name: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lints]\nworkspace = true\n"
    )
}

#[test]
fn an_arrow_between_the_wings() {
    let house = House::new();
    house.member("ports/port", "host = { path = \"../../protocols/host\" }");
    house.expect("arrow", "crates/ports/port/Cargo.toml");
    let house = House::new();
    house.member("protocols/host", "port = { path = \"../../ports/port\" }");
    house.expect("arrow", "crates/protocols/host/Cargo.toml");
}

#[test]
fn a_build_dependency_is_an_arrow_and_a_dev_dependency_is_none() {
    let house = House::new();
    house.member("ground/wire", "\n[build-dependencies]\ndaemon = { path = \"../../services/daemon\" }");
    house.expect("arrow", "crates/ground/wire/Cargo.toml");
    house.member("ground/wire", "\n[dev-dependencies]\ndaemon = { path = \"../../services/daemon\" }");
    house.expect_none();
    house.member("ground/wire", "base = { path = \"../base\" }");
    house.expect_none();
}

#[test]
fn only_tests_stand_on_what_is_for_tests() {
    let house = House::new();
    house.member("dev/testing", "");
    house.member("ground/wire", "\n[dev-dependencies]\ntesting = { path = \"../../dev/testing\" }");
    house.expect_none();
    house.member("tools/lab", "testing = { path = \"../../dev/testing\" }");
    house.expect("arrow", "crates/tools/lab/Cargo.toml");
}

#[test]
fn a_circle() {
    let house = House::new();
    house.member("ground/wire", "frame = { path = \"../frame\" }");
    house.member("ground/frame", "wire = { path = \"../wire\" }");
    let rules: Vec<_> = house.findings().iter().map(|f| (f.rule, f.file.clone())).collect();
    let circle = |name: &str| ("circle", format!("crates/ground/{name}/Cargo.toml"));
    assert_eq!(rules, [circle("frame"), circle("wire")]);
}

#[test]
fn a_circle_through_tests() {
    let house = House::new();
    house.member("ground/frame", "wire = { path = \"../wire\" }");
    house.member("ground/wire", "\n[dev-dependencies]\nframe = { path = \"../frame\" }");
    house.expect_none();
    house.member("ground/wire", "\n[dev-dependencies]\nframe = { path = \"../frame\", version = \"0.1.0\" }");
    house.expect("circle", "crates/ground/wire/Cargo.toml");
}

#[test]
fn a_crate_on_no_floor() {
    let house = House::new();
    house.member("cellar/base2", "");
    house.expect("floor", "crates/cellar/base2/Cargo.toml");
}

#[test]
fn unsafe_outside_the_islands() {
    let house = House::new();
    house.write("crates/runtime/engine/src/idle.rs", "// unsafe\nfn f() { unsafe { g() } }\n");
    assert_eq!(house.expect("unsafe", "crates/runtime/engine/src/idle.rs").line, 2);
    // Tests of other crates are code too.
    let house = House::new();
    house.write("crates/runtime/engine/tests/a.rs", "unsafe fn f() {}\n");
    house.expect("unsafe", "crates/runtime/engine/tests/a.rs");
    let house = House::new();
    house.write("crates/runtime/engine/tests/no_alloc.rs", "unsafe impl GlobalAlloc for A {}\n");
    house.expect_none();
    // An island, and a sys module.
    house.member("ground/frame", "");
    house.write("crates/ground/frame/src/lib.rs", "//! A crate.\nunsafe fn f() {}\n");
    house.write("crates/runtime/engine/src/sys.rs", "unsafe fn f() {}\n");
    house.write("crates/runtime/engine/src/sys/more.rs", "unsafe fn f() {}\n");
    house.write("crates/runtime/engine/src/lib.rs", "//! A crate.\n#![deny(unsafe_code)]\n");
    house.expect_none();
}

#[test]
fn a_root_that_forbids_nothing() {
    let house = House::new();
    house.write("crates/ground/base/src/lib.rs", "//! A crate.\n// #![forbid(unsafe_code)]\n");
    house.expect("forbid", "crates/ground/base/src/lib.rs");
    // `deny` does not do without a sys module, and nothing at all does not do with one.
    house.write("crates/ground/base/src/lib.rs", "//! A crate.\n#![deny(unsafe_code)]\n");
    house.expect("forbid", "crates/ground/base/src/lib.rs");
    house.write("crates/ground/base/src/sys.rs", "unsafe fn f() {}\n");
    house.expect_none();
    house.write("crates/ground/base/src/lib.rs", "//! A crate.\n");
    house.expect("forbid", "crates/ground/base/src/lib.rs");
}

#[test]
fn a_file_that_is_too_long() {
    let house = House::new();
    house.write("crates/ground/base/src/long.rs", &"//\n".repeat(800));
    house.expect_none();
    house.write("crates/ground/base/src/long.rs", &"//\n".repeat(801));
    house.expect("length", "crates/ground/base/src/long.rs");
}

#[test]
fn markers_of_unfinished_work() {
    for marker in ["todo!()", "unimplemented!(\"later\")", "dbg!(x)", "std::todo!()"] {
        let house = House::new();
        house.write("crates/ground/base/src/a.rs", &format!("fn f() {{\n    {marker};\n}}\n"));
        assert_eq!(house.expect("marker", "crates/ground/base/src/a.rs").line, 2);
        house.write(
            "crates/ground/base/src/a.rs",
            &format!("// {marker}\nconst A: &str = r#\"{marker}\"#;\n"),
        );
        house.expect_none();
    }
    let house = House::new();
    for ignored in ["#[ignore]", "#[ignore = \"flaky\"]"] {
        house.write("crates/ground/base/src/a.rs", &format!("#[test]\n{ignored}\nfn f() {{}}\n"));
        house.expect("marker", "crates/ground/base/src/a.rs");
    }
    house.write("crates/ground/base/src/a.rs", "#[test]\n#[ignore = \"the child of `g`\"]\nfn f() {}\n");
    house.expect_none();
}

#[test]
fn vague_names() {
    let house = House::new();
    house.write("crates/ground/base/src/utils/mod.rs", "");
    house.expect("vague-name", "crates/ground/base/src/utils");
    let house = House::new();
    house.write("crates/ground/base/src/common.rs", "");
    house.expect("vague-name", "crates/ground/base/src/common");
    let house = House::new();
    house.member("ground/common", "");
    house.expect("vague-name", "crates/ground/common");
    let house = House::new();
    house.write("crates/ground/base/tests/common/mod.rs", "");
    house.expect_none();
}

#[test]
fn lints_that_are_not_inherited() {
    let house = House::new();
    let package = "[package]\nname = \"base\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    house.write("crates/ground/base/Cargo.toml", package);
    house.expect("lints", "crates/ground/base/Cargo.toml");
    house.write("crates/ground/base/Cargo.toml", &format!("{package}[lints]\n# workspace = true\n"));
    house.expect("lints", "crates/ground/base/Cargo.toml");
    house.write("crates/ground/base/Cargo.toml", &format!("lints.workspace = true\n{package}"));
    house.expect_none();
}

#[test]
fn paths_of_one_machine() {
    for folder in ["home", "root", "work"] {
        let house = House::new();
        house.write("labs/a.toml", &format!("# a\nfile = \"/{folder}/carol/x\"\n"));
        assert_eq!(house.expect("machine-path", "labs/a.toml").line, 2);
        // Not ours: build output, what cargo writes, what is no text.
        let house = House::new();
        for path in ["target/a.txt", ".git/config", "Cargo.lock", "fuzz/corpus/wire/a"] {
            house.write(path, &format!("# /{folder}/carol/x\n"));
        }
        let mut binary = format!("/{folder}/carol/x\n").into_bytes();
        binary.push(0xff);
        fs::write(house.0.join("a.bin"), binary).unwrap();
        let findings = check_files_only(&house);
        assert_eq!(findings, []);
    }
}

/// Without cargo, which does not read a made-up lock file.
fn check_files_only(house: &House) -> Vec<Finding> {
    let tree = super::Tree::load(&house.0).unwrap();
    let mut findings = Vec::new();
    super::files::check(&super::Workspace { members: Vec::new() }, &tree, &mut findings);
    findings
}

#[test]
fn tabs_in_rust() {
    let house = House::new();
    house.write("Makefile", "all:\n\tcargo build\n");
    house.expect_none();
    house.write("crates/ground/base/src/a.rs", "fn f() {\n\tg()\n}\n");
    assert_eq!(house.expect("tab", "crates/ground/base/src/a.rs").line, 2);
}

#[test]
fn a_crate_that_the_map_does_not_show() {
    let house = House::new();
    house.write("ARCHITECTURE.md", "base port host engine daemon\n");
    assert!(house.expect("map", "ARCHITECTURE.md").reason.contains("`cli`"));
    // A part of another word is no mention.
    house.write("ARCHITECTURE.md", "base port host engine daemon client\n");
    house.expect("map", "ARCHITECTURE.md");
    house.write("ARCHITECTURE.md", "base port host engine daemon `cli/`\n");
    house.expect_none();
}

#[test]
fn a_document_that_names_what_is_gone() {
    let house = House::new();
    house.write(
        "README.md",
        "See crates/ground/base/src/lib.rs, `crates/ground/base/`, crates/*/* and crates/{a,b}.\n",
    );
    house.expect_none();
    house.write("README.md", "# a\nSee crates/ground/gone.\n");
    assert_eq!(house.expect("dead-path", "README.md").line, 2);
    let house = House::new();
    house.write("CHANGELOG.md", "crates/old moved\n");
    house.expect("dead-path", "CHANGELOG.md");
}

#[test]
fn a_root_without_a_head() {
    let house = House::new();
    house.write("crates/ground/base/src/lib.rs", "#![forbid(unsafe_code)]\n");
    house.expect("head", "crates/ground/base/src/lib.rs");
    let house = House::new();
    house.write("crates/ground/base/src/main.rs", "// no head\n#![forbid(unsafe_code)]\nfn main() {}\n");
    house.expect("head", "crates/ground/base/src/main.rs");
}

#[test]
fn findings_read_well() {
    let house = House::new();
    house.write("crates/ground/base/src/a.rs", "fn f() {\n    dbg!(1);\n}\n");
    let text = house.expect("marker", "crates/ground/base/src/a.rs").to_string();
    assert_eq!(text, "crates/ground/base/src/a.rs:2: [marker] `dbg!`\n    hint: finish it, or take it out");
}

#[test]
fn a_house_without_a_workspace_is_an_error() {
    let house = House::new();
    fs::remove_file(house.0.join("Cargo.toml")).unwrap();
    assert!(check(&house.0).is_err());
}

#[test]
fn a_crate_that_is_built_from_what_lies_outside() {
    let house = House::new();
    let path = "crates/ground/base/src/data/mod.rs";
    let reads = |path| {
        format!("//! Data.\n// include_str!(\"../../../x\")\nconst TEXT: &str = include_str!({path});\n")
    };
    for inside in ["\"text\"", "\"../../text\"", "concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/text\")"] {
        house.write(path, &reads(inside));
        house.expect_none();
    }
    for outside in [
        "\"../../../text\"",
        "concat!(\"../../../\", \"text\")",
        "concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../text\")",
    ] {
        house.write(path, &reads(outside));
        assert_eq!(house.expect("whole", path).line, 3);
    }
    house.write(path, &reads("\"text\""));
    let example = "crates/ground/base/examples/show.rs";
    house.write(example, "//! Shows.\n#[path = \"../support.rs\"]\nmod support;\n");
    house.expect_none();
    house.write(example, "//! Shows.\n#[path = \"../../support.rs\"]\nmod support;\n");
    assert_eq!(house.expect("whole", example).line, 2);
    house.write(example, "//! Shows.\n");
    house.write(
        path,
        &format!(
            "//! Data.\n#[cfg(test)]\nmod tests {{\n{}}}\n",
            reads("\"../../../text\"").replace("//! Data.\n", "")
        ),
    );
    house.expect_none();
    house.write(path, &reads("\"../../../text\""));
    let manifest = manifest_without_needs("base").replace("[package]\n", "[package]\npublish = false\n");
    house.write("crates/ground/base/Cargo.toml", &manifest);
    house.expect_none();
}
