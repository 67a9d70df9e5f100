//! Which baselines there are: transport, way to use the sockets, way to wait.

use barewire_base::Duration;

/// Which of the kernel's transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `SOCK_STREAM`.
    Tcp,
    /// `SOCK_DGRAM`.
    Udp,
}

/// How the sockets are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calls {
    /// One receive and one send call for each message.
    Each,
    /// As many messages a call as there are. TCP: reads of 64 KiB, and one write for all answers to what a read brought. UDP:
    /// `recvmmsg`, `sendmmsg`.
    Batch,
    /// The same over TCP, with `epoll` to wait.
    Epoll,
    /// [`Calls::Batch`] over TCP with TLS 1.3 on it, by rustls.
    Tls,
    /// Over UDP as many datagrams a trip through the kernel as fit one: `UDP_SEGMENT`, `UDP_GRO`.
    Segments,
    /// TCP over an io_uring: multishot receive, sends from registered buffers, one call for both.
    Ring,
}

/// How both ends wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// Asleep in the kernel.
    Blocking,
    /// In a receive call that polls the device for [`BUSY_POLL_US`] before it sleeps, where the driver can (`SO_BUSY_POLL`).
    BusyPoll,
    /// Non-blocking reads for [`SPIN_FIRST`], then asleep: what barewire's own engine does that parks.
    SpinSleep,
    /// Non-blocking reads in a loop.
    Spin,
}

/// How long `SO_BUSY_POLL` polls, in us: what the kernel's own documentation advises for latency.
pub const BUSY_POLL_US: u32 = 50;

/// How long [`Waiting::SpinSleep`] polls before it sleeps.
pub const SPIN_FIRST: Duration = Duration::from_micros(20);

impl Waiting {
    /// As rows name it.
    pub fn name(self) -> &'static str {
        match self {
            Waiting::Blocking => "blocking",
            Waiting::BusyPoll => "busy-poll",
            Waiting::SpinSleep => "spin-sleep",
            Waiting::Spin => "spin",
        }
    }

    /// Never asleep.
    pub(super) fn spins(self) -> bool {
        self == Waiting::Spin
    }
}

/// One way to use the kernel's sockets: a row of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Baseline {
    /// The transport.
    pub protocol: Protocol,
    /// How the sockets are used.
    pub calls: Calls,
    /// How both ends wait.
    pub waiting: Waiting,
}

const fn of(protocol: Protocol, calls: Calls, waiting: Waiting) -> Baseline {
    Baseline { protocol, calls, waiting }
}

/// All of them with their names, in the order in which tables show them.
const ALL: [(Baseline, &str); 19] = {
    use Calls::{Batch, Each, Epoll, Ring, Segments, Tls};
    use Protocol::{Tcp, Udp};
    use Waiting::{Blocking, BusyPoll, Spin, SpinSleep};
    [
        (of(Tcp, Each, Blocking), "kernel-tcp"),
        (of(Tcp, Each, BusyPoll), "kernel-tcp-busy-poll"),
        (of(Tcp, Each, SpinSleep), "kernel-tcp-spin-sleep"),
        (of(Tcp, Each, Spin), "kernel-tcp-spin"),
        (of(Tcp, Batch, Blocking), "kernel-tcp-batch"),
        (of(Tcp, Batch, SpinSleep), "kernel-tcp-batch-spin-sleep"),
        (of(Tcp, Batch, Spin), "kernel-tcp-batch-spin"),
        (of(Tcp, Epoll, Blocking), "kernel-tcp-epoll"),
        (of(Tcp, Ring, Blocking), "kernel-io-uring"),
        (of(Tcp, Ring, Spin), "kernel-io-uring-spin"),
        (of(Udp, Each, Blocking), "kernel-udp"),
        (of(Udp, Each, BusyPoll), "kernel-udp-busy-poll"),
        (of(Udp, Each, Spin), "kernel-udp-spin"),
        (of(Udp, Batch, Blocking), "kernel-udp-mmsg"),
        (of(Udp, Batch, Spin), "kernel-udp-mmsg-spin"),
        (of(Udp, Segments, Blocking), "kernel-udp-gso"),
        (of(Udp, Segments, Spin), "kernel-udp-gso-spin"),
        (of(Tcp, Tls, Blocking), "kernel-tls"),
        (of(Tcp, Tls, Spin), "kernel-tls-spin"),
    ]
};

impl Baseline {
    /// TCP, a call for each message, asleep in between: what most programs do.
    pub const BLOCKING_TCP: Baseline = of(Protocol::Tcp, Calls::Each, Waiting::Blocking);

    /// All that there are, in the order of tables.
    pub fn all() -> impl Iterator<Item = Baseline> {
        ALL.iter().map(|(baseline, _)| *baseline)
    }

    /// Those that do not encrypt.
    pub fn plain() -> impl Iterator<Item = Baseline> {
        Baseline::all().filter(|baseline| !baseline.is_secure())
    }

    /// Whether the messages are encrypted.
    pub fn is_secure(self) -> bool {
        self.calls == Calls::Tls
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Baseline> {
        ALL.iter().find(|(_, n)| *n == name).map(|(baseline, _)| *baseline)
    }

    /// As rows and options name it.
    pub fn name(self) -> &'static str {
        // The fields are public: nobody has to have taken them from the table.
        ALL.iter().find(|(baseline, _)| *baseline == self).map_or("kernel", |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_know_who_makes_a_call_for_each_message() {
        let said = |baseline: Baseline, window: u32| {
            let row =
                |system: &str| serde_json::json!({ "system": system, "over": "veth", "window": window });
            let fields = |system: &str| serde_json::from_value(row(system)).unwrap();
            barewire_report::report::handicap(&fields("barewire"), &fields(baseline.name()))
        };
        for baseline in Baseline::all() {
            assert_eq!(!said(baseline, 2).is_empty(), baseline.calls == Calls::Each, "{}", baseline.name());
            assert_eq!(said(baseline, 1), "");
        }
    }

    #[test]
    fn names_are_one_each() {
        for baseline in Baseline::all() {
            assert_eq!(Baseline::named(baseline.name()), Some(baseline));
            assert!(
                baseline.waiting == Waiting::Blocking || baseline.name().ends_with(baseline.waiting.name())
            );
        }
        let names: std::collections::HashSet<&str> = Baseline::all().map(Baseline::name).collect();
        assert_eq!(names.len(), Baseline::all().count());
        assert_eq!(Baseline::named("kernel"), None);
        assert_eq!(Baseline::BLOCKING_TCP.name(), "kernel-tcp");
    }
}
