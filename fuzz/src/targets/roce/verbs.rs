//! Verbs in any order on objects that may be gone.

use super::world::{BASE, MEMORY, SERVICE, World, ip, keep};
use crate::bytes::Bytes;
use crate::frames::mac;
use barewire_ring::Region;
use barewire_roce::*;
use barewire_wire::roce::rdma_cm::{self, PortSpace};
use std::net::IpAddr;

fn nth<T: Copy>(list: &[T], n: u8) -> Option<T> {
    list.get(usize::from(n) % list.len().max(1)).copied()
}

fn send_op(kind: u8, rkey: u32, word: u64) -> SendOp {
    let addr = BASE + word % MEMORY as u64;
    match kind % 8 {
        0 => SendOp::Send,
        1 => SendOp::SendImm(word as u32),
        2 => SendOp::SendInvalidate(rkey),
        3 => SendOp::Write { addr, rkey },
        4 => SendOp::WriteImm { addr, rkey, imm: word as u32 },
        5 => SendOp::Read { addr, rkey },
        6 => SendOp::CompareSwap { addr: addr & !7, rkey, compare: word, swap: !word },
        _ => SendOp::FetchAdd { addr: addr & !7, rkey, add: word },
    }
}

/// One verb at station `at`. Whether it is refused does not matter; objects that it made are kept. `None`: the script is over.
pub fn verb(world: &mut World, at: usize, script: &mut Bytes<'_>) -> Option<()> {
    let (kind, n, word) = (script.u8()?, script.u8()?, script.u64()?);
    let now = world.now;
    let m = (word >> 8) as u8;
    let rkeys = world.stations.each_ref().map(|s| nth(&s.objects.regions, m).map_or(word as u32, |r| r.rkey));
    let peer = 2 - at;
    let station = &mut world.stations[at];
    let (ep, o) = (&mut station.ep, &mut station.objects);
    let honest = station.safe.as_ref();
    let qpn = nth(&o.qps, n).filter(|q| honest.is_none_or(|s| s.qpn != *q));
    let conn = nth(&o.conns, n).filter(|c| honest.is_none_or(|s| s.conn != Some(*c)));
    let (cq, pd) = (nth(&o.cqs, m), nth(&o.pds, (word >> 16) as u8));
    match kind % 36 {
        0 | 1 => {
            let (Some(pd), Some(cq)) = (pd, cq) else { return Some(()) };
            let srq = if word & 3 == 0 { nth(&o.srqs, m) } else { None };
            let kind = if word & 4 == 0 { QpKind::Rc } else { QpKind::Ud };
            let access =
                [Access::NONE, Access::ALL, Access::REMOTE_WRITE, Access::REMOTE_READ][usize::from(n % 4)];
            let init =
                QpInit { pd, kind, send_cq: cq, recv_cq: cq, srq, send_max: 8, recv_max: 8, access, qkey: 5 };
            if let Ok(qpn) = ep.create_qp(&init) {
                keep(&mut o.qps, qpn);
            }
        }
        2 => drop(ep.destroy_qp(now, qpn?)),
        3..=5 => {
            let path = nth(&o.paths, m)?;
            let rtr = RtrAttr {
                path,
                remote_qpn: word as u32 & 0x1ff_ffff,
                rq_psn: (word >> 24) as u32 & 0x1ff_ffff,
                mtu: Mtu::from_code(n % 6 + 1).unwrap_or_default(),
                responder_resources: n % 18,
                min_rnr_timer: m % 33,
            };
            let rts = RtsAttr {
                sq_psn: (word >> 24) as u32 & 0x1ff_ffff,
                timeout: m % 33,
                retry_count: n % 9,
                rnr_retry_count: m % 9,
                initiator_depth: n % 18,
            };
            let to = [
                Modify::Reset,
                Modify::Init,
                Modify::Rtr(rtr),
                Modify::RtrDatagram,
                Modify::Rts(rts),
                Modify::RtsDatagram(word as u32),
                Modify::Sqd,
                Modify::Resume,
                Modify::Err,
            ];
            let _ = ep.modify_qp(qpn?, to[(word >> 56) as usize % to.len()]);
        }
        6..=11 => {
            let lkey = nth(&o.regions, m).map_or(word as u32, |r| r.lkey);
            let len = (word >> 32) as u32 % 2000;
            let sges =
                [Sge { addr: BASE + (word >> 40) % 9000, len, lkey }, Sge { addr: BASE, len: len / 3, lkey }];
            let data = match word >> 61 {
                0 => Data::Inline(&[7; 64][..(word as usize >> 20) % 65]),
                1 => Data::Sges(&sges),
                2 => Data::Sges(&[]),
                _ => Data::Sges(&sges[..1]),
            };
            let op = send_op(n >> 5, rkeys[peer], word);
            let word8 = [Sge { addr: BASE, len: 8, lkey }];
            let data = if n & 0xc0 == 0xc0 && word & 1 == 0 { Data::Sges(&word8) } else { data };
            let remote = nth(&o.paths, m).filter(|_| word & 8 != 0);
            let remote = remote.map(|path| Remote { path, qpn: word as u32 & 0xff_ffff, qkey: 5 });
            let wr = SendWr {
                wr_id: word,
                op,
                data,
                signaled: word & 2 == 0,
                solicited: word & 16 == 0,
                fence: word & 32 == 0,
                remote,
            };
            let _ = ep.post_send(qpn?, &wr);
        }
        12 | 13 => {
            let lkey = nth(&o.regions, m).map_or(word as u32, |r| r.lkey);
            let sge = [Sge { addr: BASE + (word >> 40) % 9000, len: (word >> 24) as u32 % 3000, lkey }];
            let _ = ep.post_recv(qpn?, word, &sge);
            if let Some(srq) = nth(&o.srqs, m) {
                let _ = ep.post_srq_recv(srq, word, &sge);
            }
        }
        14 | 15 => {
            let path = nth(&o.paths, m)?;
            let service_id =
                if word & 1 == 0 { SERVICE } else { rdma_cm::service_id(PortSpace::Tcp, m.into()) };
            let private = [n; 92];
            let to = Connect {
                path,
                service_id,
                src_port: 1,
                mtu: None,
                private: &private[..(word >> 24) as usize % 93],
            };
            if let Ok(conn) = ep.connect(now, qpn?, &to) {
                keep(&mut o.conns, conn);
            }
        }
        16 | 17 => {
            let qpn = nth(&o.qps, m)?;
            let _ = ep.accept(now, conn?, qpn, &Terms { private: &[n; 200][..(word >> 24) as usize % 201] });
        }
        18 => drop(ep.reject(conn?, RejReason(word as u16), &[n; 148][..(word >> 24) as usize % 149])),
        19 => drop(ep.postpone(conn?)),
        20 | 21 => drop(ep.disconnect(now, conn?)),
        22 => {
            let service = if word & 1 == 0 { SERVICE } else { rdma_cm::service_id(PortSpace::Tcp, m.into()) };
            if let Ok(listener) = ep.listen(service, n.into()) {
                keep(&mut o.listeners, listener);
            }
        }
        23 => drop(ep.unlisten(nth(&o.listeners, n)?)),
        24 => {
            let region = Region::heap(64 + word as usize % MEMORY);
            let access =
                [Access::ALL, Access::REMOTE_READ, Access::LOCAL_WRITE, Access::NONE][usize::from(n % 4)];
            if let Ok(mr) = ep.reg_mr(pd?, region, BASE, access) {
                keep(&mut o.regions, mr);
            }
        }
        25 => drop(ep.dereg_mr(nth(&o.regions, n)?)),
        26 => {
            if let Ok(cq) = ep.create_cq(word as u32 % 64) {
                keep(&mut o.cqs, cq);
            }
        }
        27 => drop(ep.destroy_cq(cq?)),
        28 => {
            let _ = ep.arm_cq(cq?, n & 1 == 0);
            let mut out = Vec::new();
            let _ = ep.poll_cq(cq?, &mut out, n.into());
        }
        29 => {
            if let Ok(srq) = ep.create_srq(pd?, n.into()) {
                keep(&mut o.srqs, srq);
                let _ = ep.arm_srq(srq, m.into());
            }
        }
        30 => drop(ep.destroy_srq(nth(&o.srqs, n)?)),
        31 => {
            if let Some(qpn) = qpn
                && let Ok(listener) =
                    ep.listen_ud(u64::from(m % 4) + SERVICE, qpn, &[n; 136][..usize::from(n) % 137])
            {
                keep(&mut o.listeners, listener);
            }
        }
        32 => {
            let quota =
                Quota { qps: word as u32 % 4, sends: m.into(), recvs: n.into(), regions: word as u32 % 3 };
            if let Ok(pd) = ep.alloc_pd_within(quota) {
                keep(&mut o.pds, pd);
            }
        }
        33 => drop(ep.dealloc_pd(pd?)),
        _ => {
            if n & 1 == 0 {
                let spec =
                    PathSpec::new(mac(peer as u8 + 1), IpAddr::V4(ip(at)), IpAddr::from([10, 0, 0, m]));
                if let Ok(path) = ep.path(spec) {
                    keep(&mut o.paths, path);
                }
            } else {
                let _ = ep.release_path(nth(&o.paths, n >> 1)?);
            }
        }
    }
    Some(())
}
