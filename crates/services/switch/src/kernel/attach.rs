//! Where a program stands: at which interfaces, at which hook, and why there.
//!
//! XDP is the faster one for frames. A sender on a veth pair that leaves cutting to its card sends segments that are no frames, and
//! those only tc takes. Nobody can ask for the offloads of an end in another network namespace: so a program begins at XDP, and moves
//! to tc when the first such segment comes.

use super::{Kernel, KernelError};
use barewire_bpf::{
    Claim, Holder, Hook, Link, Program, XdpMode, peer_is_elsewhere, remove_left, takes_redirected,
};
use barewire_engine::Interface;
use barewire_p4_ebpf::maps::{MAX_PORTS, fixed, targets};
use std::io;

/// Bytes of Ethernet and one VLAN tag, beside the MTU.
const FRAME_OVERHEAD: u32 = 18;

/// Where programs in the kernel are to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HookChoice {
    /// At XDP, native where it is a card's; at tc from the first segment on that is larger than a frame.
    #[default]
    Auto,
    /// XDP, in the driver. On a veth only where its other end polls; the senders there then cut their segments themselves, and have to
    /// finish their checksums, too.
    Native,
    /// XDP, after the driver.
    Generic,
    /// Traffic control: `tcx`, or a filter where the kernel has none.
    Tc,
    /// Traffic control by a filter, as on kernels without `tcx`.
    Clsact,
}

/// At which hook.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Place {
    #[default]
    Xdp,
    /// Traffic control, and why.
    Tc(&'static str),
}

impl Attached {
    pub fn port(&self) -> u32 {
        self.port
    }

    pub fn index(&self) -> u32 {
        self.index
    }
}

/// An interface that the program stands at.
#[derive(Debug)]
pub(super) struct Attached {
    port: u32,
    interface: String,
    index: u32,
    mtu: u32,
    /// Its other end is in another network namespace.
    peer: bool,
    /// None while the interface is away.
    link: Option<Link>,
    /// No other switch stands there.
    _claim: Option<Claim>,
    native: bool,
    /// Which hook, and why.
    how: String,
}

/// What became of a call that attaches, in words.
fn words(error: &io::Error, interface: &str, index: u32, hook: &str) -> String {
    match error.raw_os_error() {
        // EBUSY and EEXIST.
        Some(16 | 17) => {
            let who = Holder::of_xdp(index)
                .map_or_else(|| format!("ip -d link show dev {interface}"), |holder| holder.to_string());
            format!("another XDP program is attached to `{interface}`: {who}")
        }
        _ => format!("bpf(BPF_LINK_CREATE) at `{interface}`, {hook} hook: {error}"),
    }
}

/// A program at an interface: the link, whether in the driver, and how and why.
type Stands = (Link, bool, String);

/// Lets a program stand at an interface that no killed process has left a filter at: packets would meet that, too.
fn stand(found: &Interface, attach: impl FnOnce() -> Result<Stands, String>) -> Result<Stands, String> {
    let left = remove_left(found.index).map_err(|error| {
        let name = &found.name;
        format!("a killed process left a filter at `{name}`, which cannot be removed: {error}; tc filter del dev {name} ingress")
    })?;
    let (link, native, mut how) = attach()?;
    if left {
        how.push_str("; a filter that a killed process had left was removed");
    }
    Ok((link, native, how))
}

/// How often an interface is asked for whose claim nobody holds, at most.
const CLAIM_TRIES: u32 = 40;

/// Claims an interface for one port of one switch, whatever hook that stands at.
fn claim(found: &Interface) -> Result<Claim, String> {
    let name = &found.name;
    let mut tries = 0;
    loop {
        let error = match Claim::of(found.index) {
            Ok(claim) => return Ok(claim),
            Err(error) => error,
        };
        // EADDRINUSE.
        if error.raw_os_error() != Some(98) {
            return Err(format!("a socket that claims `{name}`: {error}"));
        }
        if let Some(holder) = Holder::of_xdp(found.index) {
            return Err(format!("another XDP program is attached to `{name}`: {holder}"));
        }
        let who = Claim::holder(found.index);
        tries += 1;
        if who.is_some() || tries == CLAIM_TRIES {
            let who = who.map(|who| format!(": {who}")).unwrap_or_default();
            return Err(format!("another switch, or another port of this one, already uses `{name}`{who}"));
        }
        // Its holder is about to go, or is a child between its fork and its program.
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// At XDP.
fn at_xdp(program: &Program, found: &Interface, choice: HookChoice) -> Result<Stands, String> {
    let index = found.index;
    if choice == HookChoice::Native {
        let link = Link::attach(program, index, Hook::Xdp(XdpMode::Native))
            .map_err(|error| words(&error, &found.name, index, "native"))?;
        if found.driver != "veth" {
            return Ok((link, true, "XDP at the native hook (asked for)".to_owned()));
        }
        // Asked while the program is there: a veth takes frames only then.
        return match takes_redirected(index) {
            Ok(true) => {
                Ok((link, true, "XDP at the native hook (asked for; the other end polls)".to_owned()))
            }
            Ok(false) => Err(format!(
                "`{0}` takes no frames from XDP: its other end does not poll. Switch generic receive offload on there (ethtool -K \
                 INTERFACE gro on), or take another hook",
                found.name
            )),
            Err(error) => {
                Err(format!("cannot find out whether `{}` takes frames from XDP: {error}", found.name))
            }
        };
    }
    let generic = |why: &str| match Link::attach(program, index, Hook::Xdp(XdpMode::Generic)) {
        Ok(link) => Ok((link, false, format!("XDP at the generic hook ({why})"))),
        Err(error) => Err(words(&error, &found.name, index, "generic")),
    };
    if choice == HookChoice::Generic {
        return generic("asked for");
    }
    if found.driver == "veth" {
        // A frame goes into a veth's native hook only where its peer polls (NAPI), which cannot be asked where the peer is in
        // another namespace; the generic one takes any.
        return generic("a veth's native one loses frames where a peer does not poll");
    }
    match Link::attach(program, index, Hook::Xdp(XdpMode::Native)) {
        Ok(link) => Ok((link, true, "XDP at the native hook".to_owned())),
        // Somebody else's program is there, or may not be joined.
        Err(error) if matches!(error.raw_os_error(), Some(1 | 16 | 17)) => {
            Err(words(&error, &found.name, index, "native"))
        }
        Err(error) => generic(&format!("the driver refused the native one: {error}")),
    }
}

/// The same at tc.
fn at_tc(
    program: &Program,
    found: &Interface,
    why: &str,
    peer: bool,
    choice: HookChoice,
) -> Result<Stands, String> {
    let there = if peer { "; packets go straight to the other end of its wire" } else { "" };
    let index = found.index;
    let without = if choice == HookChoice::Clsact {
        ""
    } else {
        match Link::attach(program, index, Hook::TcIngress) {
            Ok(link) => return Ok((link, false, format!("tc, tcx at ingress ({why}{there})"))),
            // EINVAL: the kernel has no such links.
            Err(error) if error.raw_os_error() == Some(22) => "; the kernel has no tcx",
            Err(error) => return Err(words(&error, &found.name, index, "tcx")),
        }
    };
    match Link::attach(program, index, Hook::Clsact) {
        Ok(link) => Ok((link, false, format!("tc, clsact at ingress ({why}{without}{there})"))),
        // EADDRINUSE and EEXIST.
        Err(error) if error.raw_os_error() == Some(98) => {
            Err(format!("another switch has a filter at `{}`", found.name))
        }
        Err(error) if error.raw_os_error() == Some(17) => Err(format!(
            "another filter has replaced the switch's: tc filter show dev {} ingress",
            found.name
        )),
        Err(error) => Err(format!("rtnetlink, clsact at `{}`: {error}", found.name)),
    }
}

/// Whether a program could stand at an interface now.
///
/// # Errors
/// In words: no such interface, or another program is there.
pub fn may_stand_at(interface: &str) -> Result<(), String> {
    let found = Interface::find(interface, interface).map_err(|error| error.to_string())?;
    match Holder::of_xdp(found.index) {
        Some(holder) => Err(format!("another XDP program is attached to `{interface}`: {holder}")),
        None => Ok(()),
    }
}

impl Kernel {
    /// Whether a program's form for tc was loaded, or why not.
    pub fn has_tc(&self) -> Result<(), &str> {
        self.tc.as_ref().map(drop).map_err(String::as_str)
    }

    /// Whether it stands at tc, or will: then what it hands over carries [`barewire_p4_ebpf::SLOW_MARK`].
    pub fn is_at_tc(&self) -> bool {
        matches!(self.place, Place::Tc(_))
    }

    /// Say where it is to stand, before it stands anywhere; `segments`: large ones are to pass whole.
    pub fn choose(&mut self, choice: HookChoice, segments: bool) {
        self.choice = choice;
        self.place = match choice {
            HookChoice::Tc | HookChoice::Clsact => Place::Tc("asked for"),
            HookChoice::Auto if segments && self.tc.is_ok() => Place::Tc("large segments are to pass whole"),
            _ => Place::Xdp,
        };
        self.look_at_sessions();
    }

    /// Whether something came that only tc takes, and it does not stand there: what.
    pub fn wants_tc(&self) -> Option<&'static str> {
        let may = self.choice == HookChoice::Auto
            && self.place == Place::Xdp
            && self.tc.is_ok()
            && self.attached.iter().any(|attached| attached.link.is_some());
        match may {
            true if self.too_long() > 0 => Some("segments larger than a frame came"),
            true if self.compiled.clones_alone && self.want_clones() > 0 => Some("packets to clone came"),
            _ => None,
        }
    }

    /// Puts the program at an interface, under a port's number; says how. Packets that it hands over go on to the
    /// interface's sockets.
    ///
    /// # Errors
    /// In words: no such interface, another program there, a number too large.
    pub fn attach(&mut self, port: u32, interface: &str) -> Result<String, String> {
        if port >= MAX_PORTS {
            return Err(format!("port {port}: the kernel's ports have numbers below {MAX_PORTS}"));
        }
        let found = Interface::find(interface, interface).map_err(|error| error.to_string())?;
        let claimed = claim(&found)?;
        let peer = found.driver == "veth" && peer_is_elsewhere(found.index);
        let (link, native, how) = match (&self.place, &self.tc) {
            (Place::Tc(why), Ok(program)) => {
                stand(&found, || at_tc(program, &found, why, peer, self.choice))?
            }
            (Place::Tc(_), Err(why)) => return Err(format!("the program cannot run at tc: {why}")),
            (Place::Xdp, _) => stand(&found, || at_xdp(&self.program, &found, self.choice))?,
        };
        let attached = Attached {
            port,
            interface: interface.to_owned(),
            index: found.index,
            mtu: found.mtu,
            peer,
            link: Some(link),
            _claim: Some(claimed),
            native,
            how: how.clone(),
        };
        self.set_port(&attached).map_err(|error| error.to_string())?;
        self.attached.push(attached);
        self.set_max_frame().map_err(|error| error.to_string())?;
        Ok(format!("{interface}: {how}"))
    }

    /// From XDP to tc, at all interfaces. Between the two both stand there: what the first one hands over the second one does. So each
    /// interface's socket is told at once (`told`) to take no more but what the second one hands over: a packet in between is done twice,
    /// and none is lost.
    ///
    /// # Errors
    /// In words; then it is where it was.
    pub fn move_to_tc(
        &mut self,
        why: &'static str,
        told: &mut dyn FnMut(u32, &str) -> Result<(), String>,
    ) -> Result<(), String> {
        self.set_moving(true).map_err(|error| error.to_string())?;
        let done = self.leave_xdp(why, told);
        self.set_moving(false).map_err(|error| error.to_string()).and(done)
    }

    fn set_moving(&mut self, is: bool) -> Result<(), KernelError> {
        let mut ops = Vec::new();
        self.mirror.set_moving(is, &mut ops);
        self.write(&ops)
    }

    fn leave_xdp(
        &mut self,
        why: &'static str,
        told: &mut dyn FnMut(u32, &str) -> Result<(), String>,
    ) -> Result<(), String> {
        let Ok(program) = &self.tc else { return Err("no form for tc".to_owned()) };
        let mut links = Vec::new();
        for (at, attached) in self.attached.iter().enumerate() {
            let found = Interface::find(&attached.interface, &attached.interface);
            // One that is away, or is not the one that it was, comes to the new hook when it is back.
            let Ok(found) = found.as_ref().map_err(drop).and_then(|found| {
                if found.index == attached.index && attached.link.is_some() { Ok(found) } else { Err(()) }
            }) else {
                continue;
            };
            links.push((at, stand(found, || at_tc(program, found, why, attached.peer, self.choice))?));
            told(attached.port, &attached.interface)?;
        }
        for (at, (link, native, how)) in links {
            let attached = &mut self.attached[at];
            (attached.link, attached.native, attached.how) = (Some(link), native, how);
        }
        self.place = Place::Tc(why);
        self.look_at_sessions();
        Ok(())
    }

    /// It cannot stand at tc: do not try again.
    pub fn stay_at_xdp(&mut self, why: &str) {
        self.tc = Err(why.to_owned());
    }

    /// Both ways between a port's number and its interface.
    fn set_port(&self, attached: &Attached) -> io::Result<()> {
        let (port, index) = (attached.port.to_ne_bytes(), attached.index.to_ne_bytes());
        self.maps[fixed::DEVICES].update(&port, &index)?;
        self.set_target(attached.port, attached.index, attached.peer)?;
        self.maps[fixed::PORTS].update(&index, &port)
    }

    fn set_target(&self, port: u32, index: u32, peer: bool) -> io::Result<()> {
        let mut target = [0; targets::LEN as usize];
        target[targets::IFINDEX as usize..][..4].copy_from_slice(&index.to_ne_bytes());
        target[targets::PEER as usize..][..4].copy_from_slice(&u32::from(peer).to_ne_bytes());
        self.maps[fixed::TARGETS].update(&port.to_ne_bytes(), &target)
    }

    fn set_max_frame(&mut self) -> Result<(), KernelError> {
        let least = self.attached.iter().map(|attached| attached.mtu).min();
        self.set_max_frame_to(least)
    }

    fn set_max_frame_to(&mut self, least: Option<u32>) -> Result<(), KernelError> {
        let mut ops = Vec::new();
        self.mirror.set_max_frame(least.map_or(0, |mtu| mtu.saturating_add(FRAME_OVERHEAD)), &mut ops);
        self.write(&ops)
    }

    /// Takes the program from a port's interface.
    pub fn detach(&mut self, port: u32) {
        let Some(at) = self.attached.iter().position(|attached| attached.port == port) else { return };
        let gone = self.attached.remove(at);
        self.forget_copies_to(gone.index);
        let _ = self.maps[fixed::PORTS].delete(&gone.index.to_ne_bytes());
        let _ = self.maps[fixed::DEVICES].delete(&port.to_ne_bytes());
        let _ = self.set_target(port, 0, false);
        let _ = self.set_max_frame();
    }

    /// Whether a program stands at an interface as it was put there.
    fn stands(&self, attached: &Attached) -> bool {
        let there = Interface::find(&attached.interface, &attached.interface).is_ok_and(|found| {
            let peer = found.driver == "veth" && peer_is_elsewhere(found.index);
            (found.index, found.mtu, peer) == (attached.index, attached.mtu, attached.peer)
        });
        // One that was in another namespace for a while has its number, and nothing of ours.
        there
            && attached.link.as_ref().is_some_and(Link::is_alive)
            && matches!(self.maps[fixed::DEVICES].lookup(&attached.port.to_ne_bytes()), Ok(Some(_)))
    }

    /// A port is well again: its interface may be another one under the same name, or its other end elsewhere.
    pub fn look_at(&mut self, port: u32) {
        let Some(at) = self.attached.iter().position(|attached| attached.port == port) else { return };
        if self.stands(&self.attached[at]) {
            return;
        }
        let name = self.attached[at].interface.clone();
        self.detach(port);
        if let Err(why) = self.attach(port, &name) {
            self.away(port, name, &why);
        }
    }

    /// Keep a port's place, for when its interface is there again.
    fn away(&mut self, port: u32, interface: String, why: &str) {
        self.attached.push(Attached {
            port,
            interface,
            index: 0,
            mtu: u32::MAX - FRAME_OVERHEAD,
            peer: false,
            link: None,
            _claim: None,
            native: false,
            how: format!("not in the kernel: {why}"),
        });
    }

    /// Stand where another program stood, from the next packet on, and leave it nowhere.
    pub fn take_over(&mut self, old: &mut Kernel) {
        // Before the first packet comes, all ports and lengths are known: it may leave by any of them. What the program does not know
        // would be dropped, or go to user space, whose queues are emptied when programs change.
        if let Err(error) = self.set_max_frame_to(old.attached.iter().map(|attached| attached.mtu).min()) {
            self.trouble = Some(error.to_string());
        }
        for attached in old.attached.iter().filter(|attached| attached.link.is_some()) {
            // One that went away meanwhile is put there when it is back.
            let _ = self.set_port(attached);
        }
        self.place = if self.tc.is_ok() { old.place.clone() } else { Place::Xdp };
        self.look_at_sessions();
        let same = self.place == old.place;
        for mut attached in std::mem::take(&mut old.attached) {
            let done = match (&self.place, &self.tc, &attached.link) {
                (_, _, None) => Ok(()),
                (Place::Tc(_), Ok(program), Some(link)) => {
                    link.replace(program).map_err(|error| error.to_string())
                }
                (_, _, Some(link)) if same => link.replace(&self.program).map_err(|error| error.to_string()),
                // The old one stood at tc, where this one has no form.
                _ => Interface::find(&attached.interface, &attached.interface)
                    .map_err(|error| error.to_string())
                    .and_then(|found| stand(&found, || at_xdp(&self.program, &found, HookChoice::Auto)))
                    .map(|(link, native, how)| {
                        (attached.link, attached.native, attached.how) = (Some(link), native, how);
                    }),
            };
            match done {
                Ok(()) => self.attached.push(attached),
                Err(why) => {
                    let Attached { port, interface, index, .. } = attached;
                    let _ = self.maps[fixed::PORTS].delete(&index.to_ne_bytes());
                    let _ = self.maps[fixed::DEVICES].delete(&port.to_ne_bytes());
                    let _ = self.set_target(port, 0, false);
                    self.away(port, interface, &why);
                }
            }
        }
        let _ = self.set_max_frame();
    }

    /// Interfaces the program stands at: port, name, and whether in the driver.
    pub fn interfaces(&self) -> impl Iterator<Item = (u32, &str, bool)> {
        self.attached.iter().map(|attached| (attached.port, attached.interface.as_str(), attached.native))
    }

    /// At which hook the program stands for a port, and why; or what keeps it from there.
    pub fn note(&self, port: u32) -> Option<String> {
        match self.attached.iter().find(|attached| attached.port == port) {
            Some(attached) => Some(attached.how.clone()),
            None => self.trouble.as_ref().map(|why| format!("not in the kernel: {why}")),
        }
    }
}
