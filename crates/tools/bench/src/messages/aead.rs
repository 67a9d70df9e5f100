//! The cipher alone: what a request and its response cost where nothing is sent. Each is sealed and opened once, in one thread, as both ends
//! of an encrypted flow do it together.

use crate::awake::settle;
use crate::cpu::CpuMeter;
use crate::error::BenchError;
use crate::messages::driver::{self, RunResult};
use crate::messages::run::Cell;
use crate::messages::{CellInfo, IdleState, MsgWorkload, RequestResponse, SystemError, SystemName, Wait};
use crate::run::one_end;
use barewire_client::security::Cipher;
use barewire_measure::Contention;
use ring::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::collections::VecDeque;

/// Bytes that are authenticated beside each message: about a packet's common header.
const HEADER: [u8; 32] = [0x5a; 32];

/// The name of the system in rows and options.
pub const AEAD: &str = "aead";

/// The cipher alone: a [`Cell`] of an interleaved plan.
pub struct AeadCell {
    cipher: Cipher,
    core: Option<usize>,
    info: CellInfo,
}

impl AeadCell {
    /// The cipher that barewire takes on this CPU; `core` to pin it.
    pub fn new(
        core: Option<usize>,
        workload: MsgWorkload,
        idle_state: IdleState,
        command: String,
    ) -> AeadCell {
        let cipher = Cipher::best_first()[0];
        let name = SystemName {
            system: AEAD.to_owned(),
            mode: cipher.as_str().to_owned(),
            over: "memory".to_owned(),
            idle: None,
        };
        AeadCell { cipher, core, info: CellInfo { name, workload, idle_state, command } }
    }
}

impl Cell for AeadCell {
    fn info(&self) -> &CellInfo {
        &self.info
    }

    fn run(&mut self, _round: u32) -> Result<RunResult, BenchError> {
        let workload = &self.info.workload;
        workload.validate().map_err(driver::DriverError::from)?;
        let cores: Vec<usize> = self.core.into_iter().collect();
        let awake = settle(self.info.idle_state, &cores)?;
        let meter = CpuMeter::new(&cores);
        let (cipher, watch) = (self.cipher, Contention::start().threads(1));
        let run = || {
            meter.joins_both();
            Ok(meter.run(&mut Sealing::new(cipher), workload)?)
        };
        let (mut result, switches) = one_end(self.core, run)?;
        result.contention = awake.judged(watch.finish(), &[switches]).reasons;
        Ok(result)
    }
}

struct Sealing {
    keys: [LessSafeKey; 2],
    number: u64,
    /// What was asked, and by which connection.
    asked: VecDeque<(u32, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

impl Sealing {
    fn new(cipher: Cipher) -> Sealing {
        let (algorithm, len) = match cipher {
            Cipher::Aes128Gcm => (&AES_128_GCM, 16),
            _ => (&CHACHA20_POLY1305, 32),
        };
        let key = |byte| {
            let key = UnboundKey::new(algorithm, &[byte; 32][..len]);
            LessSafeKey::new(key.expect("a key as long as its algorithm says"))
        };
        Sealing { keys: [key(1), key(2)], number: 0, asked: VecDeque::new(), spare: Vec::new() }
    }
}

/// Seals and opens a message in place.
fn both_ways(key: &LessSafeKey, number: u64, message: &mut Vec<u8>) -> Result<(), SystemError> {
    let nonce = || {
        let mut bytes = [0; NONCE_LEN];
        bytes[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
        Nonce::assume_unique_for_key(bytes)
    };
    let fail = |_| SystemError::Other("the cipher refused its own message".into());
    key.seal_in_place_append_tag(nonce(), Aad::from(HEADER), message).map_err(fail)?;
    let len = key.open_in_place(nonce(), Aad::from(HEADER), message).map_err(fail)?.len();
    message.truncate(len);
    Ok(())
}

impl RequestResponse for Sealing {
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        let mut own = self.spare.pop().unwrap_or_default();
        own.clear();
        own.extend_from_slice(message);
        self.number += 1;
        both_ways(&self.keys[0], self.number, &mut own)?;
        self.asked.push_back((connection, own));
        Ok(true)
    }

    fn poll(&mut self, _wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        let responses = self.asked.len();
        for _ in 0..responses {
            let Some((connection, mut message)) = self.asked.pop_front() else { break };
            self.number += 1;
            both_ways(&self.keys[1], self.number, &mut message)?;
            on_response(connection, &message);
            self.spare.push(message);
        }
        Ok(responses)
    }
}
