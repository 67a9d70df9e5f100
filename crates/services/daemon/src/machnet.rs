//! Machnet's JSON configuration, so that who has one need not write another.
//!
//! `{"machnet_config": {"<MAC>": {"ip": "10.0.0.1", "engine_threads": 1, "cpu_mask": "0x1", "pcie": "0000:00:05.0"}}}`.
//! Its one address has no netmask: Machnet resolves every destination on the link itself, so the whole of IPv4 counts as
//! on-link here too. The interface is found by its MAC address.

use crate::config::{Config, ConfigError};
use barewire_wire::MacAddr;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    machnet_config: BTreeMap<String, Interface>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Interface {
    ip: Ipv4Addr,
    engine_threads: Option<u32>,
    cpu_mask: Option<String>,
    #[allow(dead_code, reason = "names a card for DPDK; the MAC address finds it here")]
    pcie: Option<String>,
}

fn bad(key: &'static str, value: impl ToString, why: impl ToString) -> ConfigError {
    ConfigError::Value { key, value: value.to_string(), why: why.to_string() }
}

/// A configuration for the interface with this MAC address, over AF_XDP.
///
/// # Errors
/// When there is no such interface.
pub(crate) fn for_mac(mac: &str, ip: Ipv4Addr) -> Result<Config, ConfigError> {
    let wanted: MacAddr = mac.parse().map_err(|e| bad("mac", mac, e))?;
    let mut seen = Vec::new();
    for entry in std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let address = std::fs::read_to_string(entry.path().join("address")).unwrap_or_default();
        if address.trim().parse() == Ok(wanted) {
            return Ok(Config::new(&format!("xdp:{name}"), ip, 0));
        }
        seen.push(format!("{name} {}", address.trim()));
    }
    Err(bad("mac", mac, format!("no interface has this address; there are: {}", seen.join(", "))))
}

pub(crate) fn parse(text: &str, path: &str) -> Result<Config, ConfigError> {
    let file: File = serde_json::from_str(text)
        .map_err(|e| ConfigError::Parse { path: path.to_owned(), message: e.to_string() })?;
    let mut interfaces = file.machnet_config.into_iter();
    let Some((mac, interface)) = interfaces.next() else {
        return Err(bad("machnet_config", "{}", "names no interface"));
    };
    if let Some((second, _)) = interfaces.next() {
        return Err(bad(
            "machnet_config",
            second,
            "one interface in such a file: run one daemon for each, or write a barewire.toml with [[ports]]",
        ));
    }
    if interface.engine_threads.is_some_and(|n| n > 1) {
        eprintln!("barewire: engine_threads: one engine serves the interface; the rest is ignored");
    }
    let mut config = for_mac(&mac, interface.ip)?;
    if let Some(mask) = &interface.cpu_mask {
        let digits = mask.trim_start_matches("0x");
        let bits = u64::from_str_radix(digits, 16).map_err(|e| bad("cpu_mask", mask, e))?;
        // The lowest core of the mask; a mask of everything pins nothing.
        if bits != 0 && bits.count_ones() < 64 && !bits.trailing_ones().is_multiple_of(8) {
            config.core = Some(bits.trailing_zeros() as usize);
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_place() {
        let e = parse("{\"machnet_config\": {}}", "c.json").unwrap_err().to_string();
        assert!(e.contains("no interface"), "{e}");
        let e = parse(
            "{\"machnet_config\": {\"02:00:00:00:00:99\": {\"ip\": \"10.0.0.1\", \"ipp\": 1}}}",
            "c.json",
        );
        assert!(e.unwrap_err().to_string().contains("ipp"));
        let e = parse("{\"machnet_config\": {\"02:00:00:00:00:99\": {\"ip\": \"10.0.0.1\"}}}", "c.json");
        assert!(e.unwrap_err().to_string().contains("no interface has this address"));
    }
}
