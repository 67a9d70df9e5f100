//! `barewire port`: what a port can do here.

use crate::console::print;
use crate::failure::Code;
use barewire_engine::open_port;
use barewire_frame::{Pool, PoolConfig};
use barewire_port::{ChecksumOffload, PortUri};
use serde_json::json;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// The port, such as xdp:eth0, packet:eth0?rx=4096, mem:NAME
    uri: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

/// Which transport checksums are the device's work.
fn offload(offload: ChecksumOffload) -> &'static str {
    match (offload.rx, offload.tx) {
        (true, true) => "checksums in and out",
        (true, false) => "checksums in",
        (false, true) => "checksums out",
        (false, false) => "no checksums",
    }
}

/// Runs it.
///
/// # Errors
/// Why the port cannot be opened.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let uri: PortUri = args.uri.parse()?;
    let pool = Pool::new(PoolConfig::default())?;
    let port = open_port(&uri, &pool)?;
    let caps = port.caps();
    let mac = caps.mac.map(|mac| mac.to_string());
    if args.json {
        let object = json!({
            "schema": 1,
            "port": uri.text(),
            "chosen": caps.description,
            "mtu": caps.mtu,
            "frame_max": caps.frame_max,
            "mac": mac,
            "rx_stamp": caps.rx_stamp.as_str(),
            "queues": caps.queues,
            "in_place": caps.in_place,
            "zero_copy": caps.zero_copy,
            "tx_checksum": caps.tx_checksum,
            "checksum_offload": { "rx": caps.checksum_offload.rx, "tx": caps.checksum_offload.tx },
            "lossless_bits": caps.lossless_bits,
        });
        print(&object.to_string())?;
        return Ok(Code::Done);
    }
    let rows = [
        ("port", uri.text().to_owned()),
        ("chosen", caps.description.clone()),
        ("mtu", format!("{} bytes", caps.mtu)),
        ("largest frame", format!("{} bytes", caps.frame_max)),
        ("mac", mac.unwrap_or_else(|| "none; an endpoint takes a random one".to_owned())),
        ("receive stamps", caps.rx_stamp.as_str().to_owned()),
        ("queues", caps.queues.to_string()),
        ("frames in place", yes(caps.in_place).to_owned()),
        ("zero copy", yes(caps.zero_copy).to_owned()),
        ("completes checksums", yes(caps.tx_checksum).to_owned()),
        ("device does", offload(caps.checksum_offload).to_owned()),
        ("bits cannot flip", yes(caps.lossless_bits).to_owned()),
    ];
    print(&rows.map(|(name, value)| format!("{name:<20}{value}\n")).concat())?;
    Ok(Code::Done)
}
