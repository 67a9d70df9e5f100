//! p4lang's own `p4runtime-shell` against our server, when this machine has it (`BAREWIRE_PYTHON` names the Python).

use crate::rig::*;
use barewire_testing::{Needs, skip};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn the_shell_of_p4lang_works() {
    let python = std::env::var("BAREWIRE_PYTHON").unwrap_or_else(|_| "python3".into());
    let there = Command::new(&python).args(["-c", "import p4runtime_sh"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        return skip(Needs::Python, format!("{python} has no p4runtime_sh (pip install p4runtime-shell)"));
    }
    let rig = Rig::with_ports(2);
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let mut child = Command::new(&python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/p4runtime/shell.py"))
        .arg(rig.grpc.as_ref().unwrap().local_addr().to_string())
        .arg(DEVICE.to_string())
        .arg(format!("{data}/control.p4info.txtpb"))
        .arg(format!("{data}/control.json"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python was there a moment ago");
    let mut waited = Duration::ZERO;
    while child.try_wait().expect("our own child").is_none() {
        if waited > PATIENCE {
            child.kill().expect("our own child");
        }
        std::thread::sleep(Duration::from_millis(20));
        waited += Duration::from_millis(20);
    }
    let output = child.wait_with_output().expect("it has ended");
    let text =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("all done"), "{text}");
    let table = rig.switch().table("IngressImpl.lpm_table").unwrap();
    assert_eq!(rig.switch().num_entries(table).unwrap(), 1);
    rig.stop();
}
