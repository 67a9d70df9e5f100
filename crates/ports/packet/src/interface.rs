//! What the kernel says about an interface, over `ioctl` (netdevice(7), `linux/ethtool.h`).
//!
//! sysfs would answer too, but it shows the namespace it was mounted in; an ioctl shows the caller's.

use barewire_port::OpenError;
use barewire_text::{Quote, did_you_mean, nearest};
use barewire_wire::MacAddr;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
pub(crate) const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_GRSSH: u32 = 0x46;
/// Words of `struct ethtool_rxfh` in front of table and key.
const RXFH_WORDS: usize = 6;
/// Most words of a table and bytes of a key that are believed.
const RSS_TABLE_MAX: usize = 1 << 16;
const RSS_KEY_MAX: usize = 1 << 10;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// An interface, as it was when [`find`](Interface::find) looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index in this network namespace.
    pub index: u32,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Its Ethernet address; `None` for the loopback and for interfaces that are not Ethernet.
    pub mac: Option<MacAddr>,
    /// Whether frames on it start with an Ethernet header (the loopback's do).
    pub ethernet: bool,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it is up and something is at the other end of its cable, as far as its driver can tell.
    pub carrier: bool,
    /// Receive queues, at least 1.
    pub queues: u32,
    /// The driver's name (`veth`, `ixgbe`, ...), empty when it does not say.
    pub driver: String,
}

impl Interface {
    /// Looks `name` up in the caller's network namespace. `uri` is what the error shows.
    ///
    /// # Errors
    /// [`OpenError::NotFound`] with the nearest name that exists, [`OpenError::Io`] when the kernel refuses to answer.
    pub fn find(uri: &str, name: &str) -> Result<Interface, OpenError> {
        let missing = || OpenError::NotFound {
            uri: uri.to_owned(),
            what: format!("interface `{name}`"),
            hint: hint(name),
        };
        let c_name = CString::new(name).map_err(|_| missing())?;
        // SAFETY: `c_name` is a NUL-terminated string that lives across the call.
        let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if index == 0 || name.len() >= libc::IFNAMSIZ {
            return Err(missing());
        }
        let io = |call| move |source| OpenError::Io { uri: uri.to_owned(), call, source };
        let ask = Ask::new(name).map_err(io("socket"))?;
        // SAFETY: the kernel filled the union's member that belongs to each request.
        let mtu = unsafe { ask.ioctl(libc::SIOCGIFMTU).map_err(io("ioctl SIOCGIFMTU"))?.ifr_ifru.ifru_mtu };
        // SAFETY: as above.
        let flags =
            unsafe { ask.ioctl(libc::SIOCGIFFLAGS).map_err(io("ioctl SIOCGIFFLAGS"))?.ifr_ifru.ifru_flags };
        // SAFETY: as above.
        let hardware = unsafe {
            ask.ioctl(libc::SIOCGIFHWADDR).map_err(io("ioctl SIOCGIFHWADDR"))?.ifr_ifru.ifru_hwaddr
        };
        let mut mac = [0u8; 6];
        for (to, from) in mac.iter_mut().zip(hardware.sa_data) {
            *to = from as u8;
        }
        let kind = hardware.sa_family;
        Ok(Interface {
            name: name.to_owned(),
            index,
            mtu: mtu.max(0) as u32,
            mac: (kind == libc::ARPHRD_ETHER).then_some(MacAddr(mac)),
            ethernet: matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK),
            up: i32::from(flags) & libc::IFF_UP != 0,
            carrier: i32::from(flags) & (libc::IFF_UP | libc::IFF_RUNNING)
                == libc::IFF_UP | libc::IFF_RUNNING,
            queues: ask.queues(),
            driver: ask.driver(),
        })
    }
}

/// `; did you mean ...?` with the nearest interface, and the names that exist.
fn hint(name: &str) -> String {
    let names = names();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(best) => {
            format!("; {} (there are: {})", did_you_mean(best, Quote::Back), names.join(", "))
        }
        None if names.is_empty() => "; there is none in this network namespace".to_owned(),
        None => format!("; there are: {}", names.join(", ")),
    }
}

/// The names of all interfaces in the caller's network namespace.
pub fn names() -> Vec<String> {
    let mut out = Vec::new();
    // SAFETY: the list ends with an entry of index zero and a null name, is valid until freed, and is freed once.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return out;
        }
        let mut at = list;
        while (*at).if_index != 0 && !(*at).if_name.is_null() {
            out.push(std::ffi::CStr::from_ptr((*at).if_name).to_string_lossy().into_owned());
            at = at.add(1);
        }
        libc::if_freenameindex(list);
    }
    out
}

/// A socket to ask through, and the name to ask about.
pub(crate) struct Ask {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Ask {
    /// `name` is shorter than `IFNAMSIZ`.
    pub(crate) fn new(name: &str) -> io::Result<Ask> {
        // SAFETY: creates a descriptor, owned here alone.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let mut padded = [0; libc::IFNAMSIZ];
        for (to, from) in padded.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(Ask { socket, name: padded })
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: `ifreq` is plain old data for which zero is valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.name;
        request
    }

    fn ioctl(&self, code: libc::c_ulong) -> io::Result<libc::ifreq> {
        let mut request = self.request();
        // SAFETY: every code used here reads and writes one `ifreq`.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), code as _, &mut request) } {
            0 => Ok(request),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends one ethtool command, `words[0]`, which is answered in place.
    pub(crate) fn ethtool_words(&self, words: &mut [u32]) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: `words` is as large as the structure of each command used here, with the sizes it announces, and outlives the
        // call.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL as _, &mut request) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends one ethtool command whose answer is `N` words, command included.
    fn ethtool<const N: usize>(&self, command: u32) -> Option<[u32; N]> {
        let mut answer = [0u32; N];
        answer[0] = command;
        self.ethtool_words(&mut answer).ok()?;
        Some(answer)
    }

    /// Table, key and number of the hash function: `struct ethtool_rxfh` has the table's entries in word 2, the key's bytes in word 3
    /// and the function in the first byte of word 4. Asked without room it says how much there is.
    pub(crate) fn rss(&self) -> Option<(Vec<u32>, Vec<u8>, u8)> {
        let sizes = self.ethtool::<RXFH_WORDS>(ETHTOOL_GRSSH)?;
        let (table, key) = (sizes[2] as usize, sizes[3] as usize);
        if table == 0 || key == 0 || table > RSS_TABLE_MAX || key > RSS_KEY_MAX {
            return None;
        }
        let mut words = vec![0u32; RXFH_WORDS + table + key.div_ceil(4)];
        (words[0], words[2], words[3]) = (ETHTOOL_GRSSH, sizes[2], sizes[3]);
        self.ethtool_words(&mut words).ok()?;
        let bytes: Vec<u8> =
            words[RXFH_WORDS + table..].iter().flat_map(|w| w.to_ne_bytes()).take(key).collect();
        Some((words[RXFH_WORDS..RXFH_WORDS + table].to_vec(), bytes, words[4].to_ne_bytes()[0]))
    }

    /// Receive queues: `struct ethtool_channels` has rx_count in word 5 and combined_count in word 8.
    fn queues(&self) -> u32 {
        self.ethtool::<9>(ETHTOOL_GCHANNELS).map_or(1, |c| c[5].saturating_add(c[8]).max(1))
    }

    /// `struct ethtool_drvinfo`: 196 bytes, the driver's name in the 32 after the command.
    fn driver(&self) -> String {
        let Some(info) = self.ethtool::<49>(ETHTOOL_GDRVINFO) else { return String::new() };
        let bytes = info[1..9].iter().flat_map(|w| w.to_ne_bytes());
        bytes.take_while(|&b| b != 0).map(char::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_known() {
        let lo = Interface::find("packet:lo", "lo").unwrap();
        assert_eq!((lo.name.as_str(), lo.mac, lo.ethernet, lo.queues), ("lo", None, true, 1));
        assert!(lo.index > 0 && lo.mtu > 1500);
        assert!(names().contains(&"lo".to_owned()));
    }

    #[test]
    fn a_wrong_name_brings_the_nearest() {
        let why = Interface::find("packet:loo", "loo").unwrap_err().to_string();
        assert!(why.contains("`packet:loo`") && why.contains("did you mean `lo`?"), "{why}");
        for name in ["", "a-name-that-is-far-too-long", "nul\0name"] {
            let why = Interface::find("packet:x", name).unwrap_err().to_string();
            assert!(why.contains("not found"), "{why}");
        }
    }
}
