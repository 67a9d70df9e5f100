//! README and book: every block is run, compared or marked with the reason why not; every link leads somewhere.
//!
//! ```text
//! README.md, docs/src, ... -> pages.rs     fenced blocks and the marker above each
//!                          -> session.rs   one shell script a page; as root in namespaces of its own
//!                          -> output.rs    what was printed against what the page shows
//!                          -> links.rs     files and headings that links name, the built book
//! ```
//! A marker is an HTML comment alone on the line above its block:
//!
//! ```text
//! <!-- run [root] [background] [wait="TEXT"] [on=HOST] [exit=CODE] -->   run as a script; on=HOST: inside that host of the page's lab;
//!                                python3 finds the package of bindings/python, or none of the page's blocks is run where it cannot be had
//! <!-- output [background] -->   what the block before printed, numbers and times aside; a line `...` stands for any lines
//! <!-- file NAME -->             written into the page's folder for the blocks after it
//! <!-- code PATH -->             part of a file that is compiled or tested
//! <!-- diagram -->               nothing to run
//! <!-- not run: REASON -->       checked for its words only
//! <!-- setup [root] [on=HOST]    commands that the reader does not see, up to the line with the comment's end
//! ```
//! `BAREWIRE_UPDATE_DOCS=1 cargo test -p barewire-cli --test documents` writes outputs that differ into the pages.
#![forbid(unsafe_code)]

mod links;
#[path = "../../../../services/ffi/tests/rig/natives.rs"]
mod natives;
mod output;
mod pages;
#[path = "../patience/mod.rs"]
mod patience;
mod session;

use pages::{Kind, Page, read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Documents outside the book that are held to the same rules.
const DOCUMENTS: &[&str] = &["README.md", "CONTRIBUTING.md", "SECURITY.md", "labs/README.md"];
/// The book's pages.
const BOOK: &str = "docs/src";

/// Pages start daemons, labs and measurements, for which two cores are one place.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the repository")
}

/// Every page, by its path from the repository's root.
fn all_pages() -> Vec<String> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder of pages") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                below(&path, found);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    let root = root();
    let mut found = Vec::new();
    below(&root.join(BOOK), &mut found);
    let mut names: Vec<String> = DOCUMENTS.iter().map(|name| (*name).to_owned()).collect();
    names.extend(found.iter().map(|path| path.strip_prefix(&root).expect("below").display().to_string()));
    names.sort();
    names
}

/// Runs a page's blocks in order and compares what they print.
fn run_page(name: &str) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = root();
    let page = read(&root, name);
    assert!(
        page.blocks.iter().any(|b| matches!(b.kind, Kind::Run(_))),
        "{name} has nothing to run: take it off the list"
    );
    let ran = session::run(&root, &page);
    let faults = output::compare(&root, &page, &ran);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// One test for each page that has something to run, so that one of them can be run alone.
macro_rules! pages {
    ($($test:ident: $path:literal,)*) => {
        /// Pages with blocks to run.
        const RUN: &[&str] = &[$($path),*];
        $(#[test]
        fn $test() {
            run_page($path);
        })*
    };
}

pages! {
    readme: "README.md",
    getting_started: "docs/src/getting-started.md",
    from_machnet: "docs/src/from/machnet.md",
    from_bmv2: "docs/src/from/bmv2.md",
    from_market_data_sdk: "docs/src/from/market-data-sdk.md",
    from_libibverbs: "docs/src/from/libibverbs.md",
    messages: "docs/src/guides/messages.md",
    switch: "docs/src/guides/switch.md",
    engines: "docs/src/guides/engines.md",
    market_data: "docs/src/guides/market-data.md",
    python: "docs/src/bindings/python.md",
    rdma: "docs/src/guides/rdma.md",
    tuning: "docs/src/guides/tuning.md",
    metrics: "docs/src/guides/metrics.md",
    labs: "docs/src/guides/labs.md",
    experiments: "docs/src/guides/experiments.md",
    measuring: "docs/src/guides/measuring.md",
    reports: "docs/src/guides/reports.md",
    json: "docs/src/reference/json.md",
}

#[test]
fn every_block_has_a_marker_and_every_page_to_run_is_run() {
    let root = root();
    let mut faults = Vec::new();
    for name in all_pages() {
        let page = read(&root, &name);
        faults.extend(page.faults.iter().cloned());
        let runs = page.blocks.iter().any(|b| matches!(b.kind, Kind::Run(_)));
        if runs && !RUN.contains(&name.as_str()) {
            faults
                .push(format!("{name}: has blocks to run and is not on the list in tests/documents/main.rs"));
        }
        for block in &page.blocks {
            if let Kind::Code(path) = &block.kind {
                let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
                if !text.contains(block.text.trim_end()) && !documented(&text).contains(block.text.trim_end())
                {
                    faults.push(format!("{name}:{}: this is not in {path}: copy it from there", block.line));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The examples in the module documentation of a source file, as rustdoc shows them: what stands between them is no code.
fn documented(source: &str) -> String {
    let lines = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let lines =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).filter(|line| !line.starts_with("# "));
    let (mut out, mut fence) = (String::new(), None);
    for line in lines {
        match (line.strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(language),
            (Some(_), Some(_)) => {
                fence = None;
                // No block of a page goes on in the next example.
                out.push('\0');
            }
            (None, Some(language)) if language != "text" => {
                out.push_str(line);
                out.push('\n');
            }
            (None, _) => {}
        }
    }
    out
}

#[test]
fn prose_of_a_module_is_no_example() {
    let source = "//! Words.\n//!\n//! ```text\n//! a -> b\n//! ```\n//!\n//! ```\n//! let a = 1;\n//! # hidden();\n//! let b = a;\n//! ```\n//! More words.\n";
    assert_eq!(documented(source), "\0let a = 1;\nlet b = a;\n\0");
}

#[test]
fn links_lead_somewhere() {
    let faults = links::check(&root(), &all_pages());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_page_of_the_book_is_in_its_summary_once() {
    let root = root();
    let summary = std::fs::read_to_string(root.join(BOOK).join("SUMMARY.md")).expect("docs/src/SUMMARY.md");
    let faults: Vec<String> = all_pages()
        .iter()
        .filter_map(|name| name.strip_prefix("docs/src/"))
        .filter(|name| *name != "SUMMARY.md")
        .filter_map(|name| {
            let times = summary.matches(&format!("({name})")).count();
            (times != 1).then(|| format!("{name} is {times} times in docs/src/SUMMARY.md"))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_book_builds_without_a_warning_or_a_dead_link() {
    links::built(&root());
}

#[test]
fn the_readme_is_short() {
    let lines = std::fs::read_to_string(root().join("README.md")).expect("README.md").lines().count();
    assert!(lines <= 120, "{lines} lines; what is longer belongs into docs/");
}

/// The markers themselves, on a page made here.
#[test]
fn markers_are_read_and_slips_are_named() {
    let page = Page::parse(
        "p.md",
        "<!-- run root background wait=\"it serves\" on=h1 -->\n```sh\na\nb\n```\n\n<!-- output background -->\n```text\nx\n```\n```sh\nc\n```\n\
         <!-- runs -->\n```sh\nd\n```\n<!-- setup root\ne\n-->\n",
    );
    let Kind::Run(how) = &page.blocks[0].kind else { panic!("{:?}", page.blocks) };
    assert!(
        how.root
            && how.background
            && how.wait.as_deref() == Some("it serves")
            && how.on.as_deref() == Some("h1")
    );
    assert_eq!((page.blocks[0].text.as_str(), page.blocks[0].line), ("a\nb\n", 2));
    assert!(matches!(page.blocks[1].kind, Kind::Output { background: true }));
    assert!(
        matches!(&page.blocks[2].kind, Kind::Run(how) if how.hidden && how.root)
            && page.blocks[2].text == "e\n"
    );
    assert_eq!(page.faults.len(), 2, "{:?}", page.faults);
    assert!(page.faults[0].contains("p.md:11") && page.faults[1].contains("runs"), "{:?}", page.faults);
}
