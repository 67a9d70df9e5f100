//! A message daemon without a configuration file, for tests that need one in a process of its own.
//!
//! `daemon PORT IP/PREFIX SOCKET NAME [KEY=NUMBER ...]` says `ready` on its standard output and serves until its standard input ends.
//! Keys: `keepalive`, `keepalive_interval`, `dead_after`, in milliseconds; `own_key` and `peer_key`, bytes that fill a private key each, of
//! this host and of the only one that it trusts.

use barewire_base::Duration;
use barewire_daemon::{Config, Daemon};
use barewire_transport::security::{Peer, PrivateKey, Security};
use std::error::Error;
use std::io::Read as _;
use std::net::IpAddr;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, address, socket, name, options @ ..] = args.as_slice() else {
        return Err("daemon PORT IP/PREFIX SOCKET NAME [KEY=NUMBER ...]".into());
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
    let (mut own, mut peer) = (None, None);
    for option in options {
        let (key, value) = option.split_once('=').ok_or("KEY=NUMBER")?;
        let millis = || value.parse().map(Duration::from_millis);
        let key_of = || value.parse().map(|byte| Some(PrivateKey::from_bytes([byte; 32])));
        match key {
            "keepalive" => config.transport.keepalive = millis()?,
            "keepalive_interval" => config.transport.keepalive_interval = millis()?,
            "dead_after" => config.transport.dead_after = millis()?,
            "own_key" => own = key_of()?,
            "peer_key" => peer = key_of()?,
            other => return Err(format!("{other}: no such key").into()),
        }
    }
    if let (Some(own), Some(peer)) = (own, peer) {
        let mut security = Security::new(own);
        security.trust(Peer { name: "peer".to_owned(), key: peer.public(), addresses: vec![] });
        config.transport.security = Some(Arc::new(security));
    }
    let daemon = Daemon::start(&config)?;
    println!("ready");
    // Whoever started it holds the other end, so that it cannot outlive them.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    daemon.stop()?;
    Ok(())
}
