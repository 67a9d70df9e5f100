//! Every kind of frame that we send, read by an independent dissector: nothing malformed, nothing that it warns of.

use barewire_base::Duration;
use barewire_roce::*;
use barewire_testing::{Needs, have, program};
use barewire_verbs::{ConnectRequest, Connection, Device, DeviceConfig, Memory};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

const SERVICE: u64 = 50;
/// Three packets of 1,024 bytes.
const LONG: usize = 3000;
const QKEY: u32 = 0x1234_5678;
const PATIENCE: Duration = Duration::from_secs(10);

/// One side: a device with memory.
struct Side {
    device: Device,
    pd: Pd,
    cq: CqId,
    memory: Memory,
}

impl Side {
    fn new(config: &DeviceConfig) -> Side {
        let mut device = Device::open(config).expect("a device");
        let verbs = device.verbs();
        let (pd, cq) = (verbs.alloc_pd(), verbs.create_cq(1024).expect("a queue"));
        let memory = Memory::register(verbs, pd, 1 << 16, Access::ALL).expect("memory");
        Side { device, pd, cq, memory }
    }

    fn post(&mut self, qpn: Qpn, op: SendOp, len: usize) {
        self.post_to(qpn, op, len, None);
    }

    fn post_to(&mut self, qpn: Qpn, op: SendOp, len: usize, remote: Option<Remote>) {
        let list = [self.memory.sge(0, len)];
        let wr = SendWr { remote, ..SendWr::new(1, op, Data::Sges(&list)) };
        self.device.verbs().post_send(qpn, &wr).expect("posted");
    }

    fn recv(&mut self, qpn: Qpn, len: usize) {
        let list = [self.memory.sge(1 << 15, len)];
        self.device.verbs().post_recv(qpn, 2, &list).expect("posted");
    }

    /// A new key for the peer to take back.
    fn spare_key(&mut self) -> u32 {
        let pd = self.pd;
        Memory::register(self.device.verbs(), pd, 64, Access::ALL).expect("memory").rkey()
    }
}

/// Both sides, in one thread.
struct Talk {
    a: Side,
    b: Side,
    peer: IpAddr,
    listener: ListenerId,
}

impl Talk {
    /// Turns both until there is what is waited for.
    fn until<T>(&mut self, what: &str, mut done: impl FnMut(&mut Talk) -> Option<T>) -> T {
        self.a.device.poll().expect("a port");
        let end = self.a.device.now() + PATIENCE;
        loop {
            self.b.device.poll().expect("a port");
            if let Some(found) = done(self) {
                return found;
            }
            self.a.device.poll().expect("a port");
            assert!(self.a.device.now() < end, "{what} does not come");
            std::thread::yield_now();
        }
    }

    /// Turns both until one of our requests has ended.
    fn completion(&mut self, what: &str) -> WcStatus {
        let cq = self.a.cq;
        self.until(what, |talk| talk.a.device.verbs().poll_cq_one(cq)).status
    }

    /// One request of ours, with a receive request there if it needs one. All must go well.
    fn good(&mut self, what: &str, ends: (Qpn, Qpn), op: SendOp, len: usize) {
        let received = matches!(
            op,
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_) | SendOp::WriteImm { .. }
        );
        if received {
            self.b.recv(ends.1, LONG);
        }
        self.a.post(ends.0, op, len);
        assert_eq!(self.completion(what), WcStatus::Success, "{what}");
        if received {
            let cq = self.b.cq;
            let wc = self.until(what, |talk| talk.b.device.verbs().poll_cq_one(cq));
            assert_eq!(wc.status, WcStatus::Success, "{what}");
        }
    }

    fn ask(&mut self, service: u64, private: &[u8]) -> barewire_verbs::Pending {
        let init = QpInit::rc(self.a.pd, self.a.cq);
        self.a.device.start_connect(self.peer, service, &init, private).expect("asked")
    }

    fn requested(&mut self) -> ConnectRequest {
        let listener = self.listener;
        self.until("a request", |talk| match talk.b.device.next_event() {
            Some((Event::ConnectRequest { conn, service_id, .. }, private)) => {
                Some(ConnectRequest { conn, listener, service_id, private })
            }
            _ => None,
        })
    }

    /// A connection, ready on both sides.
    fn connect(&mut self, postpone: bool) -> (Connection, Qpn) {
        let asked = self.ask(SERVICE, b"from a client");
        let request = self.requested();
        if postpone {
            self.b.device.verbs().postpone(request.conn).expect("it waits");
            // It leaves before the answer.
            self.b.device.poll().expect("a port");
        }
        let init = QpInit::rc(self.b.pd, self.b.cq);
        let qpn = self.b.device.accept(&request, &init, b"from a server").expect("accepted");
        let private = self.until("the answer", |talk| match talk.a.device.next_event() {
            Some((Event::Connected { .. }, private)) => Some(private),
            _ => None,
        });
        self.until("the last message", |talk| {
            let event = |e: &Event| matches!(e, Event::Established { .. });
            talk.b.device.take_event(event)
        });
        (Connection { conn: asked.conn, qpn: asked.qpn, private }, qpn)
    }

    fn refused(&mut self) {
        self.until("a refusal", |talk| match talk.a.device.next_event() {
            Some((Event::ConnectFailed { why: ConnectFailure::Rejected(_), .. }, _)) => Some(()),
            _ => None,
        });
    }

    /// One of every kind.
    fn everything(&mut self) {
        // Refusals: nobody listens; somebody listens and does not want to.
        self.ask(SERVICE + 1, b"");
        self.refused();
        self.ask(SERVICE, b"please");
        let request = self.requested();
        self.b.device.verbs().reject(request.conn, RejReason::CONSUMER, b"no").expect("it waits");
        self.refused();

        let (connection, there) = self.connect(true);
        let ends = (connection.qpn, there);
        let (addr, rkey) = (self.b.memory.addr(), self.b.memory.rkey());
        for len in [0, 1, 1024, 1025, LONG] {
            self.good("send", ends, SendOp::Send, len);
            self.good("send with immediate data", ends, SendOp::SendImm(7), len);
            let key = self.b.spare_key();
            self.good("send with invalidate", ends, SendOp::SendInvalidate(key), len);
            self.good("write", ends, SendOp::Write { addr, rkey }, len);
            self.good("write with immediate data", ends, SendOp::WriteImm { addr, rkey, imm: 9 }, len);
            self.good("read", ends, SendOp::Read { addr, rkey }, len);
        }
        self.good("fetch and add", ends, SendOp::FetchAdd { addr, rkey, add: 1 }, 8);
        self.good("compare and swap", ends, SendOp::CompareSwap { addr, rkey, compare: 1, swap: 2 }, 8);

        // Not ready at first.
        self.a.post(ends.0, SendOp::Send, 10);
        self.until("a pause", |talk| (talk.b.device.verbs().counters().rnr_sent.get() > 0).then_some(()));
        self.b.recv(ends.1, LONG);
        assert_eq!(self.completion("the end of the pause"), WcStatus::Success);
        // The wire loses and marks: until both were told of.
        loop {
            let counters = self.b.device.verbs().counters();
            if counters.nak_sequence_sent.get() > 0 && counters.cnp_sent.get() > 0 {
                break;
            }
            for _ in 0..20 {
                self.a.post(ends.0, SendOp::Write { addr, rkey }, LONG);
            }
            for _ in 0..20 {
                assert_eq!(self.completion("a write"), WcStatus::Success);
            }
        }
        let now = self.a.device.now();
        self.a.device.verbs().disconnect(now, connection.conn).expect("it is open");
        self.until("the end", |talk| match talk.a.device.next_event() {
            Some((Event::Disconnected { .. }, _)) => Some(()),
            _ => None,
        });

        // Mistakes, each the end of its connection.
        let wrong_key = SendOp::Read { addr, rkey: rkey ^ 0x0101_0101 };
        self.mistake("a wrong key", wrong_key, 8, WcStatus::RemoteAccess);
        self.mistake("too long", SendOp::Send, 101, WcStatus::RemoteInvalidRequest);

        self.datagrams();
    }

    /// The refusal may be lost. Who refused is in error then, and answers nothing more, so another connection tries again.
    fn mistake(&mut self, what: &str, op: SendOp, len: usize, refused: WcStatus) {
        for _ in 0..10 {
            let (connection, there) = self.connect(false);
            self.b.recv(there, 100);
            self.a.post(connection.qpn, op, len);
            match self.completion(what) {
                WcStatus::RetryExceeded => {}
                status => return assert_eq!(status, refused, "{what}"),
            }
        }
        panic!("{what}: no refusal arrives");
    }

    fn datagrams(&mut self) {
        let mut qpns = Vec::new();
        for side in [&mut self.a, &mut self.b] {
            let init = QpInit { kind: QpKind::Ud, qkey: QKEY, ..QpInit::rc(side.pd, side.cq) };
            let verbs = side.device.verbs();
            let qpn = verbs.create_qp(&init).expect("a queue pair");
            for to in [Modify::Init, Modify::RtrDatagram, Modify::RtsDatagram(77)] {
                verbs.modify_qp(qpn, to).expect("in order");
            }
            qpns.push(qpn);
        }
        let path = self.a.device.resolve(self.peer, PATIENCE).expect("it is known by now");
        let remote = Some(Remote { path, qpn: qpns[1].number(), qkey: QKEY });
        for op in [SendOp::Send, SendOp::SendImm(5)] {
            let before = self.b.device.verbs().counters().rx_frames.get();
            // Datagrams are lost for good: sent until one arrives.
            for _ in 0..20 {
                self.a.post_to(qpns[0], op, 101, remote);
                assert_eq!(self.completion("a datagram"), WcStatus::Success);
            }
            self.until("datagrams", |talk| {
                (talk.b.device.verbs().counters().rx_frames.get() > before).then_some(())
            });
        }
    }
}

/// Talks about everything with faults underneath, and gives the capture of what was sent.
fn capture(dir: &Path, name: &str, ours: IpAddr, peer: IpAddr, vlan: Option<u16>) -> PathBuf {
    let (prefix, pid) = (dir.join(name), std::process::id());
    let prefix = prefix.display();
    let config = |end: &str, address, loss: &str| {
        let uri = format!("trace+fault+mem:tshark-{name}-{pid}?trace={prefix}.{end}&seed=5{loss}");
        let mut config = DeviceConfig::new(&uri, address);
        config.interface.vlan = vlan;
        config
    };
    let a = Side::new(&config("a", ours, "&loss=0.02&ecn=0.1"));
    let mut b = Side::new(&config("b", peer, "&loss=0.02"));
    let listener = b.device.listen(SERVICE, 16).expect("nobody else");
    let mut talk = Talk { a, b, peer, listener };
    talk.until("an address", |talk| talk.a.device.resolve(peer, Duration::from_micros(10)).ok());
    talk.everything();
    // The last of it is still in a buffer.
    drop(talk);
    let whole = dir.join(format!("{name}.pcap"));
    let parts = ["a", "b"].map(|end| format!("{prefix}.{end}.tx.pcap"));
    let merged = Command::new("mergecap").args(["-F", "nsecpcap", "-w"]).arg(&whole).args(parts).output();
    let merged = merged.expect("mergecap comes with tshark");
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    whole
}

/// Dissectors that guess what the payload of any connection may be: ours is nothing of that kind.
const GUESSERS: [&str; 4] = ["rpcordma", "smb_direct", "iser", "nvme-rdma"];

fn tshark(capture: &Path, args: &[&str]) -> String {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).args(GUESSERS.iter().flat_map(|name| ["--disable-protocol", name]));
    let output = command.args(args).output().expect("tshark starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The values of a field in a capture.
fn values(capture: &Path, field: &str) -> BTreeSet<u32> {
    let text = tshark(capture, &["-T", "fields", "-e", field]);
    let number = |word: &str| match word.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    };
    text.lines().filter(|line| !line.is_empty()).map(|line| number(line).expect("a number")).collect()
}

#[test]
fn an_independent_dissector_reads_every_kind_of_frame() {
    let Some(_) = have(Needs::Peers, program("tshark")) else { return };
    let dir = std::env::temp_dir().join(format!("barewire-tshark-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let (v4, v6) = (|n| IpAddr::from([10, 0, 0, n]), |n| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]));
    for (name, ours, peer, vlan) in [
        ("ipv4", v4(1), v4(2), None),
        ("ipv4-vlan", v4(1), v4(2), Some(7)),
        ("ipv6", v6(1), v6(2), None),
        ("ipv6-vlan", v6(1), v6(2), Some(4094)),
    ] {
        let capture = capture(&dir, name, ours, peer, vlan);
        let complaint = "_ws.malformed || _ws.expert.severity >= 0x00600000";
        let bad =
            tshark(&capture, &["-Y", complaint, "-T", "fields", "-e", "frame.number", "-e", "_ws.expert"]);
        assert_eq!(bad, "", "{name}");

        let opcodes = values(&capture, "infiniband.bth.opcode");
        // All of reliable connections, the two for datagrams, and the congestion notification.
        let wanted: BTreeSet<u32> = (0..=0x14).chain([0x16, 0x17, 0x64, 0x65, 0x81]).collect();
        assert_eq!(opcodes, wanted, "{name}: kinds of packets");
        let messages = values(&capture, "infiniband.mad.attributeid");
        // REQ MRA REJ REP RTU DREQ DREP.
        assert_eq!(messages, (0x10..=0x16).collect(), "{name}: messages of the connection manager");
        let syndromes: BTreeSet<u32> = values(&capture, "infiniband.aeth.syndrome")
            .iter()
            .map(|s| if s >> 5 == 3 { *s } else { s >> 5 })
            .collect();
        // ACK; receiver not ready; out of sequence, invalid request, remote access.
        assert_eq!(syndromes, BTreeSet::from([0, 1, 0x60, 0x61, 0x62]), "{name}: answers");
    }
    let _ = std::fs::remove_dir_all(&dir);
}
