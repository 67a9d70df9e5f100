//! The table `[security]` of barewire.toml: own key, trusted peers, and where users may listen and connect.

use crate::config::{Config, ConfigError, bad};
use crate::users::UserRules;
use barewire_channel::PEER_NAME_MAX;
use barewire_engine::keyfile;
use barewire_transport::security::{Network, PEERS_MAX, Peer, Security};
use serde::Deserialize;
use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecurityTable {
    key: PathBuf,
    require: Option<bool>,
    handshakes_per_second: Option<u32>,
    #[serde(default)]
    peer: Vec<PeerTable>,
    #[serde(default)]
    user: Vec<UserTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerTable {
    name: String,
    key: String,
    #[serde(default)]
    addresses: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserTable {
    uid: u32,
    listen: Option<Vec<String>>,
    connect: Option<Vec<ConnectTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConnectTable {
    to: String,
    udp_ports: Option<String>,
}

fn network(key: &'static str, text: &str) -> Result<Network, ConfigError> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let hint = "an address such as 10.0.0.2, or a network such as 10.0.0.0/24";
    let address: IpAddr = address.parse().map_err(|_| bad(key, text, hint))?;
    let whole = Network::from(address);
    match prefix.map(str::parse::<u8>) {
        None => Ok(whole),
        Some(Ok(prefix)) if prefix <= whole.prefix => Ok(Network { address, prefix }),
        Some(_) => Err(bad(key, text, format!("the prefix length is a number up to {}", whole.prefix))),
    }
}

fn udp_ports(key: &'static str, text: &str) -> Result<RangeInclusive<u16>, ConfigError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
        (Ok(first), Ok(last)) if first > 0 && first <= last => Ok(first..=last),
        _ => Err(bad(key, text, "a UDP port such as \"888\", or a range such as \"9000-9099\"")),
    }
}

impl PeerTable {
    fn check(self, names: &mut HashSet<String>, security: &Security) -> Result<Peer, ConfigError> {
        let name = self.name;
        if name.is_empty() || name.len() > PEER_NAME_MAX || name.chars().any(char::is_control) {
            return Err(bad("security.peer.name", name, format!("from 1 to {PEER_NAME_MAX} bytes of text")));
        }
        if !names.insert(name.clone()) {
            return Err(bad("security.peer.name", name, "there are two peers of that name"));
        }
        // What was written may be a private key, by mistake: it is not repeated.
        let key = self.key.parse().map_err(|e| bad("security.peer.key", format!("... of {name}"), e))?;
        if key == *security.public() {
            let why = "that is this host's own key: each host has one of its own";
            return Err(bad("security.peer.key", name, why));
        }
        let addresses = self.addresses.iter().map(|a| network("security.peer.addresses", a));
        Ok(Peer { addresses: addresses.collect::<Result<_, _>>()?, name, key })
    }
}

impl ConnectTable {
    fn check(&self) -> Result<(Network, RangeInclusive<u16>), ConfigError> {
        let ports = match &self.udp_ports {
            Some(text) => udp_ports("security.user.connect.udp_ports", text)?,
            None => 1..=u16::MAX,
        };
        Ok((network("security.user.connect.to", &self.to)?, ports))
    }
}

impl SecurityTable {
    /// Reads the key and puts all of it into the configuration. Relative paths are below `folder`.
    pub(crate) fn apply(self, config: &mut Config, folder: Option<&Path>) -> Result<(), ConfigError> {
        let path = folder.map_or_else(|| self.key.clone(), |folder| folder.join(&self.key));
        let key = keyfile::read(&path).map_err(|e| bad("security.key", self.key.display(), e))?;
        let mut security = Security::new(key);
        security.require = self.require.unwrap_or(true);
        if let Some(n) = self.handshakes_per_second {
            if n == 0 {
                return Err(bad("security.handshakes_per_second", n, "at least 1"));
            }
            security.handshakes_per_second = n;
        }
        let mut names = HashSet::new();
        for table in self.peer {
            let peer = table.check(&mut names, &security)?;
            let name = peer.name.clone();
            if !security.trust(peer) {
                let why = format!("another peer has its key, or there are more than {PEERS_MAX}");
                return Err(bad("security.peer", name, why));
            }
        }
        for user in self.user {
            let listen = user
                .listen
                .map(|ports| ports.iter().map(|p| udp_ports("security.user.listen", p)).collect())
                .transpose()?;
            let connect = user.connect.map(|to| to.iter().map(ConnectTable::check).collect()).transpose()?;
            if config.rules.insert(user.uid, UserRules { listen, connect }).is_some() {
                return Err(bad("security.user.uid", user.uid, "that user is listed twice"));
            }
        }
        config.transport.security = Some(Arc::new(security));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn parse(folder: &Path, more: &str) -> Result<Config, ConfigError> {
        let text = format!("[interface]\nport = \"xdp:eth0\"\nipv4 = [\"10.0.0.1/24\"]\n[security]\n{more}");
        Config::parse(&text, folder.join("barewire.toml").to_str().unwrap())
    }

    #[test]
    fn keys_peers_and_users_are_read_and_slips_are_told_with_their_place() {
        let folder = std::env::temp_dir().join(format!("barewire-security-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let _ = std::fs::remove_file(folder.join("a.key"));
        let own = keyfile::create(&folder.join("a.key"), [0x21; 32]).unwrap();
        let other = barewire_transport::security::PrivateKey::from_bytes([0x22; 32]).public();
        let good = format!(
            "key = \"a.key\"\nrequire = false\n[[security.peer]]\nname = \"db1\"\nkey = \"{other}\"\n\
             addresses = [\"10.0.0.2\", \"fd00::/64\"]\n[[security.user]]\nuid = 7\nlisten = [\"888-890\"]\n\
             connect = [{{ to = \"10.0.0.0/24\", udp_ports = \"888\" }}]\n"
        );
        let config = parse(&folder, &good).unwrap();
        let security = config.transport.security.clone().unwrap();
        assert_eq!((*security.public(), security.require), (own, false));
        assert_eq!(security.peers()[0].addresses.len(), 2);
        assert_eq!(config.rules[&7].listen, Some(vec![888..=890]));
        assert!(!format!("{config:?}").contains("2121"), "never printed");
        for (from, to, place) in [
            ("a.key", "b.key", "security.key"),
            ("db1", "", "security.peer.name"),
            (&other.to_string()[..], "abc", "security.peer.key"),
            (&other.to_string()[..], &own.to_string()[..], "own key"),
            ("10.0.0.2", "10.0.0.2/33", "security.peer.addresses"),
            ("888-890", "890-888", "security.user.listen"),
            ("10.0.0.0/24", "everywhere", "security.user.connect.to"),
            ("require", "requier", "did you mean `require`?"),
        ] {
            let text = parse(&folder, &good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(text.contains(place), "{place}: {text}");
        }
        // RDMA beside encrypted messages only by wish; and what is reached in the clear is told.
        let rdma = |more: &str| {
            let text = good.replace("false", "true") + more;
            parse(&folder, &text).unwrap().check_rdma().map_err(|e| e.to_string())
        };
        assert_eq!(rdma(""), Ok(()));
        assert!(rdma("[rdma]\n").is_err_and(|e| e.contains("rdma.unencrypted = true")));
        assert_eq!(rdma("[rdma]\nunencrypted = true\n"), Ok(()));
        assert!(config.warnings().is_empty());
        let roaming = good.replace("addresses = [\"10.0.0.2\", \"fd00::/64\"]\n", "");
        let warnings = parse(&folder, &roaming).unwrap().warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("db1"), "{warnings:?}");
        // A private key where the path of its file belongs, and in a line that cannot be read.
        let secret = "5a".repeat(32);
        for slip in
            [format!("key = \"{secret}\"\n"), format!("key = {secret}\n"), format!("key = \"{secret}\n")]
        {
            let text = parse(&folder, &slip).unwrap_err().to_string();
            assert!(!text.contains("5a5a"), "{text}");
        }
        // A private key at other places.
        for (from, to) in
            [("db1", &secret), ("10.0.0.2", &secret), ("888-890", &secret), ("10.0.0.0/24", &secret)]
        {
            let text = parse(&folder, &good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(text.contains("security.") && !text.contains("5a5a"), "{from}: {text}");
        }
        // A private key where a public one belongs is not repeated.
        let secret = "0".repeat(62) + "zz";
        let text = parse(&folder, &good.replace(&other.to_string(), &secret)).unwrap_err().to_string();
        assert!(!text.contains("000"), "{text}");
        std::fs::set_permissions(folder.join("a.key"), std::fs::Permissions::from_mode(0o640)).unwrap();
        let text = parse(&folder, &good).unwrap_err().to_string();
        assert!(text.contains("0640") && text.contains("chmod 600"), "{text}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
