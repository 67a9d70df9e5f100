//! What protects one flow. It stays with the flow's place in the table, so that a flow that opens there next allocates nothing but
//! its handshake, and so that keys can be written over.

use super::noise::{Noise, Said, Split};
use super::packet::{Opener, Sealer};
use super::{PeerKey, PeerNumber};
use barewire_base::Instant;

/// How far a flow is with being encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Shield {
    /// It is not, and will not be.
    Plain,
    /// The handshake is under way.
    Pending,
    /// Both ends have keys, and this one, a client of pattern XX, does not know yet whether its CONFIRM arrived.
    Unconfirmed,
    /// Every packet is sealed.
    Sealed,
}

pub(crate) struct Guard {
    pub tx: Sealer,
    pub rx: Opener,
    /// The handshake, while it is under way.
    pub noise: Option<Noise>,
    /// What the client said in its INIT.
    pub said: Option<Said>,
    /// Whom a client wants to talk to.
    pub way: PeerKey,
    /// The handshake message that is sent until it is answered: that of INIT, ACCEPT or CONFIRM.
    pub message: Vec<u8>,
    /// Who the peer has proven to be.
    pub peer: Option<PeerNumber>,
    pub cipher: &'static str,
    /// A sealed packet of the peer's has come.
    pub heard: bool,
    /// Answers to our INIT that were computed.
    pub answers: super::Ration,
    /// When a CONFIRM that is not answered is sent again.
    pub confirm_at: Instant,
}

impl Guard {
    pub(crate) fn new() -> Guard {
        Guard {
            tx: Sealer::wiped(),
            rx: Opener::wiped(),
            noise: None,
            said: None,
            way: PeerKey::Plain,
            message: Vec::new(),
            peer: None,
            cipher: "",
            heard: false,
            answers: super::Ration::default(),
            confirm_at: Instant::ZERO,
        }
    }

    /// Takes the keys of a handshake that is done; the handshake is forgotten.
    pub(crate) fn arm(&mut self, split: Split, cipher: super::Cipher) {
        (self.tx, self.rx) = (split.tx, split.rx);
        self.cipher = cipher.as_str();
        self.noise = None;
    }

    /// Nothing of the flow's secrets stays here: what is dropped writes itself over.
    pub(crate) fn wipe(&mut self) {
        *self = Guard { message: std::mem::take(&mut self.message), ..Guard::new() };
        self.message.clear();
    }

    /// Nothing of a flow is left.
    pub(crate) fn is_wiped(&self) -> bool {
        self.noise.is_none() && self.message.is_empty() && self.peer.is_none() && self.cipher.is_empty()
    }
}
