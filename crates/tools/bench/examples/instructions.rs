//! A fixed number of 1 KB request-responses over a memory link, both ends in this thread, for an instruction counter:
//!
//! ```sh
//! cargo build --release -p barewire-bench --example instructions
//! for n in 10000 30000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/instructions $n 2>&1 | grep Collected
//! done
//! ```
//! The difference of the two, divided by 20,000, is the cost of one request-response: two messages, each sent, received and
//! acknowledged. It does not depend on what else the machine is doing.

use barewire_bench::messages::embedded::{EchoServer, EmbeddedClient, SERVER_PORT};
use barewire_bench::{RequestResponse, Wait};
use barewire_client::{Embedded, EmbeddedConfig};
use std::net::{Ipv4Addr, SocketAddr};

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let rounds: u64 = std::env::args().nth(1).map_or(Ok(10_000), |n| n.parse())?;
    let window: u64 = std::env::args().nth(2).map_or(Ok(1), |n| n.parse())?;
    let ips = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
    let open = |ip| Embedded::open(&EmbeddedConfig::new("mem:instructions", ip));
    let mut server = EchoServer::new(open(ips[1])?)?;
    let at = SocketAddr::from((ips[1], SERVER_PORT));
    let mut client = EmbeddedClient::connect(open(ips[0])?, at, 1, Some(&mut server))?;
    let message = [0x5a; 1024];
    let (mut sent, mut done) = (0, 0);
    while done < rounds {
        while sent < rounds && sent - done < window && client.try_send(0, &message)? {
            sent += 1;
        }
        client.poll(Wait::No, &mut |_, bytes| {
            assert_eq!(bytes.len(), message.len());
            done += 1;
        })?;
        server.poll()?;
    }
    println!("{done} request-responses");
    Ok(())
}
