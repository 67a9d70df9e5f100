//! ptf, p4lang's packet test framework, through P4Runtime and over real interfaces, when this machine has it
//! (`BAREWIRE_PYTHON` names the Python). The test runs itself again inside a network namespace of its own.

use crate::rig::*;
use barewire_testing::{Needs, skip};
use std::path::Path;
use std::process::{Command, Stdio};

const INSIDE: &str = "BAREWIRE_PTF_INSIDE";
const NAME: &str = "ptf::packets_of_ptf_pass";

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    let text =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(text) } else { Err(format!("{command:?}: {}\n{text}", output.status)) }
}

fn ip(words: &str) -> Result<String, String> {
    run(Command::new("ip").args(words.split(' ')))
}

#[test]
fn packets_of_ptf_pass() {
    let python = std::env::var("BAREWIRE_PYTHON").unwrap_or_else(|_| "python3".into());
    if std::env::var_os(INSIDE).is_some() {
        return inside(&python);
    }
    if let Err(error) = run(Command::new(&python).args(["-c", "import p4runtime_sh, ptf, bf_pktpy"])) {
        let why = format!("{python} has no p4runtime_sh and ptf (pip install p4runtime-shell ptf): {error}");
        return skip(Needs::Python, why);
    }
    if let Err(error) = run(Command::new("unshare").args(["--net", "true"])) {
        return skip(Needs::Root, error);
    }
    let this = std::env::current_exe().unwrap();
    let mut again = Command::new("timeout");
    again.args(["120", "unshare", "--net"]).arg(this).args(["--exact", NAME, "--nocapture"]).env(INSIDE, "1");
    let text = run(&mut again).unwrap_or_else(|error| panic!("{error}"));
    assert!(text.contains("ptf passed"), "{text}");
}

fn inside(python: &str) {
    ip("link set lo up").unwrap();
    for port in 1..=3 {
        ip(&format!("link add s{port} type veth peer name h{port}")).unwrap();
        for end in [format!("s{port}"), format!("h{port}")] {
            // Neighbour discovery would be packets that nobody expects.
            let quiet = format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6");
            if Path::new(&quiet).exists() {
                std::fs::write(&quiet, "1").unwrap();
            }
            ip(&format!("link set {end} up")).unwrap();
        }
    }
    let rig = Rig::with_uris((1..=3).map(|port| format!("packet:s{port}")).collect());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/p4runtime");
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let address = rig.grpc.as_ref().unwrap().local_addr();
    let work = std::env::temp_dir().join(format!("barewire-ptf-{}", std::process::id()));
    std::fs::create_dir_all(&work).unwrap();
    let ptf = Path::new(python).with_file_name("ptf");
    let mut command = if ptf.is_file() {
        let mut command = Command::new(python);
        command.arg(ptf);
        command
    } else {
        Command::new("ptf")
    };
    command
        .current_dir(&work)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["--test-dir", &format!("{folder}/ptf"), "--pypath", folder])
        .args(["--packet-manipulation-module", "bf_pktpy.ptf.packet_pktpy"])
        .args(["--interface", "1@h1", "--interface", "2@h2", "--interface", "3@h3"])
        .args(["--test-params", &format!("address='{address}';device={DEVICE};data='{data}'")]);
    let result = run(&mut command);
    std::fs::remove_dir_all(&work).unwrap();
    let text = result.unwrap_or_else(|error| panic!("{error}"));
    assert!(text.contains("OK"), "{text}");
    println!("ptf passed");
    rig.stop();
}
