//! The kernel's engine in Mininet, by the classes of `bindings/mininet`.

use barewire_netns::{Namespace, is_root_capable};
use barewire_testing::{Needs, have, program};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian packages Mininet for its own Python, which need not be the first one in the path.
fn python_of_mininet() -> Result<&'static str, String> {
    let imports = |python: &&str| {
        let asked = Command::new(python).args(["-c", "import mininet"]).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(imports);
    found.ok_or_else(|| "no python3 here imports mininet (Debian package mininet)".to_owned())
}

/// Streams, pings, a link down and up, the switch stopped and started, in a network namespace of the test's own.
#[test]
fn a_program_in_the_kernel_between_hosts_of_mininet() {
    between_hosts_of_mininet(None);
}

/// The same by p4lang's own classes, which start the switch as they start bmv2, under the name of its program.
#[test]
fn a_program_in_the_kernel_under_the_name_of_bmv2() {
    let given =
        std::env::var_os(P4LANG).map(PathBuf::from).filter(|folder| folder.join("p4_mininet.py").is_file());
    match given {
        Some(folder) => between_hosts_of_mininet(Some(&folder)),
        None => println!(
            "SKIPPED: {P4LANG} names no folder with p4lang's p4_mininet.py (bmv2's source has it in mininet/)"
        ),
    }
}

const P4LANG: &str = "BAREWIRE_P4_MININET";

fn between_hosts_of_mininet(p4lang: Option<&Path>) {
    let Some(()) = have(Needs::Root, is_root_capable()) else { return };
    let Some(_) = have(Needs::Peers, program("mnexec")) else { return };
    let Some(python) = have(Needs::Peers, python_of_mininet()) else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let folder = tempfile::tempdir().expect("a folder");
    let space = Namespace::anonymous().expect("a namespace");
    space.set_up("lo").expect("the switch answers there");
    let mut command = Command::new(python);
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(root.join("crates/tools/cli/tests/mininet/kernel.py"))
        .arg(root.join("bindings/mininet"))
        .arg(env!("CARGO_BIN_EXE_barewire"))
        .arg(root.join("programs/simple_router.p4"))
        .arg(folder.path())
        .args(p4lang)
        .env("BAREWIRE_ENGINE", "kernel")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = space.spawn_in(&mut command).expect("it starts");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    let switch = std::fs::read_to_string(folder.path().join("s1.log")).unwrap_or_default();
    assert!(
        output.status.success() && said.contains("mininet: all well"),
        "{said}\n{}\nthe switch: {switch}",
        String::from_utf8_lossy(&output.stderr)
    );
}
