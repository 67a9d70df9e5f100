//! What tests need, in words.

use std::fmt;

/// The environment variable that lists what this machine has, as words of [`Needs`] with commas between: a test that lacks it fails there.
pub const REQUIRE: &str = "BAREWIRE_REQUIRE";

/// What a test needs that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// `root`: the right to make network namespaces, links and mounts, and to give files away.
    Root,
    /// `xdp`: a kernel with sockets of AF_XDP.
    Xdp,
    /// `peers`: the programs of others that `make test` and `make peers` install, from `ip` to Slurm and Chromium.
    Peers,
    /// `shared`: the folder `shared` beside the repository, with captures, programs and texts that are not ours to pass on.
    Shared,
    /// `rxe`: the guest whose kernel has Linux' own soft RoCE, built from packages that come over the network.
    Rxe,
    /// `bmv2`: p4lang's `simple_switch` and `simple_switch_CLI`, and the wish to ask them.
    Bmv2,
    /// `python`: Python packages of others: p4runtime-shell, ptf, sbedecoder.
    Python,
    /// `tools`: what many machines have anyway: python3, rustfmt, cc with sanitizers, systemd's and Prometheus' checkers.
    Tools,
    /// `machine`: what no package mends: a second core, idle states, io_uring, netlink that answers.
    Machine,
}

impl Needs {
    /// All of them, in the order in which they are listed to people.
    pub const ALL: [Needs; 9] = [
        Needs::Root,
        Needs::Xdp,
        Needs::Peers,
        Needs::Shared,
        Needs::Rxe,
        Needs::Bmv2,
        Needs::Python,
        Needs::Tools,
        Needs::Machine,
    ];

    /// Its word in [`REQUIRE`].
    pub const fn word(self) -> &'static str {
        match self {
            Needs::Root => "root",
            Needs::Xdp => "xdp",
            Needs::Peers => "peers",
            Needs::Shared => "shared",
            Needs::Rxe => "rxe",
            Needs::Bmv2 => "bmv2",
            Needs::Python => "python",
            Needs::Tools => "tools",
            Needs::Machine => "machine",
        }
    }

    /// What a value of [`REQUIRE`] lists; an empty one lists nothing.
    ///
    /// # Errors
    /// [`Unknown`] for a word that none of them has.
    pub fn parse_list(text: &str) -> Result<Vec<Needs>, Unknown> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words
            .map(|word| {
                let found = Needs::ALL.into_iter().find(|needs| needs.word() == word);
                found.ok_or_else(|| Unknown(word.to_owned()))
            })
            .collect()
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A word in [`REQUIRE`] that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(pub String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{REQUIRE}: `{}` is not known; known: {}", self.0, Needs::ALL.map(Needs::word).join(", "))
    }
}

impl std::error::Error for Unknown {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        let all = Needs::ALL.map(Needs::word).join(",");
        assert_eq!(Needs::parse_list(&all).unwrap(), Needs::ALL);
        assert_eq!(Needs::parse_list(" xdp , root,").unwrap(), [Needs::Xdp, Needs::Root]);
        assert_eq!(Needs::parse_list("").unwrap(), []);
        let error = Needs::parse_list("root,Peers").unwrap_err();
        assert_eq!(error, Unknown("Peers".to_owned()));
        let said = error.to_string();
        assert!(
            said.starts_with("BAREWIRE_REQUIRE: `Peers` is not known; known: root, xdp, peers, shared,"),
            "{said}"
        );
    }
}
