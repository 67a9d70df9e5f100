//! A message daemon without a configuration file, for tests that need one in a process of its own.
//!
//! `daemon PORT IP/PREFIX SOCKET NAME [KEY=MILLISECONDS ...]` says `ready` on its standard output and serves until its
//! standard input ends. Keys: `keepalive`, `keepalive_interval`, `dead_after`.

use barewire_base::Duration;
use barewire_daemon::{Config, Daemon};
use std::error::Error;
use std::io::Read as _;
use std::net::IpAddr;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, address, socket, name, options @ ..] = args.as_slice() else {
        return Err("daemon PORT IP/PREFIX SOCKET NAME [KEY=MILLISECONDS ...]".into());
    };
    let (ip, prefix) = address.split_once('/').ok_or("IP/PREFIX")?;
    let mut config = Config::new(port, [0, 0, 0, 0].into(), 0);
    config.interface.ipv4.clear();
    match ip.parse()? {
        IpAddr::V4(v4) => config.interface.ipv4.push((v4, prefix.parse()?)),
        IpAddr::V6(v6) => config.interface.ipv6.push((v6, prefix.parse()?)),
    }
    config.socket = socket.into();
    config.name.clone_from(name);
    for option in options {
        let (key, value) = option.split_once('=').ok_or("KEY=MILLISECONDS")?;
        let value = Duration::from_millis(value.parse()?);
        match key {
            "keepalive" => config.transport.keepalive = value,
            "keepalive_interval" => config.transport.keepalive_interval = value,
            "dead_after" => config.transport.dead_after = value,
            other => return Err(format!("{other}: no such key").into()),
        }
    }
    let daemon = Daemon::start(&config)?;
    println!("ready");
    // Whoever started it holds the other end, so that it cannot outlive them.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    daemon.stop()?;
    Ok(())
}
