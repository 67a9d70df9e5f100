//! RoCE frames as Linux's software RDMA device sent them: one of each kind, kept here, and a whole capture where it is there.

use barewire_wire::roce::cm::{Mad, Message, RejReason};
use barewire_wire::roce::ext::{Aeth, Syndrome};
use barewire_wire::roce::rdma_cm::{self, Addresses, IpHeader, PortSpace};
use barewire_wire::roce::{self, Opcode, Operation, Segment, bth, icrc};
use barewire_wire::{ipv4, udp, vlan};

const VECTORS: &str = include_str!("roce_vectors.txt");

fn vectors() -> Vec<(&'static str, Vec<u8>)> {
    VECTORS
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            let (name, len, hex) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            let bytes: Vec<u8> =
                (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
            assert_eq!(bytes.len(), len.parse::<usize>().unwrap(), "{name}");
            (name, bytes)
        })
        .collect()
}

fn vector(name: &str) -> Vec<u8> {
    vectors().into_iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no vector {name}")).1
}

/// The packet of a frame, and its UDP payload.
fn unwrap(frame: &[u8]) -> (&[u8], &[u8]) {
    let link = vlan::untag(frame).unwrap();
    let packet = &frame[link.payload_at..];
    let ip = ipv4::Packet::new_checked(packet).unwrap();
    let datagram = udp::Packet::new_checked(ip.payload()).unwrap();
    assert_eq!(datagram.dst_port(), roce::UDP_PORT);
    (&packet[..ip.total_len()], datagram.payload())
}

/// Everything that must hold for any frame of a correct sender. The opcode, and whether it was a management datagram.
fn judge(frame: &[u8]) -> (Opcode, bool) {
    let (packet, datagram) = unwrap(frame);
    assert_eq!(icrc::check(packet), Ok(()));
    assert!(icrc::check_known(packet, 20, true));
    let mut damaged = packet.to_vec();
    damaged[60 % packet.len()] ^= 4;
    assert!(icrc::check(&damaged).is_err());
    let mut sealed = packet.to_vec();
    let end = sealed.len();
    sealed[end - 4..].fill(0xa5);
    icrc::fill(&mut sealed).unwrap();
    assert_eq!(sealed, packet);

    let segment = Segment::parse(datagram).unwrap();
    let mut header = [0xa5; 12];
    segment.bth.emit(&mut bth::Packet::new_unchecked(&mut header[..]));
    assert_eq!(header, datagram[..12]);
    let state = icrc::HeaderCrc::new(&packet[..40]).unwrap();
    assert_eq!(state.finish(&packet[40..end - 4]).to_le_bytes(), packet[end - 4..]);

    let management = segment.shape.datagram && segment.bth.dst_qpn == roce::QPN_GSI;
    if management {
        assert_eq!(segment.deth().unwrap().qkey, roce::QKEY_GSI);
        let mad = Mad::parse(segment.payload).unwrap();
        let mut again = [0xa5; 256];
        mad.emit(&mut again);
        assert_eq!(again, segment.payload, "{mad:?}");
        assert_eq!(Mad::parse(&again), Ok(mad));
    }
    (segment.bth.opcode, management)
}

#[test]
fn every_vector_is_understood_and_written_back() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 19);
    for (name, frame) in vectors {
        judge(&frame);
        let (_, datagram) = unwrap(&frame);
        let opcode = Segment::parse(datagram).unwrap().bth.opcode;
        let want = match name {
            "ACK" => Opcode::ACKNOWLEDGE,
            "READ_REQ" => Opcode::READ_REQUEST,
            "READ_RESP_FIRST" => Opcode::READ_RESPONSE_FIRST,
            "READ_RESP_LAST" => Opcode::READ_RESPONSE_LAST,
            "WRITE_ONLY" => Opcode::WRITE_ONLY,
            "ATOMIC_ACK" => Opcode::ATOMIC_ACKNOWLEDGE,
            "CMP_SWAP" => Opcode::COMPARE_SWAP,
            "FETCH_ADD" => Opcode::FETCH_ADD,
            "SEND_FIRST" => Opcode::SEND_FIRST,
            "SEND_MIDDLE" => Opcode::SEND_MIDDLE,
            "SEND_LAST" => Opcode::SEND_LAST,
            "SEND_ONLY" => Opcode::SEND_ONLY,
            _ => Opcode::UD_SEND_ONLY,
        };
        assert_eq!(opcode, want, "{name}");
    }
}

#[test]
fn a_vlan_tag_is_not_covered() {
    let mut frame = vector("SEND_ONLY");
    frame.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    judge(&frame);
}

#[test]
fn the_fields_of_a_request_and_its_reply() {
    let frame = vector("REQ");
    let segment = Segment::parse(unwrap(&frame).1).unwrap();
    let mad = Mad::parse(segment.payload).unwrap();
    let Message::Req(req) = mad.message else { panic!("{mad:?}") };
    assert_eq!(rdma_cm::port_of(req.service_id).map(|p| p.0), Some(PortSpace::Tcp));
    assert_eq!((req.transport, req.pkey, req.path_mtu), (0, 0xffff, 3));
    assert_eq!((req.retry_count, req.max_cm_retries, req.local_response_timeout), (7, 15, 20));
    assert_eq!(req.primary.local_lid, 0xffff);
    let client = "10.77.0.3".parse().unwrap();
    let server = "10.77.0.2".parse().unwrap();
    assert_eq!(rdma_cm::address_of(req.primary.local_gid), std::net::IpAddr::V4(client));
    let header = IpHeader::parse(req.private).unwrap();
    assert_eq!(header.addresses, Addresses::V4 { src: client, dst: server });

    let frame = vector("REP");
    let segment = Segment::parse(unwrap(&frame).1).unwrap();
    let reply = Mad::parse(segment.payload).unwrap();
    let Message::Rep(rep) = reply.message else { panic!("{reply:?}") };
    assert_eq!((rep.remote_id, reply.transaction), (req.local_id, mad.transaction));

    // The trap: the first request is sent with the sequence number that the receiver's own message asked for.
    let first = vector("SEND_FIRST");
    let bth = Segment::parse(unwrap(&first).1).unwrap().bth;
    assert_eq!((bth.dst_qpn, bth.psn), (0x11, 0x7342d2));

    let frame = vector("REJ");
    let segment = Segment::parse(unwrap(&frame).1).unwrap();
    let Ok(Mad { message: Message::Rej(rej), .. }) = Mad::parse(segment.payload) else { panic!() };
    assert_eq!(rej.reason, RejReason::TIMEOUT);
}

#[test]
fn the_fields_of_data_packets() {
    let parse = |name| {
        let frame: &'static [u8] = vector(name).leak();
        Segment::parse(unwrap(frame).1).unwrap()
    };
    let ack = parse("ACK");
    assert_eq!(ack.aeth().map(|a: Aeth| a.syndrome), Some(Syndrome::ACK));
    let (request, first, last) = (parse("READ_REQ"), parse("READ_RESP_FIRST"), parse("READ_RESP_LAST"));
    assert_eq!(request.reth().map(|r| r.len as usize), Some(first.payload.len() + last.payload.len()));
    assert_eq!(first.payload.len(), 1024);
    let swap = parse("CMP_SWAP");
    assert_eq!(swap.shape.operation, Operation::CompareSwap);
    assert_eq!(swap.atomic().map(|a| a.addr % 8), Some(0));
    assert!(parse("ATOMIC_ACK").atomic_ack().is_some());
    assert!(parse("FETCH_ADD").reth().is_none());
}

#[test]
fn every_frame_of_the_capture() {
    let Some(capture) = barewire_testing::shared("data/roce/two-guests.pcap") else { return };
    let bytes = std::fs::read(capture).unwrap();
    let le32 = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!(le32(0), 0xa1b2_c3d4, "a pcap file in little-endian order");
    let (mut at, mut roce_frames, mut management) = (24, 0, 0);
    while at + 16 <= bytes.len() {
        let frame = &bytes[at + 16..][..le32(at + 8)];
        at += 16 + frame.len();
        if frame[12..14] != [8, 0] || frame[23] != 17 || frame[36..38] != roce::UDP_PORT.to_be_bytes() {
            continue; // ARP and the like
        }
        roce_frames += 1;
        management += usize::from(judge(frame).1);
    }
    assert_eq!((roce_frames, management), (1674, 1270));
}
