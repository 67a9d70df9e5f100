//! The framing of all talk between the two ends of a measurement: a [head](barewire_measure::head), then what the kind says.
//!
//! Over TCP the kind is [`WORD`] and the body is JSON of at most [`BODY_MAX`] bytes. A reader takes no byte beyond a frame: what follows
//! may be data.

use super::TalkError;
use barewire_measure::head::{HEAD_LEN, Head, VERSION};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// Longest body.
const BODY_MAX: usize = 4096;
/// Kind of a frame whose body is a word in JSON.
const WORD: u8 = 0x10;

/// Says a word.
pub(crate) fn say(out: &mut impl Write, word: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(word).map_err(io::Error::other)?;
    if body.len() > BODY_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut frame = Head::of(WORD, body.len() as u16).bytes().to_vec();
    frame.extend(body);
    out.write_all(&frame)
}

/// What a look for a word gave.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard<T> {
    Word(T),
    /// None yet.
    Nothing,
    /// The other end has closed.
    End,
}

/// Hears words from something that may have nothing for a while.
pub(crate) struct Hearing<R> {
    from: R,
    /// The frame so far.
    got: Vec<u8>,
    /// Its length, as far as it is known.
    wanted: usize,
}

impl<R: Read> Hearing<R> {
    pub(crate) fn new(from: R) -> Hearing<R> {
        Hearing { from, got: Vec::new(), wanted: HEAD_LEN }
    }

    /// What the words come from.
    pub(crate) fn source(&self) -> &R {
        &self.from
    }

    /// It back again: not a byte behind the words was taken.
    pub(crate) fn into_source(self) -> R {
        self.from
    }

    /// The next word, if it comes before the reader's time is up.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Heard<T>, TalkError> {
        loop {
            while self.got.len() < self.wanted {
                let mut bytes = [0; 512];
                let room = bytes.len().min(self.wanted - self.got.len());
                match self.from.read(&mut bytes[..room]) {
                    Ok(0) => return Ok(Heard::End),
                    Ok(n) => self.got.extend_from_slice(&bytes[..n]),
                    Err(e) if super::is_wait(&e) => return Ok(Heard::Nothing),
                    Err(e) => return Err(TalkError::Io(e)),
                }
            }
            let Some((head, body)) = self.got.split_first_chunk::<HEAD_LEN>() else { continue };
            let head = Head::parse(head).filter(|head| head.kind == WORD).ok_or(TalkError::Words)?;
            if head.version != VERSION {
                return Err(TalkError::Version(head.version));
            }
            let len = usize::from(head.len);
            if len == 0 || len > BODY_MAX {
                return Err(TalkError::Words);
            }
            if body.len() == len {
                let word = serde_json::from_slice(body).map_err(|_| TalkError::Words)?;
                self.got.clear();
                self.wanted = HEAD_LEN;
                return Ok(Heard::Word(word));
            }
            self.wanted = HEAD_LEN + len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Hello};
    use super::*;
    use proptest::prelude::*;

    /// Gives a few bytes at a time, and nothing in between.
    struct Dripping<'a>(&'a [u8], usize, bool);

    impl Read for Dripping<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.2 = !self.2;
            if self.2 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let n = out.len().min(self.1).min(self.0.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn frames_have_a_fixed_form() {
        let mut out = Vec::new();
        say(&mut out, &Hello::Data { token: 7 }).unwrap();
        assert_eq!(out, b"bwRC\x01\x10\0\x14{\"data\":{\"token\":7}}");
        assert_eq!(Head::parse(b"bwRC\x02\x03\x01\0"), Some(Head { version: 2, kind: 3, len: 256 }));
        assert_eq!(Head::parse(b"GET / HT"), None);
        assert!(say(&mut out, &"x".repeat(BODY_MAX)).is_err(), "too long to be heard");
    }

    #[test]
    fn what_is_no_word_of_ours_is_refused() {
        let hear = |bytes: &[u8]| Hearing::new(bytes).next::<Hello>();
        assert!(matches!(hear(b"GET / HTTP/1.1\r\n"), Err(TalkError::Words)));
        assert!(matches!(hear(b"bwRC\x02\x10\0\x02{}"), Err(TalkError::Version(2))));
        assert!(matches!(hear(b"bwRC\x01\x10\xff\xff{}"), Err(TalkError::Words)), "too long");
        assert!(matches!(hear(b"bwRC\x01\x10\0\0"), Err(TalkError::Words)), "too short");
        assert!(matches!(hear(b"bwRC\x01\x01\0\x02{}"), Err(TalkError::Words)), "another kind");
        assert!(matches!(hear(b"bwRC\x01\x10\0\x02{}"), Err(TalkError::Words)), "another word");
        assert!(matches!(hear(b"bwRC\x01\x10\0\x09{}"), Ok(Heard::End)), "half of one");
    }

    #[test]
    fn no_byte_behind_a_word_is_taken() {
        let mut out = Vec::new();
        say(&mut out, &Answer::Ready { waits: "spin".to_owned() }).unwrap();
        out.extend(b"data");
        let mut hearing = Hearing::new(out.as_slice());
        assert!(matches!(hearing.next::<Answer>(), Ok(Heard::Word(Answer::Ready { .. }))));
        assert_eq!(hearing.into_source(), b"data");
    }

    proptest! {
        #[test]
        fn words_come_whole_whatever_the_pieces(tokens in prop::collection::vec(any::<u64>(), 0..20), piece in 1usize..40) {
            let mut out = Vec::new();
            for &token in &tokens {
                say(&mut out, &Hello::Data { token }).unwrap();
            }
            let mut hearing = Hearing::new(Dripping(&out, piece, false));
            let mut next = || loop {
                match hearing.next::<Hello>().unwrap() {
                    Heard::Nothing => {}
                    heard => return heard,
                }
            };
            for &token in &tokens {
                prop_assert_eq!(next(), Heard::Word(Hello::Data { token }));
            }
            prop_assert_eq!(next(), Heard::End);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, ours: bool) {
            let head: &[u8] = if ours { b"bwRC\x01\x10\0\x08" } else { b"" };
            let bytes = [head, &bytes].concat();
            let mut hearing = Hearing::new(bytes.as_slice());
            while let Ok(Heard::Word(_)) = hearing.next::<Hello>() {}
            let mut hearing = Hearing::new(bytes.as_slice());
            while let Ok(Heard::Word(_)) = hearing.next::<Answer>() {}
        }
    }
}
