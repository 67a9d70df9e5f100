//! TLS 1.3 over one TCP connection, by rustls: what a program would do that encrypts and has no barewire.
//!
//! The cipher is the one that barewire takes on this CPU. Reads and writes are as large as those of the batched baseline: whatever waits is
//! one write, in records of up to 16 KiB. The session stands before the clock starts; the server's key is a raw public key (RFC 7250) that is
//! made for it, and that the client takes as it comes: who is there costs nothing that is measured.

use super::batch::{drain, fill};
use barewire_client::security::Cipher;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustix::net::RecvFlags;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as provider};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ServerConfig, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most bytes of text in a record, and what a record adds to them, at most.
const RECORD_LEN: usize = 16 << 10;
const RECORD_MORE: usize = 64;
/// Reads of a handshake that may come back with nothing: the socket's time-out each.
const PATIENCE: u32 = 100;
/// What stands before an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410, section 4).
const ED25519_SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// A session, with what has come and is not deciphered, and what is enciphered and has not left.
pub(super) struct Tls {
    side: Side,
    incoming: Box<[u8]>,
    filled: usize,
    outgoing: Box<[u8]>,
    made: usize,
    sent: usize,
}

/// How far a session is after one step.
enum Step {
    /// There may be more.
    Again,
    /// What is enciphered has to leave now.
    Send,
    /// Nothing can be done before more comes.
    Wait,
    /// The session stands, and everything that came is read.
    Idle,
    /// The other end is done.
    Closed,
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("TLS: {error}"))
}

/// ring, with the ciphers that barewire has, in its order.
fn crypto() -> Arc<CryptoProvider> {
    let suites = Cipher::best_first().into_iter().map(|cipher| match cipher {
        Cipher::Aes128Gcm => provider::cipher_suite::TLS13_AES_128_GCM_SHA256,
        _ => provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    });
    Arc::new(CryptoProvider { cipher_suites: suites.collect(), ..provider::default_provider() })
}

impl Tls {
    /// The client's end, ready to send; `room`: most bytes of text that are enciphered at once.
    pub(super) fn connect(socket: &OwnedFd, room: usize) -> io::Result<Tls> {
        let crypto = crypto();
        let verifier = Arc::new(AnyKey(crypto.signature_verification_algorithms));
        let config = ClientConfig::builder_with_provider(crypto)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(other)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let name = ServerName::try_from("barewire").map_err(other)?;
        let client = UnbufferedClientConnection::new(Arc::new(config), name).map_err(other)?;
        Tls::start(Side::Client(client), socket, room)
    }

    /// The server's end.
    pub(super) fn accept(socket: &OwnedFd, room: usize) -> io::Result<Tls> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).map_err(other)?;
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).map_err(other)?;
        let public = [&ED25519_SPKI[..], pair.public_key().as_ref()].concat();
        let private = PrivatePkcs8KeyDer::from(pkcs8.as_ref());
        let key = provider::sign::any_eddsa_type(&private).map_err(other)?;
        let key = CertifiedKey::new(vec![CertificateDer::from(public)], key);
        let mut config = ServerConfig::builder_with_provider(crypto())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(key))));
        config.send_tls13_tickets = 0;
        let server = UnbufferedServerConnection::new(Arc::new(config)).map_err(other)?;
        Tls::start(Side::Server(server), socket, room)
    }

    fn start(side: Side, socket: &OwnedFd, room: usize) -> io::Result<Tls> {
        let sealed = room + (room / RECORD_LEN + 2) * RECORD_MORE;
        let mut tls = Tls {
            side,
            incoming: vec![0; room + RECORD_LEN + RECORD_MORE].into(),
            filled: 0,
            outgoing: vec![0; sealed.max(RECORD_LEN)].into(),
            made: 0,
            sent: 0,
        };
        // The server's first byte says that it has read the whole handshake: what the client sends then is all messages.
        let (mut patience, waits, mut is_told) = (PATIENCE, matches!(tls.side, Side::Client(_)), false);
        loop {
            let step = tls.step(&mut |text| {
                is_told |= !text.is_empty();
                Ok(())
            })?;
            match step {
                Step::Again => {}
                Step::Idle if !tls.is_handshaking() && (is_told || !waits) => break,
                Step::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
                Step::Send => while !tls.flush(socket)? {},
                Step::Wait | Step::Idle => {
                    match fill(socket, &mut tls.incoming, &mut tls.filled, RecvFlags::empty())? {
                        Some(true) => {}
                        Some(false) if patience > 0 => patience -= 1,
                        Some(false) => return Err(io::ErrorKind::TimedOut.into()),
                        None => return Err(io::ErrorKind::UnexpectedEof.into()),
                    }
                }
            }
        }
        if !waits {
            tls.seal(&[1])?;
        }
        while !tls.flush(socket)? {}
        Ok(tls)
    }

    fn is_handshaking(&self) -> bool {
        match &self.side {
            Side::Client(client) => client.is_handshaking(),
            Side::Server(server) => server.is_handshaking(),
        }
    }

    /// One step; text that came goes to `on_text`.
    fn step(&mut self, on_text: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<Step> {
        let (incoming, outgoing) = (&mut self.incoming[..self.filled], &mut self.outgoing);
        let (discard, step) = match &mut self.side {
            Side::Client(c) => handle(c.process_tls_records(incoming), outgoing, &mut self.made, on_text)?,
            Side::Server(s) => handle(s.process_tls_records(incoming), outgoing, &mut self.made, on_text)?,
        };
        self.incoming.copy_within(discard..self.filled, 0);
        self.filled -= discard;
        Ok(step)
    }

    /// One receive call, and the text of what came, as it is, behind `at` in `text`.
    pub(super) fn receive(
        &mut self,
        socket: &OwnedFd,
        flags: RecvFlags,
        text: &mut [u8],
        at: &mut usize,
    ) -> io::Result<Option<bool>> {
        match fill(socket, &mut self.incoming, &mut self.filled, flags)? {
            Some(true) => {}
            nothing => return Ok(nothing),
        }
        let before = *at;
        let mut keep = |record: &[u8]| {
            let room = text.get_mut(*at..*at + record.len()).ok_or(io::ErrorKind::OutOfMemory)?;
            room.copy_from_slice(record);
            *at += record.len();
            Ok(())
        };
        loop {
            match self.step(&mut keep)? {
                Step::Again | Step::Send => {}
                Step::Idle | Step::Wait => return Ok(Some(*at > before)),
                Step::Closed => return Ok(None),
            }
        }
    }

    /// Whether bytes wait that the kernel has not taken.
    pub(super) fn is_sending(&self) -> bool {
        self.sent < self.made
    }

    /// Enciphers `text`, when nothing waits any more.
    pub(super) fn seal(&mut self, text: &[u8]) -> io::Result<()> {
        let (incoming, outgoing) = (&mut self.incoming[..self.filled], &mut self.outgoing[self.made..]);
        self.made += match &mut self.side {
            Side::Client(c) => write(c.process_tls_records(incoming), text, outgoing)?,
            Side::Server(s) => write(s.process_tls_records(incoming), text, outgoing)?,
        };
        Ok(())
    }

    /// One send call for all that waits. True when nothing is left.
    pub(super) fn flush(&mut self, socket: &OwnedFd) -> io::Result<bool> {
        if self.is_sending() && !drain(socket, &self.outgoing[..self.made], &mut self.sent)? {
            return Ok(false);
        }
        (self.made, self.sent) = (0, 0);
        Ok(true)
    }
}

fn handle<D>(
    status: UnbufferedStatus<'_, '_, D>,
    outgoing: &mut [u8],
    made: &mut usize,
    on_text: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(usize, Step)> {
    let mut discard = status.discard;
    let step = match status.state.map_err(other)? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(other)?;
                discard += record.discard;
                on_text(record.payload)?;
            }
            Step::Again
        }
        ConnectionState::EncodeTlsData(mut data) => {
            *made += data.encode(&mut outgoing[*made..]).map_err(|error| match error {
                EncodeError::InsufficientSize(size) => other(format!("needs {} bytes", size.required_size)),
                error => other(error),
            })?;
            Step::Again
        }
        // It leaves with the next flush: nothing else is enciphered before.
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Step::Send
        }
        ConnectionState::BlockedHandshake => Step::Wait,
        ConnectionState::WriteTraffic(_) => Step::Idle,
        ConnectionState::PeerClosed | ConnectionState::Closed => Step::Closed,
        _ => return Err(other("an unexpected state")),
    };
    Ok((discard, step))
}

fn write<D>(status: UnbufferedStatus<'_, '_, D>, text: &[u8], outgoing: &mut [u8]) -> io::Result<usize> {
    match status.state.map_err(other)? {
        ConnectionState::WriteTraffic(mut traffic) => traffic.encrypt(text, outgoing).map_err(other),
        _ => Err(other("the session is not ready to send")),
    }
}

/// Takes whatever key the server has, and checks that it has it.
#[derive(Debug)]
struct AnyKey(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        rustls::crypto::verify_tls13_signature_with_raw_key(message, &key, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
