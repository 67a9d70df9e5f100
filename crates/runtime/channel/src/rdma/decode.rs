//! Words into entries. Total: whatever the words are, the result is an entry or an error.
//!
//! Nothing here checks that unused bits are zero: what was read is written again and compared.

use super::*;
use crate::BadEntry;
use std::net::{Ipv4Addr, Ipv6Addr};

struct Fields(Words);

impl Fields {
    #[inline]
    fn op(&self) -> u8 {
        self.0[0] as u8
    }

    #[inline]
    fn flags(&self) -> u8 {
        (self.0[0] >> 8) as u8
    }

    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.flags() & flag != 0
    }

    #[inline]
    fn short(&self) -> u16 {
        (self.0[0] >> 16) as u16
    }

    #[inline]
    fn first(&self) -> u32 {
        (self.0[0] >> 32) as u32
    }

    #[inline]
    fn second(&self) -> u32 {
        self.0[1] as u32
    }

    #[inline]
    fn third(&self) -> u32 {
        (self.0[1] >> 32) as u32
    }

    #[inline]
    fn wide(&self) -> u64 {
        self.0[3]
    }

    fn ip(&self, at: usize, family: u32) -> Result<Option<IpAddr>, BadEntry> {
        match self.flags() >> family & 3 {
            0 => Ok(None),
            1 => Ok(Some(Ipv4Addr::from_bits(self.0[at] as u32).into())),
            2 => {
                let bits = u128::from(self.0[at]) << 64 | u128::from(self.0[at + 1]);
                Ok(Some(Ipv6Addr::from_bits(bits).into()))
            }
            _ => Err(BadEntry::Malformed(self.op())),
        }
    }

    fn some_ip(&self, at: usize, family: u32) -> Result<IpAddr, BadEntry> {
        self.ip(at, family)?.ok_or(BadEntry::Malformed(self.op()))
    }

    #[inline]
    fn sge(&self, at: usize) -> Sge {
        Sge { addr: self.0[at], len: self.0[at + 1] as u32, lkey: (self.0[at + 1] >> 32) as u32 }
    }

    /// A number that is at most `max`.
    #[inline]
    fn count(&self, max: usize) -> Result<u8, BadEntry> {
        u8::try_from(self.short())
            .ok()
            .filter(|n| usize::from(*n) <= max)
            .ok_or(BadEntry::Malformed(self.op()))
    }

    #[inline]
    fn list(&self) -> [Sge; SGE_MAX] {
        [self.sge(4), self.sge(6)]
    }

    fn staged(&self) -> Result<Staged, BadEntry> {
        let len = self.flags();
        if usize::from(len) > STAGED_MAX {
            return Err(BadEntry::Malformed(self.op()));
        }
        let mut bytes = [0; STAGED_MAX];
        for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&self.0[2..]) {
            *bytes = word.to_ne_bytes();
        }
        Ok(Staged { len, bytes })
    }

    #[inline]
    fn data(&self) -> Result<SendData, BadEntry> {
        Ok(match (self.has(STAGED), self.has(INLINE)) {
            (true, true) => SendData::StagedInline,
            (true, false) => SendData::StagedSges,
            (false, false) => SendData::Sges { n: self.count(SGE_MAX)?, list: self.list() },
            (false, true) => {
                let mut bytes = [0; INLINE_MAX];
                for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&self.0[4..]) {
                    *bytes = word.to_ne_bytes();
                }
                SendData::Inline { len: self.count(INLINE_MAX)?, bytes }
            }
        })
    }

    #[inline]
    fn post(&self) -> Result<PostSend, BadEntry> {
        let (imm, rkey, addr) = (self.first(), self.third(), self.wide());
        let op = match self.op() {
            SEND => SendOp::Send(self.data()?),
            SEND_IMM => SendOp::SendImm { imm, data: self.data()? },
            SEND_INVALIDATE => SendOp::SendInvalidate { rkey, data: self.data()? },
            WRITE => SendOp::Write { addr, rkey, data: self.data()? },
            WRITE_IMM => SendOp::WriteImm { addr, rkey, imm, data: self.data()? },
            READ => SendOp::Read { addr, rkey, data: self.data()? },
            COMPARE_SWAP => {
                SendOp::CompareSwap { addr, rkey, compare: self.0[6], swap: self.0[7], result: self.sge(4) }
            }
            FETCH_ADD => SendOp::FetchAdd { addr, rkey, add: self.0[6], result: self.sge(4) },
            op => return Err(BadEntry::UnknownOp(op)),
        };
        if matches!(op, SendOp::Read { data: SendData::Inline { .. } | SendData::StagedInline, .. }) {
            return Err(BadEntry::Malformed(READ));
        }
        Ok(PostSend {
            qp: self.second(),
            wr_id: self.0[2],
            op,
            signaled: self.has(ONE),
            solicited: self.has(TWO),
            fence: self.has(FOUR),
        })
    }
}

impl Request {
    /// Reads an entry's words. Total: whatever they are, it is a request or an error.
    ///
    /// # Errors
    /// [`BadEntry`] when the words are not what [`encode`](Request::encode) writes.
    #[inline]
    pub fn decode(words: [u64; ENTRY_WORDS]) -> Result<Request, BadEntry> {
        let f = Fields(words);
        let token = words[2];
        let (first, second, third, wide) = (f.first(), f.second(), f.third(), f.wide());
        let request = match f.op() {
            SEND..=FETCH_ADD => Request::PostSend(f.post()?),
            POST_RECV => {
                let n = if f.has(STAGED) { None } else { Some(f.count(SGE_MAX)?) };
                let list = if n.is_some() { f.list() } else { Default::default() };
                Request::PostRecv(PostRecv { queue: first, wr_id: token, n, list })
            }
            QUERY => Request::Query { token },
            STAGE => Request::Stage(f.staged()?),
            ALLOC_PD => Request::AllocPd { token },
            REG_MR => Request::RegMr {
                token,
                pd: first,
                recv_memory: f.short() & 1 != 0,
                offset: second,
                len: third,
                base: wide,
                access: f.flags(),
            },
            CREATE_CQ => Request::CreateCq { token, entries: first },
            CREATE_SRQ => Request::CreateSrq { token, pd: first, limit: second },
            ARM_SRQ => Request::ArmSrq { token, srq: first, low: second },
            CREATE_QP => Request::CreateQp(CreateQp {
                token,
                pd: first,
                send_cq: second,
                recv_cq: third,
                srq: (wide >> 32) as u32,
                send_max: wide as u16,
                recv_max: (wide >> 16) as u16,
                access: f.flags(),
            }),
            MODIFY_QP => Request::ModifyQp { token, qp: first, to: f.flags() },
            QUERY_QP => Request::QueryQp { token, qp: first },
            DESTROY => Request::Destroy { token, object: first },
            LISTEN => Request::Listen { token, service_id: wide, backlog: first },
            CONNECT => Request::Connect(Connect {
                token,
                qp: first,
                service_id: wide,
                src_port: f.short(),
                mtu: third as u8,
                timeout_ms: second,
                local: f.ip(4, LOCAL_FAMILY)?,
                remote: f.some_ip(6, REMOTE_FAMILY)?,
            }),
            ACCEPT => Request::Accept { token, conn: first, qp: second },
            REJECT => Request::Reject { token, conn: first, reason: second as u16 },
            DISCONNECT => Request::Disconnect { token, conn: first },
            op => return Err(BadEntry::UnknownOp(op)),
        };
        if request.encode() == words { Ok(request) } else { Err(BadEntry::Malformed(f.op())) }
    }
}

impl Completion {
    /// Reads an entry's words. Total: whatever they are, it is a completion or an error.
    ///
    /// # Errors
    /// [`BadEntry`] when the words are not what [`encode`](Completion::encode) writes.
    #[inline]
    pub fn decode(words: [u64; ENTRY_WORDS]) -> Result<Completion, BadEntry> {
        let f = Fields(words);
        let token = words[2];
        let (first, second, third, wide) = (f.first(), f.second(), f.third(), f.wide());
        let completion = match f.op() {
            WC => Completion::Wc(Wc {
                cq: first,
                wr_id: token,
                status: f.short() as u8,
                opcode: (f.short() >> 8) as u8,
                qpn: second,
                len: third,
                imm: f.has(ONE).then_some(wide as u32),
                invalidated: f.has(TWO).then_some((wide >> 32) as u32),
            }),
            STAGE_BACK => Completion::Stage(f.staged()?),
            DEVICE => Completion::Device(Device {
                token,
                mtu: f.flags(),
                queue_pairs: first,
                connections: second,
                regions: third,
                cqs: wide as u32,
                requests: (wide >> 32) as u32,
                completions: words[4] as u32,
            }),
            MADE => Completion::Made { token, object: first, key: second },
            DONE => Completion::Done { token },
            REFUSED => Completion::Refused { token, code: f.short(), what: second as u16, limit: first },
            POST_REFUSED => {
                Completion::PostRefused { queue: first, wr_id: token, code: f.short(), recv: f.has(ONE) }
            }
            QP => Completion::Qp {
                token,
                state: f.flags(),
                remote_qpn: first,
                rq_psn: second,
                sq_psn: third,
                sends: wide as u32,
                recvs: (wide >> 32) as u32,
            },
            CONNECT_REQUEST => Completion::ConnectRequest {
                listener: first,
                conn: second,
                service_id: wide,
                remote_qpn: third,
                local: f.some_ip(4, LOCAL_FAMILY)?,
                remote: f.some_ip(6, REMOTE_FAMILY)?,
            },
            EVENT => {
                let kind = f.short() as u8;
                if kind == 0 || kind > event::MAX {
                    return Err(BadEntry::Malformed(EVENT));
                }
                let why = (f.short() >> 8) as u8;
                Completion::Event { kind, object: first, other: second, why, reason: third as u16 }
            }
            op => return Err(BadEntry::UnknownOp(op)),
        };
        if completion.encode() == words { Ok(completion) } else { Err(BadEntry::Malformed(f.op())) }
    }
}
