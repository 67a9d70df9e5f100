//! Two daemons on one link, and C programs between them.
#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

pub mod natives;
pub mod programs;

pub use programs::{Program, bindings, compile, compile_with, declared, exported, have, library, sanitizers};

use barewire_client::Geometry;
use barewire_daemon::{Config, Daemon};
use barewire_testing::Folder;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// 10.9.0.1 and 10.9.0.2.
pub struct Rig {
    pub a: Option<Daemon>,
    pub b: Option<Daemon>,
    pub dir: Folder,
}

impl Rig {
    pub fn start(label: &str) -> Rig {
        let dir = Folder::new(label);
        let mut rig = Rig { a: None, b: None, dir };
        rig.a = Some(rig.daemon(1, "first"));
        rig.b = Some(rig.daemon(2, "first"));
        rig
    }

    /// With channels so small that everything is full now and then.
    pub fn start_small(label: &str) -> Rig {
        let mut rig = Rig { a: None, b: None, dir: Folder::new(label) };
        let small = Geometry { sq_entries: 16, cq_entries: 64, send_bytes: 128 << 10, recv_bytes: 128 << 10 };
        rig.a = Some(rig.daemon_with(1, "first", small));
        rig.b = Some(rig.daemon_with(2, "first", small));
        rig
    }

    pub fn start_with(label: &str, channel: Geometry) -> Rig {
        let mut rig = Rig { a: None, b: None, dir: Folder::new(label) };
        rig.a = Some(rig.daemon_with(1, "first", channel));
        rig.b = Some(rig.daemon_with(2, "first", channel));
        rig
    }

    /// With what `change` makes of each host's configuration.
    pub fn start_by(label: &str, change: impl Fn(&mut Config, u8)) -> Rig {
        let mut rig = Rig { a: None, b: None, dir: Folder::new(label) };
        let daemon = |host| {
            let mut config = rig.config(host, "first", Geometry::DEFAULT);
            change(&mut config, host);
            Some(Daemon::start(&config).unwrap())
        };
        (rig.a, rig.b) = (daemon(1), daemon(2));
        rig
    }

    fn daemon(&self, host: u8, link: &str) -> Daemon {
        self.daemon_with(host, link, Geometry::DEFAULT)
    }

    fn daemon_with(&self, host: u8, link: &str, channel: Geometry) -> Daemon {
        Daemon::start(&self.config(host, link, channel)).unwrap()
    }

    fn config(&self, host: u8, link: &str, channel: Geometry) -> Config {
        let name = self.dir.path().file_name().unwrap().to_str().unwrap();
        let mut config = Config::new(&format!("mem:{name}-{link}"), Ipv4Addr::new(10, 9, 0, host), 24);
        config.name = format!("{name}-{host}-{link}");
        config.socket = self.socket(host);
        config.channel = channel;
        config
    }

    /// Another daemon in the place of one that was stopped, on a link of its own.
    pub fn restart_a(&mut self) {
        self.a = Some(self.daemon(1, "second"));
    }

    pub fn socket(&self, host: u8) -> PathBuf {
        self.dir.path().join(format!("{host}.sock"))
    }
}
