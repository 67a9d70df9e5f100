//! Messages of the connection manager as templates: headers and the constant words are made once per path, a message costs
//! its few words that change, and so does its ICRC.

use crate::path::{HEADER_MAX, Path};
use crate::verbs::Mtu;
use crate::{CmConfig, Config};
use barewire_wire::roce::cm::{self, Mad, Message};
use barewire_wire::roce::ext::Deth;
use barewire_wire::roce::icrc::{HeaderCrc, MAD_DELTAS};
use barewire_wire::roce::{
    ICRC_LEN, Opcode, PKEY_DEFAULT, QKEY_GSI, QPN_GSI, bth, mad, rdma_cm, timeout_code,
};
use barewire_wire::udp;

/// The UDP source port of all management datagrams.
const SRC_PORT: u16 = 0xc001;
/// Bytes of the longest headers in front of the MAD.
const HEAD_MAX: usize = HEADER_MAX + bth::HEADER_LEN + Deth::LEN;
/// UDP header to ICRC.
const UDP_LEN: u16 = (udp::HEADER_LEN + bth::HEADER_LEN + Deth::LEN + mad::LEN + ICRC_LEN) as u16;
/// Place of the MAD's first word in the table of differences.
const DELTA_MAD: usize = 3;
/// Above this many changed words one pass over the datagram is cheaper than their differences.
const WORDS_MAX: usize = 16;

/// The messages that have templates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Kind {
    Req,
    Rep,
    Rtu,
    Dreq,
    Drep,
}

/// Words of a MAD, by their place, that messages change.
pub(crate) mod word {
    /// Header of 24 bytes: the transaction id.
    pub const TRANSACTION: usize = 2;
    pub const LOCAL_ID: usize = 6;
    pub const REMOTE_ID: usize = 7;
    pub const REQ_SERVICE: usize = 8;
    pub const REQ_QPN: usize = 14;
    pub const REQ_PSN: usize = 17;
    pub const REQ_MTU: usize = 18;
    pub const REP_QPN: usize = 9;
    pub const REP_PSN: usize = 11;
    pub const REP_TERMS: usize = 12;
    pub const DREQ_QPN: usize = 8;
}

struct Template {
    mad: [u8; mad::LEN],
    icrc: u32,
}

/// What one path needs to speak to the connection manager at its other end.
pub(crate) struct Gsi {
    head: [u8; HEAD_MAX],
    head_len: usize,
    /// CRC over IP header, UDP header and BTH, as they stand in `head`.
    crc: HeaderCrc,
    templates: [Template; 5],
}

/// The constant parts of a REQ's fourth word of terms and of others, in one place for both ends of it.
pub(crate) fn req_terms(mtu: Mtu, cm: &CmConfig, srq: bool) -> u32 {
    u32::from(PKEY_DEFAULT) << 16
        | u32::from((mtu as u8) << 4 | cm.rnr_retry_count & 7) << 8
        | u32::from(cm.retries.min(15) << 4 | u8::from(srq) << 3)
}

/// The low byte of the word that holds a REQ's first sequence number.
pub(crate) fn req_psn(psn: u32, cm: &CmConfig) -> u32 {
    psn << 8 | u32::from(timeout_code(cm.response_timeout.as_nanos()) << 3 | cm.retry_count & 7)
}

impl Gsi {
    pub(crate) fn new(config: &Config, path: &Path) -> Gsi {
        let mut head = [0; HEAD_MAX];
        let (bth_at, body_at, l3) = (path.bth_at(), path.body_at(), path.l3());
        head[..bth_at].copy_from_slice(path.header());
        path.write_lengths(&mut head, SRC_PORT, UDP_LEN, 0);
        bth::Repr {
            opcode: Opcode::UD_SEND_ONLY,
            solicited: false,
            migrated: config.migrated,
            pad: 0,
            pkey: PKEY_DEFAULT,
            fecn: false,
            becn: false,
            dst_qpn: QPN_GSI,
            ack_request: false,
            psn: 0,
        }
        .emit(&mut bth::Packet::new_unchecked(&mut head[bth_at..]));
        Deth { qkey: QKEY_GSI, src_qpn: QPN_GSI }.emit(&mut head[body_at..]);
        let head_len = body_at + Deth::LEN;
        let crc = HeaderCrc::new(&head[l3..body_at]).unwrap_or(HeaderCrc::from_crc(0, path.v4));
        let template = |message: Message<'_>| {
            let mut bytes = [0; Deth::LEN + mad::LEN];
            bytes[..Deth::LEN].copy_from_slice(&head[body_at..head_len]);
            let mut mad = [0; mad::LEN];
            Mad { transaction: 0, message }.emit(&mut mad);
            bytes[Deth::LEN..].copy_from_slice(&mad);
            Template { mad, icrc: crc.finish(&bytes) }
        };
        let cm = &config.cm;
        let response = timeout_code(cm.response_timeout.as_nanos());
        let (local_id, remote_id) = (0, 0);
        let req = cm::Req {
            local_id,
            service_id: 0,
            guid: config.guid,
            qkey: 0,
            qpn: 0,
            responder_resources: cm.responder_resources,
            eecn: 0,
            initiator_depth: cm.initiator_depth,
            remote_eecn: 0,
            remote_response_timeout: response,
            transport: 0,
            flow_control: false,
            starting_psn: 0,
            local_response_timeout: response,
            retry_count: cm.retry_count,
            pkey: PKEY_DEFAULT,
            path_mtu: config.mtu as u8,
            rdc_exists: false,
            rnr_retry_count: cm.rnr_retry_count,
            max_cm_retries: cm.retries.min(15),
            srq: false,
            extended_transport: 0,
            primary: cm::Path {
                local_lid: 0xffff,
                remote_lid: 0xffff,
                local_gid: rdma_cm::gid(path.spec.src),
                remote_gid: rdma_cm::gid(path.spec.dst),
                hop_limit: path.spec.hop_limit,
                traffic_class: path.spec.dscp << 2,
                // No rate limit is known: the code of 10 Gbit/s is what software devices say.
                rate: 3,
                ack_timeout: cm.ack_timeout,
                ..cm::Path::default()
            },
            alternate: cm::Path::default(),
            private: &[0; cm::Req::PRIVATE_LEN],
        };
        let rep = cm::Rep {
            local_id,
            remote_id,
            qkey: 0,
            qpn: 0,
            eecn: 0,
            starting_psn: 0,
            responder_resources: 0,
            initiator_depth: 0,
            ack_delay: 0,
            failover: 0,
            flow_control: false,
            rnr_retry_count: 0,
            srq: false,
            guid: config.guid,
            private: &[0; cm::Rep::PRIVATE_LEN],
        };
        let templates = [
            template(Message::Req(req)),
            template(Message::Rep(rep)),
            template(Message::Rtu(cm::Rtu { local_id, remote_id, private: &[0; cm::Rtu::PRIVATE_LEN] })),
            template(Message::Dreq(cm::Dreq {
                local_id,
                remote_id,
                remote_qpn: 0,
                private: &[0; cm::Dreq::PRIVATE_LEN],
            })),
            template(Message::Drep(cm::Drep { local_id, remote_id, private: &[0; cm::Drep::PRIVATE_LEN] })),
        ];
        Gsi { head, head_len, crc, templates }
    }

    /// Writes a message by its template: the words given, and `private` from byte `private_at` of the MAD, a multiple of 4,
    /// on. Bytes of the frame.
    #[inline]
    pub(crate) fn write(
        &self,
        path: &Path,
        buf: &mut [u8],
        kind: Kind,
        words: &[(usize, u32)],
        private_at: usize,
        private: &[u8],
    ) -> usize {
        let template = &self.templates[kind as usize];
        buf[..self.head_len].copy_from_slice(&self.head[..self.head_len]);
        let out = &mut buf[self.head_len..self.head_len + mad::LEN];
        out.copy_from_slice(&template.mad);
        let mut icrc = template.icrc;
        let mut set = |word: usize, value: u32| {
            let Some(place) = out.get_mut(4 * word..).and_then(|tail| tail.first_chunk_mut::<4>()) else {
                return;
            };
            icrc ^= MAD_DELTAS.of(DELTA_MAD + word, u32::from_be_bytes(*place) ^ value);
            *place = value.to_be_bytes();
        };
        for &(word, value) in words {
            set(word, value);
        }
        if private.len() <= 4 * WORDS_MAX {
            for (i, piece) in private.chunks(4).enumerate() {
                let mut bytes = [0; 4];
                bytes[..piece.len()].copy_from_slice(piece);
                if bytes != [0; 4] {
                    set(private_at / 4 + i, u32::from_be_bytes(bytes));
                }
            }
        } else {
            let room = private.len().min(mad::LEN - private_at);
            out[private_at..private_at + room].copy_from_slice(&private[..room]);
            icrc = self.crc.finish(&buf[path.body_at()..self.head_len + mad::LEN]);
        }
        self.close(path, buf, icrc)
    }

    /// Writes a message that has no template.
    pub(crate) fn write_whole(&self, path: &Path, buf: &mut [u8], mad: &Mad<'_>) -> usize {
        buf[..self.head_len].copy_from_slice(&self.head[..self.head_len]);
        mad.emit(&mut buf[self.head_len..self.head_len + mad::LEN]);
        let icrc = self.crc.finish(&buf[path.body_at()..self.head_len + mad::LEN]);
        self.close(path, buf, icrc)
    }

    fn close(&self, path: &Path, buf: &mut [u8], icrc: u32) -> usize {
        let end = self.head_len + mad::LEN;
        buf[end..end + ICRC_LEN].copy_from_slice(&icrc.to_le_bytes());
        path.fill_udp_checksum(&mut buf[..end + ICRC_LEN], SRC_PORT, UDP_LEN);
        end + ICRC_LEN
    }
}
