//! Has functions of the same machine code linked as one, where the linker can do that: of a release some hundreds of kilobytes are drop
//! glue and generic code that differs in types only.
//!
//! `ld.lld`, which rustc uses on x86-64 with glibc, and `mold` know `--icf=all`; GNU's linker, usual everywhere else, refuses it. Which one
//! links is up to the target, the distribution's rustc and the user's flags, so it is asked: a program of one line is linked that way.
//!
//! It is safe. Addresses of functions mean nothing in Rust: LLVM may merge and copy them already, and nothing of ours compares any. Only
//! code is folded, never data, so vtables, wakers and statics stay apart. Code with landing pads, which `catch_unwind` and every unwinding
//! destructor need, is left alone. A profiler may show a folded function under the name of its twin.

use std::env::var_os;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const FOLD: &str = "-Wl,--icf=all";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Programs for tests are linked often, and go to no other host.
    if var_os("PROFILE").is_some_and(|profile| profile == "release") && links_with(FOLD) == Some(true) {
        println!("cargo:rustc-link-arg-bins={FOLD}");
    }
}

/// Whether the linker takes this argument. `None`: it could not be asked, and the program is as good without.
fn links_with(argument: &str) -> Option<bool> {
    let folder = PathBuf::from(var_os("OUT_DIR")?);
    let source = folder.join("asked.rs");
    std::fs::write(&source, "fn main() {}\n").ok()?;
    let mut rustc = Command::new(var_os("RUSTC")?);
    rustc.arg(&source).arg("-o").arg(folder.join("asked")).arg("--target").arg(var_os("TARGET")?);
    if let Some(linker) = var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", linker.to_str()?));
    }
    let flags = var_os("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.to_str()?.split('\x1f').filter(|flag| !flag.is_empty()));
    rustc.arg("-C").arg(format!("link-arg={argument}")).stdout(Stdio::null()).stderr(Stdio::null());
    rustc.status().ok().map(|status| status.success())
}
