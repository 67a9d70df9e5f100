//! Where applications listen.

use super::DaemonAgent;
use barewire_channel::Completion;
use barewire_channel::entry::listen_failure;
use barewire_engine::RDMA_UDP_PORT;
use barewire_transport::ListenError;
use std::net::IpAddr;

impl DaemonAgent {
    /// Listens on all addresses, or on one, which says on which port. False: the request has to wait.
    pub(super) fn serve_listen(
        &mut self,
        number: u32,
        token: u64,
        udp_port: u16,
        local: Option<IpAddr>,
    ) -> bool {
        let local = local.filter(|ip| !ip.is_unspecified());
        let is_here = local.is_none_or(|ip| self.stack.is_local(ip));
        let is_rdmas = self.rdma.is_some() && udp_port == RDMA_UDP_PORT;
        let endpoint = self.stack.endpoint_mut();
        let a = endpoint.memory_mut().get(number);
        let is_permitted = a.as_ref().is_some_and(|a| a.share.rules.may_listen(udp_port));
        let is_allowed = is_permitted && a.as_ref().is_some_and(|a| a.share.may_listen());
        if !a.is_none_or(|a| a.promise(1)) {
            return false;
        }
        // The engines share the ports: a handshake goes to whichever listens.
        let claimed = is_allowed
            && is_here
            && !is_rdmas
            && self.links.as_ref().is_none_or(|l| l.table().claim(udp_port, l.own()));
        let listened = match claimed {
            true => endpoint.listen_on(local, udp_port, number, token),
            false => Err(ListenError::PortTaken),
        };
        let completion = match listened {
            Ok(()) => Completion::Listening { token, udp_port },
            Err(e) => {
                let code = match e {
                    _ if !is_permitted => listen_failure::NOT_PERMITTED,
                    _ if !is_allowed => listen_failure::LIMIT,
                    _ if !is_here => listen_failure::NOT_OURS,
                    ListenError::PortTaken => listen_failure::TAKEN,
                    _ => listen_failure::BAD_PORT,
                };
                Completion::ListenFailed { token, udp_port, code }
            }
        };
        if let Some(a) = endpoint.memory_mut().get(number) {
            if listened.is_ok() {
                a.share.listen();
            }
            a.keep_promise(&completion);
        }
        true
    }

    /// Whether an application may open flows from this port: from one that it could have been given, and from where it may listen. A peer
    /// may take who speaks from a port for the one that listens there, so not from one that another engine's application listens
    /// on; those of this engine the endpoint knows.
    pub(super) fn may_send_from(&mut self, number: u32, udp_port: u16) -> bool {
        let is_elsewhere = self.links.as_ref().is_some_and(|l| l.table().is_anothers(udp_port, l.own()));
        let endpoint = self.stack.endpoint_mut();
        let (first, last) = endpoint.config().ephemeral_udp_ports;
        let is_given = udp_port == 0 || (first..=last).contains(&udp_port);
        let a = endpoint.memory_mut().get(number);
        !is_elsewhere && (is_given || a.is_some_and(|a| a.share.rules.may_listen(udp_port)))
    }

    pub(super) fn serve_unlisten(&mut self, number: u32, udp_port: u16) {
        let endpoint = self.stack.endpoint_mut();
        if endpoint.unlisten(udp_port, number) {
            if let Some(a) = endpoint.memory_mut().get(number) {
                a.share.unlisten();
            }
            // Another application may listen there, at another address.
            let is_free = !endpoint.listens(udp_port);
            if let Some(links) = self.links.as_ref().filter(|_| is_free) {
                links.table().release(udp_port, links.own());
            }
        }
    }

    /// Lets the other engines have the ports on which nobody listens here any more.
    pub(super) fn release_ports(&self) {
        if let Some(links) = &self.links {
            links.table().release_unless(links.own(), |port| self.stack.endpoint().listens(port));
        }
    }
}
