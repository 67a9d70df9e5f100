//! Hostile bytes: every message cut at every length, bits flipped, sizes forged, noise. Nothing panics, hangs, or reads
//! past what it was given; and what typed views take, the dynamic decoder takes too.

mod support;

use barewire_base::Prng;
use barewire_sbe::fuzz::{fuzz_all, read};
use barewire_sbe::{FrameError, MESSAGE_HEADER_LEN, Message, Packet};
use support::{build, versions};

/// A message with its size field set right, whatever else it says.
fn resized(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let size = bytes.len() as u16;
    bytes[..2].copy_from_slice(&size.to_le_bytes());
    bytes
}

#[test]
fn every_message_cut_at_every_length() {
    let schema = barewire_sbe::mdp3::schema();
    for template in &schema.templates {
        for version in [*versions(schema, template).start(), *versions(schema, template).end()] {
            let bytes = build(template, version, &mut Prng::new(u64::from(template.id)), 3, 0);
            for len in 0..bytes.len() {
                if len >= 2 {
                    // The size says more than there is.
                    assert!(Message::parse(&bytes[..len]).is_err());
                }
                if len >= MESSAGE_HEADER_LEN {
                    let cut = resized(&bytes[..len]);
                    assert!(!read(&Message::parse(&cut).unwrap()), "{} cut at {len}", template.name);
                }
            }
            assert!(read(&Message::parse(&bytes).unwrap()));
        }
    }
}

#[test]
fn flipped_bits_and_forged_sizes() {
    let schema = barewire_sbe::mdp3::schema();
    let seed = 0x5be_0001;
    eprintln!("seed {seed:#x}");
    let mut prng = Prng::new(seed);
    let (mut taken, mut refused) = (0u32, 0u32);
    for template in &schema.templates {
        let newest = *versions(schema, template).end();
        for _ in 0..200 {
            let mut bytes = build(template, newest, &mut prng, 4, 0);
            for _ in 0..=prng.below(4) {
                let at = prng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << prng.below(8);
            }
            if prng.below(2) == 0 {
                // Header fields and the first group's header are where sizes are.
                let at = 2 + prng.below(8) as usize;
                bytes[at] = prng.next_u64() as u8;
            }
            let bytes = resized(&bytes);
            if read(&Message::parse(&bytes).unwrap()) { taken += 1 } else { refused += 1 }
        }
    }
    assert!(taken > 1000 && refused > 1000, "{taken} taken, {refused} refused");
}

#[test]
fn packets_of_noise_end() {
    let seed = 0x5be_0002;
    eprintln!("seed {seed:#x}");
    let mut prng = Prng::new(seed);
    for _ in 0..20_000 {
        let mut bytes = vec![0; prng.below(200) as usize];
        prng.fill(&mut bytes);
        fuzz_all(&bytes);
        let Ok(packet) = Packet::parse(&bytes) else {
            assert!(bytes.len() < 12);
            continue;
        };
        // Sizes that are small enough make several messages.
        let mut body = packet.body().to_vec();
        if prng.below(2) == 0 && body.len() > 1 {
            body[0] = prng.below(40) as u8;
            body[1] = 0;
        }
        let mut messages = barewire_sbe::Messages::of_body(&body, 12);
        let mut framed = 0;
        while let Some(next) = messages.next() {
            match next {
                Ok(message) => {
                    framed += message.size();
                    read(&message);
                }
                Err(_) => {
                    assert!(messages.next().is_none() && messages.next().is_none());
                    break;
                }
            }
        }
        assert!(framed <= body.len());
    }
}

#[test]
fn framing_errors_say_where() {
    let packet = |body: &[u8]| [&[0; 12], body].concat();
    let errors = |bytes: &[u8]| -> Vec<Option<FrameError>> {
        Packet::parse(bytes).unwrap().messages().map(|message| message.err()).collect()
    };
    assert_eq!(Packet::parse(&[0; 11]).err(), Some(FrameError::NoPacketHeader { len: 11 }));
    assert_eq!(errors(&packet(&[])), []);
    assert_eq!(errors(&packet(&[10, 0, 0])), [Some(FrameError::NoMessageHeader { at: 12, left: 3 })]);
    let heartbeat = [10, 0, 0, 0, 12, 0, 1, 0, 13, 0];
    let two = packet(&[&heartbeat[..], &[9; 10]].concat());
    assert_eq!(errors(&two), [None, Some(FrameError::SizePastEnd { at: 22, size: 0x0909, left: 10 })]);
    let small = packet(&[&heartbeat[..], &[9, 0, 0, 0, 0, 0, 0, 0, 0, 0], &heartbeat[..]].concat());
    assert_eq!(errors(&small), [None, Some(FrameError::SizeTooSmall { at: 22, size: 9 })]);
    assert_eq!(errors(&packet(&[0; 10])), [Some(FrameError::SizeTooSmall { at: 12, size: 0 })]);
}
