//! The kernel's TCP in place of our port, at one end each.

use super::super::live::{Done, FailOnDrop, LiveResult, Shared};
use super::super::tcp::{self, Asking};
use super::{ConnectConfig, Listening, Served};
use crate::cpu::End;
use crate::error::BenchError;
use crate::talk::server::Desk;
use barewire_verbs::DeviceConfig;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Sender;

/// How long the first connection may take: whether anybody is there at all.
const PROBE_MAX: std::time::Duration = std::time::Duration::from_secs(5);

/// Listens at the device's address, and accepts; its port is not opened.
pub(super) fn accept(
    device: &DeviceConfig,
    service_port: u16,
    tell: Sender<Listening>,
    going: &dyn Fn() -> bool,
    desk: &Desk,
) -> Result<Served, BenchError> {
    let ip = device
        .interface
        .addresses()
        .first()
        .copied()
        .ok_or_else(|| BenchError::Plan("no address to listen at".to_owned()))?;
    let (listener, at) = tcp::listen_at(SocketAddr::new(ip, service_port))?;
    let description = format!("none: the kernel's TCP at {at}");
    let _ = tell.send(Listening { description, service_port: at.port(), ip });
    drop(tell);
    let accepted = tcp::serve(&listener, device.idle.into(), going, &|more| desk.did(more))?;
    Ok(Served { established: accepted, failed: 0, tx_frames: None })
}

/// Whether each server is there: a connection that is refused would be counted as failed, a million times.
pub(super) fn probe(config: &ConnectConfig) -> Result<(), BenchError> {
    for &ip in &config.servers {
        let server = SocketAddr::new(ip, config.service_port);
        match TcpStream::connect_timeout(&server, PROBE_MAX) {
            // It has closed before this could look; who does not listen refuses.
            Err(source) if source.kind() != std::io::ErrorKind::ConnectionReset => {
                return Err(BenchError::NoServer { server, source });
            }
            _ => {}
        }
    }
    Ok(())
}

/// One thread's connections.
pub(super) fn one_thread(
    config: &ConnectConfig,
    number: u32,
    shared: &Shared,
) -> Result<LiveResult, BenchError> {
    let _done = Done(&shared.done);
    let mut tells = FailOnDrop(&shared.clients, false);
    let server = config.servers[(number % config.nics()) as usize];
    shared.cpu.joins(End::Client);
    shared.clients.arrive();
    shared.clients.pass(config.threads)?;
    let asking = Asking {
        server: SocketAddr::new(server, config.service_port),
        window: config.window,
        counts: shared.start.window(config.warmup, config.duration),
        idle: config.device.idle.into(),
        watches: (number == 0).then_some((&shared.cpu, config.threads as usize)),
    };
    let result = tcp::ask(&asking, &shared.progress[number as usize])?;
    super::last_look(config, shared)?;
    tells.1 = true;
    Ok(result)
}
