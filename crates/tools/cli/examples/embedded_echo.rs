//! Two embedded endpoints in one process: one sends a message, the other sends it back.
//!
//! `cargo run -p barewire-cli --example embedded_echo`. On a real link the port would be `xdp:eth0` or `packet:eth0`, and each
//! end a program of its own.
#![forbid(unsafe_code)]

use barewire_client::{ConnectOptions, Embedded, EmbeddedConfig, Event};
use std::net::{Ipv4Addr, SocketAddr};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (client_ip, server_ip) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut server = Embedded::open(&EmbeddedConfig::new("mem:echo", server_ip))?;
    server.listen(888, 0)?;
    let mut client = Embedded::open(&EmbeddedConfig::new("mem:echo", client_ip))?;
    // Messages may be queued before the connection is there.
    let flow = client.connect(SocketAddr::from((server_ip, 888)), &ConnectOptions::default())?;
    client.send(flow, b"hello, wire")?;
    loop {
        server.poll()?;
        while let Some(event) = server.next_event() {
            if let Event::Message(inbound) = event {
                server.echo(inbound).map_err(|(error, _)| error)?;
            }
        }
        client.poll()?;
        while let Some(event) = client.next_event() {
            match event {
                Event::Message(inbound) => {
                    println!("{}", String::from_utf8_lossy(client.message(&inbound)));
                    client.release(inbound);
                    return Ok(());
                }
                Event::ConnectFailed { reason, .. } => {
                    return Err(format!("not connected: {reason:?}").into());
                }
                _ => {}
            }
        }
    }
}
