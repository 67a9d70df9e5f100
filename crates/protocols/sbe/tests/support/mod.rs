//! What several tests need: messages of every template with random fields, and the captures.
#![allow(dead_code, reason = "each test uses a part")]

use barewire_base::Prng;
use barewire_sbe::layout::{Body, Kind, Schema, Template};
use barewire_sbe::{MESSAGE_HEADER_LEN, SCHEMA_ID};
use std::path::PathBuf;

/// Every version that a template has had, and the newest for those that live.
pub fn versions(schema: &Schema, template: &Template) -> std::ops::RangeInclusive<u16> {
    template.since..=template.until.unwrap_or(schema.version)
}

/// A message of `template` as `version` writes it, from the layout alone: every field random (text printable, then
/// zeros), padding zero, up to `entries_max` entries a group, `extra` bytes more in each block than the layout has.
pub fn build(template: &Template, version: u16, prng: &mut Prng, entries_max: u64, extra: usize) -> Vec<u8> {
    let mut message = vec![0; MESSAGE_HEADER_LEN];
    let block = template.body.block_length(version) + extra;
    message[2..4].copy_from_slice(&(block as u16).to_le_bytes());
    message[4..6].copy_from_slice(&template.id.to_le_bytes());
    message[6..8].copy_from_slice(&SCHEMA_ID.to_le_bytes());
    message[8..10].copy_from_slice(&version.to_le_bytes());
    body(&mut message, &template.body, version, prng, entries_max, extra);
    let size = message.len() as u16;
    message[..2].copy_from_slice(&size.to_le_bytes());
    message
}

fn body(out: &mut Vec<u8>, body: &Body, version: u16, prng: &mut Prng, entries_max: u64, extra: usize) {
    let mut block = vec![0; body.block_length(version) + extra];
    let fields = body.fields.iter().filter(|field| field.since <= version);
    for field in fields.filter(|field| !matches!(field.ty.kind, Kind::Constant { .. })) {
        let place = &mut block[field.offset..][..field.ty.kind.size()];
        match prng.below(4) {
            // Often the null value of unsigned and decimal types, or nothing.
            0 => place.fill(0xff),
            1 => place.fill(0),
            _ => prng.fill(place),
        }
        if prng.below(8) == 0 && place.len() > 1 {
            // The null value of signed types.
            place.fill(0xff);
            *place.last_mut().unwrap() = 0x7f;
        }
        if matches!(field.ty.kind, Kind::Text { .. }) {
            let len = prng.below(place.len() as u64 + 1) as usize;
            place.fill(0);
            place[..len].iter_mut().for_each(|byte| *byte = b'!' + prng.below(90) as u8);
        }
    }
    out.extend(block);
    for group in body.groups.iter().filter(|group| group.since <= version) {
        let count = prng.below(entries_max + 1);
        let head = out.len();
        out.resize(head + group.dimension.len, 0);
        let len = group.body.block_length(version) + extra;
        out[head..head + 2].copy_from_slice(&(len as u16).to_le_bytes());
        out[head + group.dimension.count.0] = count as u8;
        for _ in 0..count {
            self::body(out, &group.body, version, prng, entries_max, extra);
        }
    }
}

/// The exchange's files that a test may read where they are; `None`, said loudly, where they are not.
pub fn shared(path: &str) -> Option<PathBuf> {
    barewire_testing::shared(&format!("data/cme/{path}"))
}

/// The payloads of the UDP datagrams in a pcap file of Ethernet frames, with VLAN tags or not, IPv4 without fragments.
pub fn udp_payloads(pcap: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap()) as usize;
    assert!(matches!(word(0), 0xa1b2_c3d4 | 0xa1b2_3c4d), "little-endian pcap");
    assert_eq!(word(20), 1, "Ethernet");
    let mut payloads = Vec::new();
    let mut at = 24;
    while at < pcap.len() {
        let frame = &pcap[at + 16..][..word(at + 8)];
        at += 16 + frame.len();
        let mut ether_type = 12;
        while frame[ether_type..ether_type + 2] == [0x81, 0] {
            ether_type += 4;
        }
        assert_eq!(frame[ether_type..ether_type + 2], [8, 0], "IPv4");
        let ip = &frame[ether_type + 2..];
        assert_eq!(ip[9], 17, "UDP");
        let udp = &ip[4 * usize::from(ip[0] & 15)..];
        let len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
        payloads.push(udp[8..len].to_vec());
    }
    payloads
}

/// Every capture: (file name, payloads).
pub fn captures() -> Vec<(String, Vec<Vec<u8>>)> {
    let Some(folder) = shared("pcap") else { return Vec::new() };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: &PathBuf| {
        (path.file_name().unwrap().display().to_string(), udp_payloads(&std::fs::read(path).unwrap()))
    };
    files.iter().map(read).collect()
}
