//! What lies between client threads and the server's threads.
//!
//! ```text
//! mem    client thread i ── link i ── server thread of NIC i % nics, which serves all its links
//! veth   one client thread, one NIC:   c0 n0 ──────────────── n0 server
//!        more:                         c0 t0 ── ┐
//!                                      c0 t2 ── ├ bridge 0 ── n0 server
//!                                      c1 t0 ── ┘
//!                                      c0 t1 ──── bridge 1 ── n1 server
//! ```
//! Each client thread has an interface of its own, as a virtual function of a shared card would be; at the server there is one
//! interface for each NIC. Namespaces have no names: nothing can be left behind.

use crate::error::BenchError;
use barewire_netns::{LinkConfig, Namespace, VethPair};
use barewire_wire::MacAddr;
use std::net::Ipv4Addr;

/// Network of the first NIC: 10.77.0.0/16; of the second: 10.78.0.0/16.
const NETWORK: u8 = 77;
/// The server's address in each network ends in this.
const SERVER_HOST: [u8; 2] = [0, 1];

/// Who is on the wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Client hosts.
    pub hosts: u32,
    /// Threads of each client host.
    pub threads: u32,
    /// NICs of the server, and of each client.
    pub nics: u32,
}

impl Shape {
    /// Client threads of all hosts.
    pub fn clients(self) -> u32 {
        self.hosts * self.threads
    }

    /// Which NIC a client thread uses: in turns.
    pub fn nic_of(self, client: u32) -> u32 {
        (client % self.threads) % self.nics
    }

    /// Which host a client thread is on.
    pub fn host_of(self, client: u32) -> u32 {
        client / self.threads
    }
}

/// The server's address on a NIC.
pub fn server_address(nic: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, NETWORK + nic as u8, SERVER_HOST[0], SERVER_HOST[1])
}

/// A client thread's address.
pub fn client_address(shape: Shape, client: u32) -> Ipv4Addr {
    let number = client + 256;
    Ipv4Addr::new(10, NETWORK + shape.nic_of(client) as u8, (number >> 8) as u8, number as u8)
}

/// Prefix length of all addresses.
pub const PREFIX_LEN: u8 = 16;

/// The MAC address that belongs to an address of ours.
pub fn mac_of(address: Ipv4Addr) -> MacAddr {
    let [_, net, a, b] = address.octets();
    MacAddr([0x02, 0x62, 0x72, net, a, b])
}

/// Namespaces with everything between them. Dropping it removes all.
pub struct Hosts {
    /// The server.
    pub server: Namespace,
    /// The clients.
    pub clients: Vec<Namespace>,
    /// What the bridges are in.
    _switch: Option<Namespace>,
    shape: Shape,
}

impl Hosts {
    /// Makes them.
    ///
    /// # Errors
    /// Without the rights, or when the kernel refuses.
    pub fn create(shape: Shape) -> Result<Hosts, BenchError> {
        let server = Namespace::anonymous()?;
        let clients: Vec<Namespace> =
            (0..shape.hosts).map(|_| Namespace::anonymous()).collect::<Result<_, _>>()?;
        server.set_up("lo")?;
        for client in &clients {
            client.set_up("lo")?;
        }
        let alone = shape.clients() == 1 && shape.nics == 1;
        let switch = if alone { None } else { Some(Namespace::anonymous()?) };
        let hosts = Hosts { server, clients, _switch: None, shape };
        match &switch {
            None => hosts.wire_directly()?,
            Some(switch) => hosts.wire_through(switch)?,
        }
        hosts.introduce()?;
        Ok(Hosts { _switch: switch, ..hosts })
    }

    /// The server's interface of a NIC.
    pub fn server_interface(nic: u32) -> String {
        format!("n{nic}")
    }

    /// A client thread's interface.
    pub fn client_interface(&self, client: u32) -> String {
        format!("t{}", client % self.shape.threads)
    }

    /// The namespace of a client thread.
    pub fn client(&self, client: u32) -> &Namespace {
        &self.clients[self.shape.host_of(client) as usize]
    }

    fn wire_directly(&self) -> Result<(), BenchError> {
        let (ours, theirs) = (client_address(self.shape, 0), server_address(0));
        let (here, there) = (self.client_interface(0), Hosts::server_interface(0));
        let link = LinkConfig {
            mac_a: Some(mac_of(ours).0),
            mac_b: Some(mac_of(theirs).0),
            ..LinkConfig::default()
        };
        VethPair::create(&self.clients[0], &here, &self.server, &there, &link)?;
        start(&self.clients[0], &here, ours)?;
        start(&self.server, &there, theirs)?;
        self.server.wait_running(&there)?;
        Ok(())
    }

    fn wire_through(&self, switch: &Namespace) -> Result<(), BenchError> {
        let mut ports = Vec::new();
        for nic in 0..self.shape.nics {
            let bridge = format!("br{nic}");
            switch.create_bridge(&bridge, LinkConfig::default().mtu)?;
            switch.set_up(&bridge)?;
            ports.push((&self.server, Hosts::server_interface(nic), server_address(nic), bridge));
        }
        for client in 0..self.shape.clients() {
            let bridge = format!("br{}", self.shape.nic_of(client));
            let address = client_address(self.shape, client);
            ports.push((self.client(client), self.client_interface(client), address, bridge));
        }
        for (number, (host, name, address, bridge)) in ports.iter().enumerate() {
            let port = format!("p{number}");
            let link = LinkConfig { mac_a: Some(mac_of(*address).0), ..LinkConfig::default() };
            VethPair::create(host, name, switch, &port, &link)?;
            switch.join_bridge(&port, bridge)?;
            switch.set_up(&port)?;
            start(host, name, *address)?;
        }
        for (host, name, ..) in &ports {
            host.wait_running(name)?;
        }
        Ok(())
    }

    /// Everyone knows everyone's MAC address, so that no ARP of the kernel's disturbs.
    fn introduce(&self) -> Result<(), BenchError> {
        for client in 0..self.shape.clients() {
            let nic = self.shape.nic_of(client);
            let (ours, theirs) = (client_address(self.shape, client), server_address(nic));
            let interface = self.client_interface(client);
            self.client(client).add_neighbour(&interface, theirs.into(), mac_of(theirs).0)?;
            let interface = Hosts::server_interface(nic);
            self.server.add_neighbour(&interface, ours.into(), mac_of(ours).0)?;
        }
        Ok(())
    }
}

fn start(host: &Namespace, interface: &str, address: Ipv4Addr) -> Result<(), BenchError> {
    host.set_up(interface)?;
    host.add_address(interface, address.into(), PREFIX_LEN)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_the_nics_in_turns_and_addresses_differ() {
        let shape = Shape { hosts: 3, threads: 5, nics: 2 };
        assert_eq!(shape.clients(), 15);
        let nics: Vec<u32> = (0..5).map(|c| shape.nic_of(c)).collect();
        assert_eq!(nics, [0, 1, 0, 1, 0]);
        assert_eq!((shape.nic_of(5), shape.host_of(5), shape.host_of(14)), (0, 1, 2));
        let mut all: Vec<Ipv4Addr> = (0..15).map(|c| client_address(shape, c)).collect();
        all.extend([server_address(0), server_address(1)]);
        let macs: std::collections::BTreeSet<[u8; 6]> = all.iter().map(|a| mac_of(*a).0).collect();
        all.sort();
        all.dedup();
        assert_eq!((all.len(), macs.len()), (17, 17));
    }
}
