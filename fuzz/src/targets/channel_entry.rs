//! Ring entries of the shared-memory channel.

use barewire_channel::layout::ENTRY_WORDS;
use barewire_channel::{Completion, Request};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

const ENTRY_LEN: usize = ENTRY_WORDS * 8;

fn words(bytes: &[u8; ENTRY_LEN]) -> [u64; ENTRY_WORDS] {
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

/// `data` as a ring full of entries, each read as a request and as a completion; a last piece is filled up with zeros.
pub fn channel_entry(data: &[u8]) -> u64 {
    let mut entries = 0;
    for piece in data.chunks(ENTRY_LEN) {
        let mut bytes = [0; ENTRY_LEN];
        bytes[..piece.len()].copy_from_slice(piece);
        let words = words(&bytes);
        let (request, completion) = (Request::decode(words), Completion::decode(words));
        // There is one encoding of each entry, and none means both.
        if let Ok(request) = request {
            assert_eq!(request.encode(), words, "{request:?}");
            assert!(completion.is_err(), "{request:?} is {completion:?} as well");
        }
        if let Ok(completion) = completion {
            assert_eq!(completion.encode(), words, "{completion:?}");
        }
        entries += 1;
    }
    entries
}

/// One entry of every kind, and all in one ring.
pub fn corpus() -> Vec<Vec<u8>> {
    let v4: SocketAddr = ([10, 0, 0, 1], 888).into();
    let v6: SocketAddr = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 889, 0, 3).into();
    let local: Option<IpAddr> = Some(v4.ip());
    let (flow, token, offset, len, udp_port, code, reason) = (0x1_0000_0002, 0xfeed, 4096, 1000, 888, 2, 3);
    let requests = [
        Request::Connect { token, local: None, local_udp_port: 0, remote: v4, ordered: true },
        Request::Connect { token, local, local_udp_port: 5, remote: v4, ordered: false },
        Request::Connect { token, local: Some(v6.ip()), local_udp_port: 5, remote: v6, ordered: true },
        Request::Listen { token, udp_port, local: None },
        Request::Listen { token, udp_port, local },
        Request::Unlisten { udp_port },
        Request::Send { flow, offset, len, token },
        Request::Release { flow, offset, len },
        Request::Close { flow },
        Request::Reset { flow },
    ];
    let completions = [
        Completion::Listening { token, udp_port },
        Completion::ListenFailed { token, udp_port, code },
        Completion::Connecting { token, flow },
        Completion::Connected { token, flow, local: v4, remote: v4 },
        Completion::Accepted { token, flow, local: v6, remote: v6 },
        Completion::ConnectFailed { token, flow, reason },
        Completion::Received { flow, offset, len },
        Completion::Sent { flow, token, offset, delivered: true },
        Completion::SendRefused { flow, token, offset, code },
        Completion::Closed { flow, reason },
    ];
    let encoded = requests.iter().map(Request::encode).chain(completions.iter().map(Completion::encode));
    let mut corpus: Vec<Vec<u8>> = encoded.map(|words| words.map(u64::to_le_bytes).concat()).collect();
    corpus.push(corpus.concat());
    corpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_valid() {
        for entry in corpus() {
            for piece in entry.as_chunks().0 {
                let words = words(piece);
                assert!(Request::decode(words).is_ok() || Completion::decode(words).is_ok(), "{words:x?}");
            }
        }
    }
}
