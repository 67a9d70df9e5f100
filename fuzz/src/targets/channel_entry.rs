//! Ring entries of the shared-memory channel.

use barewire_channel::layout::ENTRY_WORDS;
use barewire_channel::{Completion, Request, rdma};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

const ENTRY_LEN: usize = ENTRY_WORDS * 8;

fn words(bytes: &[u8; ENTRY_LEN]) -> [u64; ENTRY_WORDS] {
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

/// `data` as a ring full of entries, each read as a request and as a completion; a last piece is filled up with zeros.
pub fn channel_entry(data: &[u8]) -> u64 {
    let mut entries = 0;
    for piece in data.chunks(ENTRY_LEN) {
        let mut bytes = [0; ENTRY_LEN];
        bytes[..piece.len()].copy_from_slice(piece);
        let words = words(&bytes);
        let (request, completion) = (Request::decode(words), Completion::decode(words));
        // There is one encoding of each entry, and none means both.
        if let Ok(request) = request {
            assert_eq!(request.encode(), words, "{request:?}");
            assert!(completion.is_err(), "{request:?} is {completion:?} as well");
        }
        if let Ok(completion) = completion {
            assert_eq!(completion.encode(), words, "{completion:?}");
        }
        entries += 1;
    }
    entries
}

/// One entry of every kind, and all in one ring.
pub fn corpus() -> Vec<Vec<u8>> {
    let v4: SocketAddr = ([10, 0, 0, 1], 888).into();
    let v6: SocketAddr = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 889, 0, 3).into();
    let local: Option<IpAddr> = Some(v4.ip());
    let (flow, token, offset, len, udp_port, code, reason) = (0x1_0000_0002, 0xfeed, 4096, 1000, 888, 2, 3);
    let requests = [
        Request::Connect { token, local: None, local_udp_port: 0, remote: v4, ordered: true },
        Request::Connect { token, local, local_udp_port: 5, remote: v4, ordered: false },
        Request::Connect { token, local: Some(v6.ip()), local_udp_port: 5, remote: v6, ordered: true },
        Request::Listen { token, udp_port, local: None },
        Request::Listen { token, udp_port, local },
        Request::Unlisten { udp_port },
        Request::Send { flow, offset, len, token },
        Request::Release { flow, offset, len },
        Request::Close { flow },
        Request::Reset { flow },
    ];
    let requests = requests.into_iter().chain(verbs(token).into_iter().map(Request::Rdma));
    let completions = [
        Completion::Listening { token, udp_port },
        Completion::ListenFailed { token, udp_port, code },
        Completion::Connecting { token, flow },
        Completion::Connected { token, flow, local: v4, remote: v4 },
        Completion::Accepted { token, flow, local: v6, remote: v6 },
        Completion::ConnectFailed { token, flow, reason },
        Completion::Received { flow, offset, len },
        Completion::Sent { flow, token, offset, delivered: true },
        Completion::SendRefused { flow, token, offset, code },
        Completion::Closed { flow, reason },
    ];
    let completions = completions.into_iter().chain(answers(token).into_iter().map(Completion::Rdma));
    let encoded = requests.map(|r| r.encode()).chain(completions.map(|c| c.encode()));
    let mut corpus: Vec<Vec<u8>> = encoded.map(|words| words.map(u64::to_le_bytes).concat()).collect();
    // Rings of them, no longer than an input may be.
    let rings: Vec<Vec<u8>> = corpus.chunks(32).map(<[Vec<u8>]>::concat).collect();
    corpus.extend(rings);
    corpus
}

/// A request about RDMA of every kind.
fn verbs(token: u64) -> Vec<rdma::Request> {
    use rdma::{Connect, CreateQp, PostRecv, PostSend, SendData, SendOp, Sge, Staged};
    let sge = Sge { addr: 0x1000, len: 64, lkey: 7 };
    let list = [sge, sge];
    let (addr, rkey, imm, result) = (0x2000, 8, 9, sge);
    let sges = SendData::Sges { n: 2, list };
    let ops = [
        SendOp::Send(sges),
        SendOp::Send(SendData::StagedInline),
        SendOp::SendImm { imm, data: SendData::Inline { len: 32, bytes: [5; 32] } },
        SendOp::SendInvalidate { rkey, data: SendData::StagedSges },
        SendOp::Write { addr, rkey, data: sges },
        SendOp::WriteImm { addr, rkey, imm, data: sges },
        SendOp::Read { addr, rkey, data: sges },
        SendOp::CompareSwap { addr, rkey, compare: 1, swap: 2, result },
        SendOp::FetchAdd { addr, rkey, add: 1, result },
    ];
    let post = |op| PostSend { qp: 3, wr_id: token, op, signaled: true, solicited: true, fence: true };
    let (v4, v6) = (IpAddr::from([10, 0, 0, 1]), IpAddr::V6(Ipv6Addr::LOCALHOST));
    let connect = |local, remote| Connect {
        token,
        qp: 3,
        service_id: 50,
        src_port: 6,
        mtu: 3,
        timeout_ms: 100,
        local,
        remote,
    };
    let create =
        CreateQp { token, pd: 1, send_cq: 2, recv_cq: 3, srq: 4, send_max: 5, recv_max: 6, access: 31 };
    let mut all = vec![
        rdma::Request::Query { token },
        rdma::Request::Stage(Staged { len: 48, bytes: [6; 48] }),
        rdma::Request::AllocPd { token },
        rdma::Request::RegMr { token, pd: 1, recv_memory: true, offset: 2, len: 3, base: 4, access: 31 },
        rdma::Request::CreateCq { token, entries: 1 },
        rdma::Request::CreateSrq { token, pd: 1, limit: 2 },
        rdma::Request::ArmSrq { token, srq: 1, low: 2 },
        rdma::Request::CreateQp(create),
        rdma::Request::ModifyQp { token, qp: 1, to: 6 },
        rdma::Request::QueryQp { token, qp: 1 },
        rdma::Request::Destroy { token, object: 1 },
        rdma::Request::Listen { token, service_id: 50, backlog: 1 },
        rdma::Request::Connect(connect(None, v4)),
        rdma::Request::Connect(connect(Some(v6), v6)),
        rdma::Request::Accept { token, conn: 1, qp: 2 },
        rdma::Request::Reject { token, conn: 1, reason: 28 },
        rdma::Request::Disconnect { token, conn: 1 },
        rdma::Request::PostRecv(PostRecv { queue: 1, wr_id: 2, n: Some(2), list }),
        rdma::Request::PostRecv(PostRecv { queue: 1, wr_id: 2, n: None, list: Default::default() }),
    ];
    all.extend(ops.map(|op| rdma::Request::PostSend(post(op))));
    all
}

/// A completion about RDMA of every kind.
fn answers(token: u64) -> Vec<rdma::Completion> {
    use rdma::{Device, Staged, Wc};
    let (v4, v6) = (IpAddr::from([10, 0, 0, 1]), IpAddr::V6(Ipv6Addr::LOCALHOST));
    let device = Device {
        token,
        mtu: 3,
        queue_pairs: 1,
        connections: 2,
        regions: 3,
        cqs: 4,
        requests: 5,
        completions: 6,
    };
    let wc = Wc {
        cq: 1,
        wr_id: token,
        status: 0,
        opcode: 128,
        qpn: 2,
        len: 3,
        imm: Some(4),
        invalidated: Some(5),
    };
    let wish = |local, remote| rdma::Completion::ConnectRequest {
        listener: 1,
        conn: 2,
        service_id: 50,
        remote_qpn: 3,
        local,
        remote,
    };
    vec![
        rdma::Completion::Device(device),
        rdma::Completion::Stage(Staged { len: 48, bytes: [6; 48] }),
        rdma::Completion::Made { token, object: 1, key: 2 },
        rdma::Completion::Done { token },
        rdma::Completion::Refused { token, code: 4, what: 6, limit: 1024 },
        rdma::Completion::PostRefused { queue: 1, wr_id: token, code: 5, recv: true },
        rdma::Completion::Qp { token, state: 3, remote_qpn: 1, rq_psn: 2, sq_psn: 3, sends: 4, recvs: 5 },
        rdma::Completion::Wc(wc),
        rdma::Completion::Wc(Wc { imm: None, invalidated: None, ..wc }),
        wish(v4, v4),
        wish(v6, v6),
        rdma::Completion::Event { kind: 3, object: 1, other: 2, why: 1, reason: 28 },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_valid() {
        for entry in corpus() {
            for piece in entry.as_chunks().0 {
                let words = words(piece);
                assert!(Request::decode(words).is_ok() || Completion::decode(words).is_ok(), "{words:x?}");
            }
        }
    }
}
