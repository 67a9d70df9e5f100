//! A daemon in a process of its own, which can be killed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A host, in a process of its own.
pub struct ChildDaemon {
    pub process: Child,
}

impl ChildDaemon {
    pub fn start(dir: &Path, name: &str) -> ChildDaemon {
        ChildDaemon::start_host(dir, 1, name, &["keepalive=400", "keepalive_interval=300"])
    }

    /// Host 1 or 2, which are each other's only neighbours.
    pub fn start_host(dir: &Path, host: u8, name: &str, options: &[&str]) -> ChildDaemon {
        // Beside the directory that test programs are built in.
        let program = std::env::current_exe().unwrap();
        let program = program.parent().unwrap().parent().unwrap().join("examples/daemon");
        assert!(program.exists(), "{} is missing: cargo build --example daemon", program.display());
        let port = format!("unix:{0}/{host}.port,{0}/{1}.port", dir.display(), 3 - host);
        let mut process = Command::new(program)
            .args([port, format!("10.0.0.{host}/24")])
            .arg(dir.join(format!("{host}.sock")))
            .arg(name)
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        ChildDaemon { process }
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for ChildDaemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
