//! Tests that cannot run here: loud, and failures where [`REQUIRE`] says that they can.

use crate::{Needs, REQUIRE};
use std::fmt::Display;
use std::os::unix::fs::MetadataExt as _;
use std::panic::Location;
use std::path::{Path, PathBuf};

/// Says that the test that calls it does nothing, and why; the test returns after it.
///
/// `make test` counts the line, once for each test.
///
/// # Panics
/// When [`REQUIRE`] names `needs`, or a word that is not known.
#[track_caller]
pub fn skip(needs: Needs, why: impl Display) {
    said("SKIPPED", needs, &why);
}

/// As [`skip`], for a part of a test whose rest goes on: it is told and not counted.
///
/// # Panics
/// As [`skip`].
#[track_caller]
pub fn skip_part(needs: Needs, why: impl Display) {
    said("SKIPPED IN PART", needs, &why);
}

#[track_caller]
fn said(verdict: &str, needs: Needs, why: &dyn Display) {
    let required = Needs::parse_list(&std::env::var(REQUIRE).unwrap_or_default());
    let required = required.unwrap_or_else(|unknown| panic!("{unknown}"));
    assert!(!required.contains(&needs), "{REQUIRE} names `{needs}`, and this test lacks it: {why}");
    println!("{verdict}: {}: {why} (`{needs}`)", this_test());
}

/// The test that calls: its thread's name, or where the call stands when all tests share one thread.
#[track_caller]
pub(crate) fn this_test() -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => {
            let here = Location::caller();
            format!("{}:{}", here.file(), here.line())
        }
    }
}

/// What was found; `None`, and told as by [`skip`], when something is missing.
///
/// # Panics
/// As [`skip`].
#[track_caller]
pub fn have<T>(needs: Needs, found: Result<T, impl Display>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(why) => {
            skip(needs, why);
            None
        }
    }
}

/// As [`have`], for a part of a test whose rest goes on.
///
/// # Panics
/// As [`skip`].
#[track_caller]
pub fn have_part<T>(needs: Needs, found: Result<T, impl Display>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(why) => {
            skip_part(needs, why);
            None
        }
    }
}

/// Whether this process is root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Whether this process is root, and [`skip`] when it is not.
///
/// # Panics
/// As [`skip`].
#[track_caller]
pub fn root() -> bool {
    let is_root = is_root();
    if !is_root {
        skip(Needs::Root, "this process is not root");
    }
    is_root
}

/// A file or folder of the folder `shared` beside the repository, such as `data/p4`; [`skip`] where it is not there.
///
/// # Panics
/// As [`skip`].
#[track_caller]
pub fn shared(path: &str) -> Option<PathBuf> {
    have(Needs::Shared, find_shared(path))
}

/// As [`shared`], for tests that can do without.
///
/// # Errors
/// Words that say what is not there.
pub fn find_shared(path: &str) -> Result<PathBuf, String> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap_or(Path::new("/"));
    let whole = repository.parent().unwrap_or(repository).join("shared").join(path);
    if whole.exists() { Ok(whole) } else { Err(format!("no `shared/{path}` beside the repository")) }
}

/// Where a program of the system is: on the `PATH`, or where Debian keeps those of root.
///
/// # Errors
/// Words that say that it is not installed.
pub fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| format!("`{name}` is not installed"))
}
