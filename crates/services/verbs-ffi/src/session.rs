//! A context and what C needs beside it.

use crate::error::{not_connected_code, refusal_code};
use crate::types::{self, BwvEvent, BwvWc};
use barewire_roce::ConnectFailure;
use barewire_verbs::context::{Context, Event, Failure, Mr, NotConnected, Wc};
use std::collections::HashMap;

pub(crate) struct Session {
    pub context: Context,
    /// Regions by number: C keeps numbers, and the memory stays mapped while it is here.
    pub regions: HashMap<u32, Mr>,
}

impl Session {
    pub(crate) fn new(context: Context) -> Session {
        Session { context, regions: HashMap::new() }
    }
}

pub(crate) fn completion(wc: &Wc) -> BwvWc {
    let (status, refusal) = match wc.result {
        Ok(()) => (types::BWV_WC_SUCCESS, 0),
        Err(Failure::Failed(status)) => (status.code().into(), 0),
        Err(Failure::Refused(why)) => (types::BWV_WC_REFUSED, refusal_code(why)),
    };
    let with_imm = if wc.imm.is_some() { types::BWV_WC_WITH_IMM } else { 0 };
    let with_key = if wc.invalidated.is_some() { types::BWV_WC_WITH_INVALIDATE } else { 0 };
    BwvWc {
        wr_id: wc.wr_id,
        status,
        opcode: wc.opcode.code().into(),
        qpn: wc.qpn,
        len: wc.len,
        flags: with_imm | with_key,
        imm: wc.imm.unwrap_or(0),
        invalidated: wc.invalidated.unwrap_or(0),
        refusal,
    }
}

fn with_private(mut event: BwvEvent, private: &[u8]) -> BwvEvent {
    let n = private.len().min(event.private_data.len());
    event.private_data[..n].copy_from_slice(&private[..n]);
    event.private_len = n as u32;
    event
}

/// What C is told; `None` for what this release has no number for.
pub(crate) fn translate(event: &Event) -> Option<BwvEvent> {
    let of = |kind, object| BwvEvent { object, ..BwvEvent::new(kind) };
    Some(match event {
        Event::ConnectRequest(r) => {
            let event = BwvEvent {
                conn: r.conn.number(),
                object: r.listener.number(),
                service_id: r.service_id,
                local: r.local.into(),
                remote: r.remote.into(),
                remote_qpn: r.remote_qpn,
                ..BwvEvent::new(types::BWV_EVENT_CONNECT_REQUEST)
            };
            with_private(event, &r.private)
        }
        Event::Connected { conn, qp, private } => {
            let event = BwvEvent {
                conn: conn.number(),
                qp: qp.number(),
                ..BwvEvent::new(types::BWV_EVENT_CONNECTED)
            };
            with_private(event, private)
        }
        Event::Established { conn, qp } => {
            BwvEvent { conn: conn.number(), qp: qp.number(), ..BwvEvent::new(types::BWV_EVENT_ESTABLISHED) }
        }
        Event::ConnectFailed { conn, qp, why } => BwvEvent {
            conn: conn.number(),
            qp: qp.map_or(0, |qp| qp.number()),
            why: not_connected_code(*why),
            reason: match why {
                NotConnected::Peer(ConnectFailure::Rejected(reason)) => reason.0.into(),
                _ => 0,
            },
            ..BwvEvent::new(types::BWV_EVENT_CONNECT_FAILED)
        },
        Event::Disconnected { conn, qp, why } => BwvEvent {
            conn: conn.number(),
            qp: qp.number(),
            why: why.code().into(),
            ..BwvEvent::new(types::BWV_EVENT_DISCONNECTED)
        },
        Event::QpError(qp, fault) => {
            BwvEvent { qp: qp.number(), why: fault.code().into(), ..BwvEvent::new(types::BWV_EVENT_QP_ERROR) }
        }
        Event::Drained(qp) => BwvEvent { qp: qp.number(), ..BwvEvent::new(types::BWV_EVENT_DRAINED) },
        Event::SrqLow(srq) => of(types::BWV_EVENT_SRQ_LOW, srq.number()),
        Event::CqOverrun(cq) => of(types::BWV_EVENT_CQ_OVERRUN, cq.number()),
        Event::SrqPostRefused { srq, wr_id, why } => BwvEvent {
            wr_id: *wr_id,
            why: refusal_code(*why),
            ..of(types::BWV_EVENT_SRQ_POST_REFUSED, srq.number())
        },
        _ => return None,
    })
}
