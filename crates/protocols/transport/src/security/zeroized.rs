//! What was secret is written over before its memory is given back: each block that these tests free is searched for it.

use super::keys::PrivateKey;
use super::noise::{Noise, Said};
use super::packet::{Cipher, Key, Opener, Sealer, first_secret};
use super::{Peer, Security};
use barewire_testing::{Searching, search_freed};
use barewire_wire::msg::secure::{PATTERN_IK, PATTERN_XX};
use zeroize::Zeroizing;

#[global_allocator]
static ALLOCATOR: Searching = Searching;

/// How many blocks that `work` frees have these sixteen bytes in them.
fn left_behind(secret: [u8; 16], work: impl FnOnce()) -> u64 {
    let search = search_freed(secret);
    work();
    search.found()
}

#[test]
fn the_search_finds_what_was_left() {
    let left = left_behind([0x77; 16], || drop(std::hint::black_box(vec![0x77_u8; 40])));
    assert_eq!(left, 1);
}

fn said(pattern: u8) -> Said {
    Said {
        pattern,
        ciphers: 3,
        rekey: 22,
        udp_port: 888,
        src_cid: 1 << 60,
        mss: 1400,
        options: 2,
        seq: 1,
        credit: 2,
    }
}

/// A handshake between hosts with the keys 0x31 and 0x32, and the ephemeral keys 0x41 and 0x42.
fn shake_hands(pattern: u8) {
    let (a, b) = (PrivateKey::from_bytes([0x31; 32]), PrivateKey::from_bytes([0x32; 32]));
    let of = |own: &PrivateKey, other: &PrivateKey| {
        let mut security = Security::new(own.clone());
        security.trust(Peer { name: "other".into(), key: other.public(), addresses: vec![] });
        security
    };
    let (client, server) = (of(&a, &b), of(&b, &a));
    let ephemeral = |byte| Zeroizing::new([byte; 32]);
    let known = (pattern == PATTERN_IK).then(|| b.public());
    let mut at_client = Noise::new(&client, &said(pattern), ephemeral(0x41), true, known.as_ref()).unwrap();
    let mut at_server = Noise::new(&server, &said(pattern), ephemeral(0x42), false, None).unwrap();
    let first = at_client.write(&[]).unwrap();
    // One that fails makes the state anew.
    assert!(at_server.read(&server, &first[..first.len() - 1]).is_none());
    at_server.read(&server, &first).unwrap();
    let second = at_server.write(&[1, 2, 3]).unwrap();
    assert!(at_client.read(&client, &[0xa5; 90]).is_none());
    at_client.read(&client, &second).unwrap();
    if pattern == PATTERN_XX {
        let third = at_client.write(&[]).unwrap();
        at_server.read(&server, &third).unwrap();
    }
    let (here, there) =
        (at_client.split(Cipher::Aes128Gcm, 22, 22), at_server.split(Cipher::Aes128Gcm, 22, 22));
    let (mut here, mut there) = (Box::new(here.unwrap()), Box::new(there.unwrap()));
    let mut packet = [7; 80];
    here.tx.seal(&mut packet);
    assert!(there.rx.open(&mut packet).is_ok());
}

#[test]
fn a_handshake_leaves_no_key_behind() {
    for pattern in [PATTERN_IK, PATTERN_XX] {
        for byte in [0x31, 0x32, 0x41, 0x42] {
            assert_eq!(left_behind([byte; 16], || shake_hands(pattern)), 0, "{byte:#x} of pattern {pattern}");
        }
    }
}

#[test]
fn keys_of_flows_go_with_their_flows_whatever_ends_them() {
    for cipher in [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305] {
        let left = left_behind([0x51; 16], || {
            // The key after those that change, and one alone.
            drop(Box::new(Key::new(cipher, &[0x51; 32], [0; 12])));
            let mut keys = vec![Key::new(cipher, &[0x51; 32], [0; 12])];
            keys[0] = Key::new(cipher, &[0x52; 32], [0; 12]);
            keys.clear();
        });
        assert_eq!(left, 0, "{cipher:?}");
    }
    // The secret that the next key is made of.
    let secret = || first_secret(b"said", &[0x61; 32]);
    let bytes: [u8; 16] = *secret().first_chunk().unwrap();
    let left = left_behind(bytes, || {
        drop(Box::new(Sealer::new(Cipher::Aes128Gcm, secret(), 22)));
        drop(Box::new(Opener::new(Cipher::Aes128Gcm, secret(), 22)));
    });
    assert_eq!(left, 0);
}
