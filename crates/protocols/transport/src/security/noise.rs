//! The handshake: Noise (revision 34), patterns IK and XX, with X25519, ChaCha20-Poly1305 and SHA-256. Both ends hash everything
//! that INIT says of the flow into it, so that nothing of that can be altered unnoticed.

use super::packet::{Cipher, Opener, Sealer, first_secret};
use super::primitives::{Wiped, X25519};
use super::{PublicKey, Security};
use barewire_wire::msg::secure::{self, PATTERN_IK, PATTERN_XX};
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher as NoiseCipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

/// Longest handshake message that a side makes or takes, in bytes.
pub(crate) const MESSAGE_MAX: usize = 160;

const IK: &str = "Noise_IK_25519_ChaChaPoly_SHA256";
const XX: &str = "Noise_XX_25519_ChaChaPoly_SHA256";

/// Gives snow the one random value that a side of a handshake needs: its ephemeral key. What it has given is overwritten where it was: to
/// move it out would leave it there.
struct OneValue(Option<Zeroizing<[u8; 32]>>);

impl Random for OneValue {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        let bytes = self.0.as_mut().filter(|b| b.len() == out.len()).ok_or(snow::Error::Rng)?;
        out.copy_from_slice(&**bytes);
        bytes.zeroize();
        self.0 = None;
        Ok(())
    }
}

struct Resolver(Option<Zeroizing<[u8; 32]>>);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(OneValue(self.0.clone())))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        (*choice == DHChoice::Curve25519).then(|| Box::new(X25519::default()) as Box<dyn Dh>)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn NoiseCipher>> {
        Some(Box::new(Wiped(DefaultResolver.resolve_cipher(choice)?)))
    }
}

/// What INIT says of the flow, as both ends hash it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub pattern: u8,
    pub ciphers: u8,
    pub rekey: u8,
    pub udp_port: u16,
    pub src_cid: u64,
    pub mss: u16,
    pub options: u16,
    pub seq: u32,
    pub credit: u32,
}

impl Said {
    fn bytes(&self) -> [u8; 42] {
        let mut b = [0; 42];
        b[..17].copy_from_slice(b"barewire message1");
        b[17..20].copy_from_slice(&[self.pattern, self.ciphers, self.rekey]);
        b[20..22].copy_from_slice(&self.udp_port.to_be_bytes());
        b[22..30].copy_from_slice(&self.src_cid.to_be_bytes());
        b[30..32].copy_from_slice(&self.mss.to_be_bytes());
        b[32..34].copy_from_slice(&self.options.to_be_bytes());
        b[34..38].copy_from_slice(&self.seq.to_be_bytes());
        b[38..42].copy_from_slice(&self.credit.to_be_bytes());
        b
    }
}

/// One side of a handshake.
///
/// A message that fails leaves snow's state half changed (it may have mixed in a key that came with it), so what was done so far is
/// kept, and done again after a failure: the ephemeral key is the same, and so are all bytes.
pub(crate) struct Noise {
    state: Box<HandshakeState>,
    is_client: bool,
    said: Said,
    ephemeral: Zeroizing<[u8; 32]>,
    peer: Option<PublicKey>,
    done: Vec<Step>,
}

/// What a side of a handshake has done.
enum Step {
    /// Written with this payload.
    Wrote(Vec<u8>),
    /// Read this message.
    Read(Vec<u8>),
}

/// What a finished handshake leaves: the two directions as this side uses them.
pub(crate) struct Split {
    pub tx: Sealer,
    pub rx: Opener,
}

impl Noise {
    /// Begins one; `peer` is the key that a client of pattern IK knows. `None`: no such pattern, or a key that is none.
    pub(crate) fn new(
        security: &Security,
        said: &Said,
        ephemeral: Zeroizing<[u8; 32]>,
        is_client: bool,
        peer: Option<&PublicKey>,
    ) -> Option<Noise> {
        let state = begin(security, said, ephemeral.clone(), is_client, peer)?;
        let (said, peer) = (*said, peer.copied());
        Some(Noise { state, is_client, said, ephemeral, peer, done: Vec::new() })
    }

    /// Our next message, with `payload` in it.
    pub(crate) fn write(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; MESSAGE_MAX];
        let len = self.state.write_message(payload, &mut out).ok()?;
        out.truncate(len);
        self.done.push(Step::Wrote(payload.to_vec()));
        Some(out)
    }

    /// Takes the peer's next message in and gives its payload. A message that fails changes nothing.
    pub(crate) fn read(&mut self, security: &Security, message: &[u8]) -> Option<Vec<u8>> {
        if message.len() > MESSAGE_MAX {
            return None;
        }
        let mut out = vec![0; MESSAGE_MAX];
        match self.state.read_message(message, &mut out) {
            Ok(len) => {
                out.truncate(len);
                self.done.push(Step::Read(message.to_vec()));
                Some(out)
            }
            Err(_) => {
                self.redo(security);
                None
            }
        }
    }

    /// The first message that was read.
    pub(crate) fn first_read(&self) -> Option<&[u8]> {
        self.done.iter().find_map(|step| match step {
            Step::Read(message) => Some(&message[..]),
            Step::Wrote(_) => None,
        })
    }

    /// As if the message that was read last had never come.
    pub(crate) fn unread(&mut self, security: &Security) {
        if let Some(Step::Read(_)) = self.done.last() {
            self.done.pop();
            self.redo(security);
        }
    }

    /// Makes the state anew from what was done.
    fn redo(&mut self, security: &Security) {
        let made = begin(security, &self.said, self.ephemeral.clone(), self.is_client, self.peer.as_ref());
        let Some(mut state) = made else { return };
        let mut out = [0; MESSAGE_MAX];
        for step in &self.done {
            // What worked once works again: the same bytes go in.
            let _ = match step {
                Step::Wrote(payload) => state.write_message(payload, &mut out),
                Step::Read(message) => state.read_message(message, &mut out),
            };
        }
        wipe(&mut self.state);
        self.state = state;
    }

    /// The key that the peer has proven to have, or will with its next message.
    pub(crate) fn peer(&self) -> Option<PublicKey> {
        Some(PublicKey::from_bytes(*self.state.get_remote_static()?.first_chunk()?))
    }

    /// The keys of the flow; `None` until all messages are through. `here` and `there`: log2 of the packets after which each end
    /// takes new ones.
    pub(crate) fn split(&mut self, cipher: Cipher, here: u8, there: u8) -> Option<Split> {
        if !self.state.is_handshake_finished() {
            return None;
        }
        let (to_server, to_client) = self.state.dangerously_get_raw_split();
        let (to_server, to_client) = (Zeroizing::new(to_server), Zeroizing::new(to_client));
        let (out, back) = if self.is_client { (&to_server, &to_client) } else { (&to_client, &to_server) };
        let said = self.state.get_handshake_hash();
        Some(Split {
            tx: Sealer::new(cipher, first_secret(said, out), here),
            rx: Opener::new(cipher, first_secret(said, back), there),
        })
    }
}

/// The flow's keys follow from what a state has: it is written over before its place is given back.
impl Drop for Noise {
    fn drop(&mut self) {
        wipe(&mut self.state);
    }
}

fn wipe(state: &mut HandshakeState) {
    let blank = |params: NoiseParams| {
        let builder = Builder::with_resolver(params, Box::new(Resolver(None)));
        builder.local_private_key(&[0; 32]).ok()?.build_responder().ok()
    };
    if let Some(blank) = XX.parse().ok().and_then(blank) {
        *state = blank;
    }
    // Or the compiler might find that nobody reads it any more.
    std::hint::black_box(state);
}

fn begin(
    security: &Security,
    said: &Said,
    ephemeral: Zeroizing<[u8; 32]>,
    is_client: bool,
    peer: Option<&PublicKey>,
) -> Option<Box<HandshakeState>> {
    let name = match said.pattern {
        PATTERN_IK => IK,
        PATTERN_XX => XX,
        _ => return None,
    };
    let params: NoiseParams = name.parse().ok()?;
    let prologue = said.bytes();
    let builder = Builder::with_resolver(params, Box::new(Resolver(Some(ephemeral))))
        .local_private_key(security.private().as_bytes())
        .and_then(|b| b.prologue(&prologue))
        .ok()?;
    let state = match (is_client, peer) {
        (true, Some(key)) => builder.remote_public_key(key.as_bytes()).ok()?.build_initiator(),
        (true, None) => builder.build_initiator(),
        (false, _) => builder.build_responder(),
    };
    state.ok().map(Box::new)
}

/// Whether a peer may take new keys that often.
pub(crate) fn is_rekey(rekey: u8) -> bool {
    (super::REKEY_MIN..=super::REKEY_MAX).contains(&rekey)
}

/// The two ciphers' bits.
pub(crate) const CIPHERS: u8 = secure::CIPHER_AES_128_GCM | secure::CIPHER_CHACHA20_POLY1305;
