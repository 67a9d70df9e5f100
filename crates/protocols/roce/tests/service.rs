//! Datagram services that are asked for by their id, and alternate paths that are not to be had. Literal bytes.

mod common;
use barewire_base::DropReason;
use barewire_roce::*;
use barewire_wire::roce::cm::{Mad, Message, SidrReq};
use barewire_wire::roce::{Segment, rdma_cm};
use common::*;

/// Ethernet 14, IPv4 20, UDP 8, BTH 12, DETH 8.
const MAD_AT: usize = 62;
/// What follows the header of a management datagram.
const DATA_AT: usize = MAD_AT + 24;

/// A management datagram from side 0 to side 1.
fn frame(attribute: u8, transaction: u64, data: &[u8]) -> Vec<u8> {
    let mut f = Vec::new();
    f.extend(mac(2).0);
    f.extend(mac(1).0);
    f.extend([8, 0, 0x45, 0]);
    f.extend((20u16 + 8 + 12 + 8 + 256 + 4).to_be_bytes());
    f.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    barewire_wire::ipv4::Packet::new_unchecked(&mut f[14..34]).fill_checksum();
    f.extend([0xc0, 1, 0x12, 0xb7]);
    f.extend((8u16 + 12 + 8 + 256 + 4).to_be_bytes());
    f.extend([0, 0]);
    f.extend([0x64, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0]);
    f.extend([0x80, 1, 0, 0, 0, 0, 0, 1]);
    f.extend([1, 7, 2, 3, 0, 0, 0, 0]);
    f.extend(transaction.to_be_bytes());
    f.extend([0, attribute, 0, 0, 0, 0, 0, 0]);
    f.extend(data);
    f.resize(MAD_AT + 256 + 4, 0);
    seal(&mut f);
    f
}

fn question(service: u64, private: &[u8]) -> Vec<u8> {
    let mut data = vec![0x11, 0x22, 0x33, 0x44, 0xff, 0xff, 0, 0];
    data.extend(service.to_be_bytes());
    data.extend(private);
    frame(0x17, 0x0102_0304_0506_0708, &data)
}

/// Asks side 1, and gives its answer.
fn asked(p: &mut Pair, frame: &[u8]) -> Vec<u8> {
    let (now, mut buf) = (p.now, vec![0xa5; 5000]);
    assert_eq!(p.ends[1].ep.handle_frame(now, frame), Verdict::Consumed);
    let len = p.ends[1].ep.poll_transmit(now, &mut buf).expect("an answer");
    let at = 14;
    assert!(barewire_wire::roce::icrc::check(&buf[at..len]).is_ok());
    assert_eq!(p.ends[1].ep.poll_transmit(now, &mut vec![0; 5000]), None);
    buf.truncate(len);
    buf
}

fn datagram_qp(end: &mut End, qkey: u32) -> Qpn {
    let init = QpInit { kind: QpKind::Ud, qkey, ..end.init() };
    let qpn = end.ep.create_qp(&init).unwrap();
    end.ep.modify_qp(qpn, Modify::Init).unwrap();
    qpn
}

#[test]
fn a_service_is_answered_with_its_queue_pair_and_key() {
    let mut p = Pair::new();
    let qpn = datagram_qp(&mut p.ends[1], 0x0123_4567);
    let ep = &mut p.ends[1].ep;
    let listener = ep.listen_ud(0x0000_0000_0000_0777, qpn, b"hello").unwrap();
    let ask = question(0x777, b"");

    // Not ready to receive: no queue pair (3).
    let answer = asked(&mut p, &ask);
    assert_eq!(answer[DATA_AT..DATA_AT + 6], [0x11, 0x22, 0x33, 0x44, 3, 0]);

    p.ends[1].ep.modify_qp(qpn, Modify::RtrDatagram).unwrap();
    let answer = asked(&mut p, &ask);
    let n = qpn.number().to_be_bytes();
    #[rustfmt::skip]
    let head = [
        1, 7, 2, 3, 0, 0, 0, 0,
        1, 2, 3, 4, 5, 6, 7, 8,
        0, 0x18, 0, 0, 0, 0, 0, 0,
        0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0,
        n[1], n[2], n[3], 0,
        0, 0, 0, 0, 0, 0, 7, 0x77,
        0x01, 0x23, 0x45, 0x67,
    ];
    assert_eq!(answer[MAD_AT..MAD_AT + head.len()], head);
    let (info, private) = (&answer[DATA_AT + 24..DATA_AT + 96], &answer[DATA_AT + 96..DATA_AT + 232]);
    assert!(info.iter().all(|b| *b == 0));
    assert_eq!((&private[..5], private[5..].iter().any(|b| *b != 0)), (&b"hello"[..], false));
    // Asked again, answered again.
    assert_eq!(asked(&mut p, &ask), answer);

    // Another service: unknown (1). One for connections is none for datagrams, and the other way round.
    p.ends[1].ep.listen(SERVICE, 1).unwrap();
    for service in [0x778, SERVICE] {
        let answer = asked(&mut p, &question(service, b""));
        assert_eq!(answer[DATA_AT..DATA_AT + 12], [0x11, 0x22, 0x33, 0x44, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer[DATA_AT + 12..DATA_AT + 20], service.to_be_bytes());
    }
    let path = p.path(0);
    let init = p.ends[0].init();
    let rc = p.ends[0].ep.create_qp(&init).unwrap();
    let now = p.now;
    let conn = p.ends[0].ep.connect(now, rc, &Connect::new(path, 0x777)).unwrap();
    p.exchange();
    let why = ConnectFailure::Rejected(RejReason::INVALID_SERVICE);
    assert_eq!(p.ends[0].take_events(), [Event::ConnectFailed { conn, qpn: rc, why }]);

    assert_eq!(p.ends[1].ep.listen_ud(0x777, qpn, b""), Err(ConnectError::InUse));
    p.ends[1].ep.unlisten(listener).unwrap();
    assert_eq!(asked(&mut p, &ask)[DATA_AT + 4], 1);
}

#[test]
fn a_queue_pair_for_connections_serves_no_datagrams() {
    let mut p = Pair::new();
    let init = p.ends[1].init();
    let rc = p.ends[1].ep.create_qp(&init).unwrap();
    assert_eq!(p.ends[1].ep.listen_ud(1, rc, b""), Err(ConnectError::QueuePair));
    let ud = datagram_qp(&mut p.ends[1], 1);
    assert_eq!(p.ends[1].ep.listen_ud(1, ud, &[1; 137]), Err(ConnectError::PrivateData));
    assert!(p.ends[1].ep.listen_ud(1, ud, &[1; 136]).is_ok());
    // The service outlives its queue pair only as a refusal.
    let now = p.now;
    p.ends[1].ep.destroy_qp(now, ud).unwrap();
    assert_eq!(asked(&mut p, &question(1, b""))[DATA_AT + 4], 3);
}

/// A port of UDP, as the RDMA-CM asks: with the addresses in front of the private data. Then a datagram to what was answered.
#[test]
fn a_port_is_asked_for_with_addresses_and_the_answer_can_be_used() {
    let mut p = Pair::new();
    let service = rdma_cm::service_id(rdma_cm::PortSpace::Udp, 7471);
    assert_eq!(service, 0x0000_0000_0111_1d2f);
    let qpn = datagram_qp(&mut p.ends[1], 0x0123_4567);
    p.ends[1].ep.modify_qp(qpn, Modify::RtrDatagram).unwrap();
    p.ends[1].ep.listen_ud(service, qpn, b"").unwrap();
    // Without addresses it is refused (2).
    assert_eq!(asked(&mut p, &question(service, b""))[DATA_AT + 4], 2);
    let mut header = [0; 36];
    let addresses = rdma_cm::Addresses::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
    rdma_cm::IpHeader { src_port: 99, addresses }.emit(&mut header);
    let answer = asked(&mut p, &question(service, &header));
    let segment = Segment::parse(datagram(&answer)).unwrap();
    let Message::SidrRep(rep) = Mad::parse(segment.payload).unwrap().message else { panic!() };
    assert_eq!((rep.status, rep.service_id, rep.request_id), (0, service, 0x1122_3344));

    let sender = datagram_qp(&mut p.ends[0], 5);
    p.ends[0].ep.modify_qp(sender, Modify::RtrDatagram).unwrap();
    p.ends[0].ep.modify_qp(sender, Modify::RtsDatagram(0)).unwrap();
    p.recv(1, qpn, 3, 0, 100);
    let remote = Some(Remote { path: p.path(0), qpn: rep.qpn, qkey: rep.qkey });
    let wr = SendWr { remote, ..SendWr::new(1, SendOp::Send, Data::Inline(b"to a service")) };
    p.ends[0].ep.post_send(sender, &wr).unwrap();
    p.exchange();
    let got = p.ends[1].completions();
    assert_eq!((got[0].wr_id, got[0].len, p.ends[1].bytes(40, 12)), (3, 52, b"to a service".to_vec()));
}

#[test]
fn an_alternate_path_is_declined() {
    let mut p = Pair::new();
    let kept = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let keep = kept.clone();
    p.filter = Box::new(move |side, f| {
        keep.borrow_mut().push((side, f.clone()));
        true
    });
    let [_, (_, b)] = p.connect();
    // REQ and REP say the two communication ids.
    let id = |n: usize| kept.borrow()[n].1[DATA_AT..DATA_AT + 4].to_vec();
    let (client, server) = (id(0), id(1));
    let mut data = [client.clone(), server.clone()].concat();
    data.extend([0; 4]);
    data.extend((b.number() << 8).to_be_bytes());
    let lap = frame(0x19, 0x0a0b_0c0d_0e0f_1011, &data);
    let answer = asked(&mut p, &lap);
    let head =
        [1, 7, 2, 3, 0, 0, 0, 0, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0, 0x1a, 0, 0, 0, 0, 0, 0];
    assert_eq!(answer[MAD_AT..DATA_AT], head);
    assert_eq!(answer[DATA_AT..DATA_AT + 12], [server.clone(), client.clone(), vec![0, 2, 0, 0]].concat());
    assert!(answer[DATA_AT + 12..MAD_AT + 256].iter().all(|b| *b == 0));
    // For a connection that is none there is no answer.
    data[4] ^= 1;
    let now = p.now;
    let stranger = frame(0x19, 1, &data);
    assert_eq!(p.ends[1].ep.handle_frame(now, &stranger), Verdict::Drop(DropReason::UnknownFlow));
    assert_eq!(p.ends[1].ep.poll_transmit(now, &mut vec![0; 5000]), None);
}

/// As many questions as anybody likes: answers that do not fit their queue are lost and counted.
#[test]
fn a_flood_of_questions_is_bounded() {
    let mut p = Pair::new();
    let now = p.now;
    for i in 0..5000u32 {
        let message =
            Message::SidrReq(SidrReq { request_id: i, pkey: 0xffff, service_id: 1, private: &[7; 216] });
        let mut ask = question(1, b"");
        Mad { transaction: i.into(), message }.emit(&mut ask[MAD_AT..MAD_AT + 256]);
        seal(&mut ask);
        assert_eq!(p.ends[1].ep.handle_frame(now, &ask), Verdict::Consumed);
    }
    let lost = p.ends[1].ep.counters().replies_lost.get();
    p.exchange();
    assert_eq!((lost, p.ends[0].ep.counters().rx_frames.get()), (5000 - 1024, 1024));
}
