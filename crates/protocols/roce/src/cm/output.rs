//! Messages of our connection manager.

use super::template::{Gsi, Kind, req_psn, req_terms, word};
use super::{Answer, Conn, pending};
use crate::core::Core;
use crate::endpoint::Endpoint;
use crate::slab::NONE;
use barewire_wire::roce::cm::{self, Mad, Message, Rejected, Rep, Req};
use barewire_wire::roce::{mad, rdma_cm, timeout_code};
use std::net::IpAddr;

fn high(transaction: u64) -> u32 {
    (transaction >> 32) as u32
}

/// The two words of a transaction id, and those of the communication ids.
fn ids(transaction: u64, local_id: u32, remote_id: u32) -> [(usize, u32); 4] {
    [
        (word::TRANSACTION, high(transaction)),
        (word::TRANSACTION + 1, transaction as u32),
        (word::LOCAL_ID, local_id),
        (word::REMOTE_ID, remote_id),
    ]
}

impl Endpoint {
    /// Writes the next message of the connection manager.
    pub(crate) fn transmit_management(&mut self, buf: &mut [u8]) -> Option<usize> {
        while let Some(reply) = self.cm.replies.pop_front() {
            let sent = with_gsi(&mut self.core, reply.path, |core, gsi| {
                let path = &core.paths[reply.path];
                let (local_id, remote_id) = (reply.local_id, reply.remote_id);
                match reply.what {
                    Answer::Drep => {
                        let words = ids(reply.transaction, local_id, remote_id);
                        gsi.write(path, buf, Kind::Drep, &words, 0, &[])
                    }
                    Answer::Apr { status } => {
                        let private = &[0; cm::Apr::PRIVATE_LEN];
                        let apr =
                            cm::Apr { local_id, remote_id, info_len: 0, status, info: [0; 72], private };
                        let mad = Mad { transaction: reply.transaction, message: Message::Apr(apr) };
                        gsi.write_whole(path, buf, &mad)
                    }
                    Answer::Sidr { status, qpn, qkey, service_id } => {
                        let mut private = [0; cm::SidrRep::PRIVATE_LEN];
                        copy_private(core, reply.private, &mut private);
                        let rep = cm::SidrRep {
                            request_id: remote_id,
                            status,
                            info_len: 0,
                            qpn,
                            service_id,
                            qkey,
                            info: [0; 72],
                            private: &private,
                        };
                        let mad = Mad { transaction: reply.transaction, message: Message::SidrRep(rep) };
                        gsi.write_whole(path, buf, &mad)
                    }
                    Answer::Rej { reason, rejected, info } => {
                        let mut private = [0; cm::Rej::PRIVATE_LEN];
                        copy_private(core, reply.private, &mut private);
                        let mut additional = [0; 72];
                        additional[0] = info;
                        let rej = cm::Rej {
                            local_id,
                            remote_id,
                            rejected,
                            info_len: u8::from(info != 0),
                            reason,
                            info: additional,
                            private: &private,
                        };
                        let mad = Mad { transaction: reply.transaction, message: Message::Rej(rej) };
                        gsi.write_whole(path, buf, &mad)
                    }
                }
            });
            self.core.drop_private(reply.private);
            self.core.paths.release(reply.path);
            if sent.is_some() {
                return sent;
            }
        }
        while let Some(&slot) = self.cm.out.front() {
            let conn = &mut self.cm.conns[slot];
            if conn.pending == 0 {
                conn.queued = false;
                self.cm.out.pop_front();
                continue;
            }
            // The lowest bit first: they are in the order of a connection's life.
            let what = conn.pending & conn.pending.wrapping_neg();
            conn.pending &= !what;
            let conn = &self.cm.conns[slot];
            let sent = with_gsi(&mut self.core, conn.path, |core, gsi| write(core, gsi, conn, what, buf));
            self.cm.conns[slot].last_frame = self.core.unsent.next;
            if self.cm.conns[slot].pending == 0 {
                self.cm.conns[slot].queued = false;
                self.cm.out.pop_front();
            }
            if sent.is_some() {
                return sent;
            }
        }
        None
    }
}

/// Lends the messages of a path, made if this is the first one.
fn with_gsi(core: &mut Core, path: u32, write: impl FnOnce(&Core, &Gsi) -> usize) -> Option<usize> {
    core.paths.get(path)?;
    let gsi = match core.paths[path].gsi.take() {
        Some(gsi) => gsi,
        None => Box::new(Gsi::new(&core.config, &core.paths[path])),
    };
    let len = write(core, &gsi);
    core.paths[path].gsi = Some(gsi);
    Some(len)
}

fn copy_private(core: &Core, id: u32, out: &mut [u8]) {
    if id != NONE {
        let kept = &core.private[id];
        let n = usize::from(kept.len).min(out.len());
        out[..n].copy_from_slice(&kept.bytes[..n]);
    }
}

fn write(core: &Core, gsi: &Gsi, conn: &Conn, what: u8, buf: &mut [u8]) -> usize {
    let path = &core.paths[conn.path];
    let cm = &core.config.cm;
    let [t0, t1, local, remote] = ids(conn.transaction, conn.local_id, conn.remote_id);
    let private: &[u8] = match core.private.get(conn.private) {
        Some(kept) if conn.private != NONE => &kept.bytes[..usize::from(kept.len)],
        _ => &[],
    };
    match what {
        pending::REQ => {
            let words = [
                t0,
                t1,
                local,
                (word::REQ_SERVICE, high(conn.service_id)),
                (word::REQ_SERVICE + 1, conn.service_id as u32),
                (word::REQ_QPN, conn.qpn << 8 | u32::from(cm.responder_resources)),
                (word::REQ_PSN, req_psn(conn.rq_psn, cm)),
                (word::REQ_MTU, req_terms(conn.mtu, cm, conn.srq)),
            ];
            let at = mad::HEADER_LEN + Req::PRIVATE_AT;
            if rdma_cm::port_of(conn.service_id).is_none() {
                return gsi.write(path, buf, Kind::Req, &words, at, private);
            }
            let mut whole = [0; Req::PRIVATE_LEN];
            if let Some(addresses) = addresses(path.spec.src, path.spec.dst) {
                rdma_cm::IpHeader { src_port: conn.src_port, addresses }.emit(&mut whole);
            }
            let end = rdma_cm::IpHeader::LEN + private.len();
            whole[rdma_cm::IpHeader::LEN..end].copy_from_slice(private);
            gsi.write(path, buf, Kind::Req, &words, at, &whole[..end])
        }
        pending::REP => {
            let terms = u32::from(conn.responder_resources) << 24
                | u32::from(conn.initiator_depth) << 16
                | u32::from(cm.rnr_retry_count & 7) << 5
                | u32::from(conn.srq) << 4;
            let words = [
                t0,
                t1,
                local,
                remote,
                (word::REP_QPN, conn.qpn << 8),
                (word::REP_PSN, conn.rq_psn << 8),
                (word::REP_TERMS, terms),
            ];
            gsi.write(path, buf, Kind::Rep, &words, mad::HEADER_LEN + Rep::PRIVATE_AT, private)
        }
        pending::RTU => gsi.write(path, buf, Kind::Rtu, &[t0, t1, local, remote], 0, &[]),
        pending::DREQ => {
            let words = [t0, t1, local, remote, (word::DREQ_QPN, conn.remote_qpn << 8)];
            gsi.write(path, buf, Kind::Dreq, &words, 0, &[])
        }
        pending::DREP => {
            let words = ids(conn.closing, conn.local_id, conn.remote_id);
            gsi.write(path, buf, Kind::Drep, &words, 0, &[])
        }
        _ => {
            let mra = cm::Mra {
                local_id: conn.local_id,
                remote_id: conn.remote_id,
                received: Rejected::Req,
                service_timeout: timeout_code(cm.service_time.as_nanos()),
                private: &[0; cm::Mra::PRIVATE_LEN],
            };
            gsi.write_whole(path, buf, &Mad { transaction: conn.transaction, message: Message::Mra(mra) })
        }
    }
}

fn addresses(src: IpAddr, dst: IpAddr) -> Option<rdma_cm::Addresses> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(rdma_cm::Addresses::V4 { src, dst }),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(rdma_cm::Addresses::V6 { src, dst }),
        _ => None,
    }
}
