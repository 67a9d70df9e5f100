//! One connection of the server: what its client wants, and how far it is.

use super::error::words;
use super::{Advert, Hello, Mode, Offer, RcError, fill};
use barewire_base::Instant;
use barewire_roce::{
    Access, ConnId, CqId, Data, Endpoint, Pd, QpInit, Qpn, SendOp, SendWr, Sge, SrqId, Wc, WcOpcode, WcStatus,
};
use barewire_verbs::Memory;
use std::cell::Cell;
use std::net::IpAddr;

/// Most memory that one connection gets, in bytes.
pub(super) const SESSION_BYTES_MAX: u64 = 1 << 28;
/// Most memory that all connections get together, in bytes.
const BYTES_MAX: u64 = 1 << 31;
/// Messages that wait in the shared queue for connections that have said nothing of themselves.
const INBOX_SLOTS: usize = 1024;
/// Bytes of each: more than an advert, so that a longer message is told from one.
const INBOX_STRIDE: usize = 64;

/// What all sessions share.
pub(super) struct Shared {
    pub pd: Pd,
    pub cq: CqId,
    pub srq: SrqId,
    inbox: Memory,
    /// What "go on" is said with: its bytes mean nothing, their number does.
    go_on: Memory,
    /// Bytes that connections may still get.
    left: Cell<u64>,
}

impl Shared {
    pub fn new(verbs: &mut Endpoint) -> Result<Shared, RcError> {
        let pd = verbs.alloc_pd();
        let shared = Shared {
            pd,
            cq: verbs.create_cq(1 << 20)?,
            srq: verbs.create_srq(pd, INBOX_SLOTS as u32)?,
            inbox: Memory::register(verbs, pd, INBOX_SLOTS * INBOX_STRIDE, Access::LOCAL_WRITE)?,
            go_on: Memory::register(verbs, pd, Advert::LEN, Access::NONE)?,
            left: Cell::new(BYTES_MAX),
        };
        for slot in 0..INBOX_SLOTS {
            shared.post(verbs, slot)?;
        }
        Ok(shared)
    }

    /// Memory for a connection.
    fn lend(&self, verbs: &mut Endpoint, len: usize, access: Access) -> Result<Memory, RcError> {
        let left = self.left.get().checked_sub(len as u64).ok_or(RcError::Memory)?;
        let memory = Memory::register(verbs, self.pd, len, access)?;
        self.left.set(left);
        Ok(memory)
    }

    /// Takes it back.
    fn take_back(&self, verbs: &mut Endpoint, memory: &Memory) {
        if verbs.dereg_mr(memory.mr()).is_ok() {
            self.left.set(self.left.get() + memory.len() as u64);
        }
    }

    fn post(&self, verbs: &mut Endpoint, slot: usize) -> Result<(), RcError> {
        Ok(verbs.post_srq_recv(
            self.srq,
            slot as u64,
            &[self.inbox.sge(slot * INBOX_STRIDE, INBOX_STRIDE)],
        )?)
    }

    /// Tells an rping client to go on.
    fn say_go_on(&self, verbs: &mut Endpoint, qpn: Qpn) -> Result<(), RcError> {
        let list = [self.go_on.sge(0, Advert::LEN)];
        Ok(verbs.post_send(qpn, &SendWr::new(0, SendOp::Send, Data::Sges(&list)))?)
    }

    /// Takes a message out and gives its place back.
    fn take(&self, verbs: &mut Endpoint, wc: &Wc) -> Result<[u8; Advert::LEN], RcError> {
        let slot = wc.wr_id as usize;
        let mut bytes = [0; Advert::LEN];
        let whole = self.inbox.region().read(slot * INBOX_STRIDE, &mut bytes);
        self.post(verbs, slot)?;
        if !whole || wc.len as usize != Advert::LEN {
            return Err(RcError::Bogus { len: wc.len, expected: Advert::LEN });
        }
        Ok(bytes)
    }
}

/// What a connection is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Nothing was ever sent.
    None,
    /// It was an rping client's.
    Ping,
    /// It was a `perf` client's.
    Perf(Mode),
}

impl Use {
    /// As a word.
    pub fn word(self) -> &'static str {
        match self {
            Use::None => "connect",
            Use::Ping => "ping",
            Use::Perf(Mode::Echo) => "perf-echo",
            Use::Perf(Mode::Sink) => "perf-sink",
            Use::Perf(Mode::Memory) => "perf-memory",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The next message says where the data is.
    Source,
    Reading(u32),
    /// The next message says where it is to go.
    Sink(u32),
    Writing,
}

struct Ping {
    stage: Stage,
    memory: Option<Memory>,
}

struct Perf {
    mode: Mode,
    memory: Memory,
    /// Places of messages, and how many.
    slots: Option<Memory>,
    count: usize,
    stride: usize,
}

enum Work {
    Ping(Ping),
    Perf(Perf),
}

/// A connection.
pub(super) struct Session {
    pub conn: ConnId,
    pub peer: IpAddr,
    pub service_port: u16,
    pub since: Instant,
    pub established: bool,
    /// What went wrong, in words, first.
    pub failed: Option<String>,
    /// Rounds of a ping, or messages.
    pub messages: u64,
    /// Bytes of data that came here, by whichever way we took part in.
    pub bytes_in: u64,
    /// The same, from here.
    pub bytes_out: u64,
    work: Work,
}

/// Why a request is refused.
pub(super) struct Refusal(pub &'static str);

/// What a request asks for: the memory that it takes, and the queue pair.
pub(super) struct Admission {
    hello: Option<Hello>,
    pub init: QpInit,
}

impl Admission {
    /// Looks at a request's private data.
    pub fn of(private: &[u8], shared: &Shared) -> Result<Admission, Refusal> {
        let plain = QpInit::rc(shared.pd, shared.cq);
        let Some(hello) = Hello::parse(private) else {
            let init =
                QpInit { srq: Some(shared.srq), send_max: 4, recv_max: 0, access: Access::NONE, ..plain };
            return Ok(Admission { hello: None, init });
        };
        let hello = hello.ok_or(Refusal("this version of the handshake is not known here"))?;
        if bytes_of(&hello) > SESSION_BYTES_MAX {
            return Err(Refusal("more memory than one connection gets"));
        }
        let room = slots_of(&hello) as u16;
        let access = if hello.mode == Mode::Echo { Access::NONE } else { Access::ALL };
        let init = QpInit { send_max: room.max(1), recv_max: room, access, ..plain };
        Ok(Admission { hello: Some(hello), init })
    }

    /// The session, and what to answer the client.
    pub fn session(
        &self,
        verbs: &mut Endpoint,
        shared: &Shared,
        conn: ConnId,
        now: Instant,
    ) -> Result<(Session, Vec<u8>), RcError> {
        let mut answer = Vec::new();
        let work = match self.hello {
            None => Work::Ping(Ping { stage: Stage::Source, memory: None }),
            Some(hello) => {
                let perf = Perf::new(verbs, shared, &hello)?;
                let memory = Advert {
                    addr: perf.memory.addr(),
                    rkey: perf.memory.rkey(),
                    len: perf.memory.len() as u32,
                };
                answer = Offer { memory }.bytes().to_vec();
                Work::Perf(perf)
            }
        };
        let info = verbs.conn_info(conn);
        let session = Session {
            conn,
            peer: info.map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), |info| info.peer),
            service_port: info.map_or(0, |info| info.service_id as u16),
            since: now,
            established: false,
            failed: None,
            messages: 0,
            bytes_in: 0,
            bytes_out: 0,
            work,
        };
        Ok((session, answer))
    }
}

/// Places for messages. A client's next message may come before we know that our last one arrived: twice the window.
fn slots_of(hello: &Hello) -> u32 {
    match hello.mode {
        Mode::Echo | Mode::Sink => hello.window * 2 + 2,
        Mode::Memory => 0,
    }
}

fn bytes_of(hello: &Hello) -> u64 {
    u64::from(hello.size) * u64::from(slots_of(hello).max(1))
}

impl Perf {
    fn new(verbs: &mut Endpoint, shared: &Shared, hello: &Hello) -> Result<Perf, RcError> {
        let stride = hello.size as usize;
        let count = slots_of(hello) as usize;
        let (memory, slots) = match hello.mode {
            Mode::Memory => {
                let memory = shared.lend(verbs, stride.max(8), Access::ALL)?;
                fill(&memory);
                (memory, None)
            }
            mode => {
                let access = if mode == Mode::Sink { Access::REMOTE_READ } else { Access::NONE };
                let slots = shared.lend(verbs, (count * stride).max(8), Access::LOCAL_WRITE)?;
                match shared.lend(verbs, 8, access) {
                    Ok(counted) => (counted, Some(slots)),
                    Err(error) => {
                        shared.take_back(verbs, &slots);
                        return Err(error);
                    }
                }
            }
        };
        Ok(Perf { mode: hello.mode, memory, slots, count, stride })
    }

    fn post(&self, verbs: &mut Endpoint, qpn: Qpn, slot: u64) -> Result<(), RcError> {
        let Some(slots) = &self.slots else { return Ok(()) };
        Ok(verbs.post_recv(qpn, slot, &[slots.sge(slot as usize * self.stride, self.stride)])?)
    }
}

impl Session {
    /// What it was used for.
    pub fn used_for(&self) -> Use {
        match &self.work {
            Work::Perf(perf) => Use::Perf(perf.mode),
            Work::Ping(ping) if ping.memory.is_none() => Use::None,
            Work::Ping(_) => Use::Ping,
        }
    }

    /// Posts what must be there before the client's first message.
    pub fn start(&self, verbs: &mut Endpoint, qpn: Qpn) -> Result<(), RcError> {
        if let Work::Perf(perf) = &self.work {
            for slot in 0..perf.count {
                perf.post(verbs, qpn, slot as u64)?;
            }
        }
        Ok(())
    }

    /// A completion of its queue pair.
    pub fn completed(&mut self, verbs: &mut Endpoint, shared: &Shared, wc: &Wc) -> Result<(), RcError> {
        if wc.status != WcStatus::Success {
            if matches!(self.work, Work::Ping(_)) && wc.opcode == WcOpcode::Recv {
                // The place in the shared queue is everybody's.
                shared.post(verbs, wc.wr_id as usize)?;
            }
            if wc.status != WcStatus::Flushed {
                let what = format!("{:?}: {}", wc.opcode, words(wc.status));
                self.failed.get_or_insert(what);
            }
            return Ok(());
        }
        match &mut self.work {
            Work::Ping(ping) => {
                let step = ping.step(verbs, shared, wc)?;
                self.bytes_in += u64::from(step.data_in);
                self.bytes_out += u64::from(step.data_out);
                self.messages += u64::from(step.round_done);
            }
            Work::Perf(perf) => {
                let slot = wc.wr_id;
                match (perf.mode, wc.opcode) {
                    (Mode::Echo, WcOpcode::Recv) => {
                        self.messages += 1;
                        self.bytes_in += u64::from(wc.len);
                        self.bytes_out += u64::from(wc.len);
                        if let Some(slots) = &perf.slots {
                            let list = [slots.sge(slot as usize * perf.stride, wc.len as usize)];
                            verbs.post_send(wc.qpn, &SendWr::new(slot, SendOp::Send, Data::Sges(&list)))?;
                        }
                    }
                    (Mode::Echo, _) => perf.post(verbs, wc.qpn, slot)?,
                    (Mode::Sink, WcOpcode::Recv) => {
                        self.messages += 1;
                        self.bytes_in += u64::from(wc.len);
                        perf.memory.write(0, &self.messages.to_be_bytes());
                        perf.post(verbs, wc.qpn, slot)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Gives its memory back. Its queue pair is gone already.
    pub fn release(self, verbs: &mut Endpoint, shared: &Shared) {
        let memories = match self.work {
            Work::Ping(ping) => [ping.memory, None],
            Work::Perf(perf) => [Some(perf.memory), perf.slots],
        };
        for memory in memories.into_iter().flatten() {
            shared.take_back(verbs, &memory);
        }
    }
}

/// What came of a step of a ping.
#[derive(Default)]
struct Step {
    data_in: u32,
    data_out: u32,
    round_done: bool,
}

impl Ping {
    fn step(&mut self, verbs: &mut Endpoint, shared: &Shared, wc: &Wc) -> Result<Step, RcError> {
        let mut step = Step::default();
        self.stage = match (self.stage, wc.opcode) {
            (Stage::Source, WcOpcode::Recv) => {
                let source = Advert::parse(&shared.take(verbs, wc)?);
                let list = [self.room(verbs, shared, source.len)?];
                let op = SendOp::Read { addr: source.addr, rkey: source.rkey };
                verbs.post_send(wc.qpn, &SendWr::new(0, op, Data::Sges(&list)))?;
                Stage::Reading(source.len)
            }
            (Stage::Reading(len), WcOpcode::Read) => {
                step.data_in = len;
                shared.say_go_on(verbs, wc.qpn)?;
                Stage::Sink(len)
            }
            (Stage::Sink(len), WcOpcode::Recv) => {
                let sink = Advert::parse(&shared.take(verbs, wc)?);
                step.data_out = len.min(sink.len);
                let list = [self.room(verbs, shared, step.data_out)?];
                let op = SendOp::Write { addr: sink.addr, rkey: sink.rkey };
                verbs.post_send(wc.qpn, &SendWr::new(0, op, Data::Sges(&list)))?;
                Stage::Writing
            }
            (Stage::Writing, WcOpcode::Write) => {
                step.round_done = true;
                shared.say_go_on(verbs, wc.qpn)?;
                Stage::Source
            }
            (_, WcOpcode::Recv) => {
                shared.take(verbs, wc)?;
                return Err(RcError::Unasked);
            }
            // "Go on" has arrived.
            (stage, _) => stage,
        };
        Ok(step)
    }

    /// Memory for so many bytes of data, the same as before if it is large enough.
    fn room(&mut self, verbs: &mut Endpoint, shared: &Shared, len: u32) -> Result<Sge, RcError> {
        if u64::from(len) > SESSION_BYTES_MAX {
            let (name, value) = ("an advertised length", len.into());
            return Err(RcError::Range { name, value, min: 0, max: SESSION_BYTES_MAX });
        }
        let len = len as usize;
        if let Some(memory) = self.memory.take_if(|memory| memory.len() < len) {
            shared.take_back(verbs, &memory);
        }
        let memory = match self.memory.take() {
            Some(memory) => memory,
            None => shared.lend(verbs, len.max(64).next_power_of_two(), Access::LOCAL_WRITE)?,
        };
        Ok(self.memory.insert(memory).sge(0, len))
    }
}
