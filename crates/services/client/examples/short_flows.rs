//! Flows that live for a moment, both ends in this thread over a memory link: each is opened, carries one message and is closed.
//!
//! ```text
//! short_flows [FLOWS] [AT ONCE] [FLOWS_MAX]
//! ```
//! Says how many a second there were, and how often the table of flows had no place. Under an instruction counter the difference of two
//! runs is what a flow costs, at both ends together.

use barewire_base::Duration;
use barewire_client::{ConnectError, ConnectOptions, Embedded, EmbeddedConfig, Event};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};

const UDP_PORT: u16 = 888;
/// Nobody waits longer for the next flow to end.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<u32> = std::env::args().skip(1).map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let number = |at: usize, usual| given.get(at).copied().unwrap_or(usual);
    let (flows, at_once, flows_max) = (number(0, 20_000), number(1, 8), number(2, 1024));
    let open = |host| {
        let mut config = EmbeddedConfig::new("mem:short-flows", Ipv4Addr::new(10, 0, 0, host));
        config.transport.flows_max = flows_max;
        Embedded::open(&config)
    };
    let (mut client, mut server) = (open(1)?, open(2)?);
    server.listen(UDP_PORT, 0)?;
    let to = SocketAddr::from(([10, 0, 0, 2], UDP_PORT));
    let options = ConnectOptions::default();
    let (mut asked, mut ended, mut arrived, mut full) = (0, 0, 0, 0u64);
    let start = client.now();
    let (mut begun, mut moved_at) = (start, start);
    while ended < flows {
        while asked < flows && asked - ended < at_once {
            match client.connect(to, &options) {
                Ok(flow) => {
                    client.send(flow, &[0x5a; 64])?;
                    client.close(flow);
                    asked += 1;
                }
                Err(ConnectError::TableFull) => {
                    full += 1;
                    break;
                }
                Err(e) => return Err(e.into()),
            }
        }
        client.poll()?;
        server.poll()?;
        if begun == start {
            begun = client.now();
        }
        while let Some(event) = server.next_event() {
            if let Event::Message(message) = event {
                server.release(message);
                arrived += 1;
            }
        }
        while let Some(event) = client.next_event() {
            match event {
                Event::Closed { .. } => ended += 1,
                // The server has no place: it is asked again.
                Event::ConnectFailed { .. } => {
                    asked -= 1;
                    full += 1;
                }
                _ => continue,
            }
            moved_at = client.now();
        }
        if client.now().since(moved_at.max(begun)) > PATIENCE {
            return Err(format!("{ended} of {flows} flows, and no more").into());
        }
    }
    let took = client.now().since(begun);
    let rate = f64::from(flows) / took.as_secs_f64();
    println!("{flows} flows, {arrived} messages, {rate:.0} flows a second, {full} times without a place");
    Ok(())
}
