//! The agent's binary on hosts that do not have it: kept there under its checksum, so that it is sent once.
//!
//! ```text
//! look   is a file of this checksum there, and does it run?          one command on the host
//! store  standard input -> gunzip -> a file of its own -> checksum -> mode -> renamed to its place at a stroke
//! ```
//! Both are one line of POSIX shell inside single quotes without `!`, which every login shell hands on as it stands, csh and fish too.
//! Their answers are marked lines: whatever else comes, the login shell printed, and it would stand between the agent's lines too.

use barewire_report::run::HardwareClass;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Files of the cache folder that no experiment used for so many days go when another is stored.
const UNUSED_DAYS: u32 = 30;
/// How every line of an answer begins.
const MARK: &str = "bw1 ";

/// The program that becomes the agent on each host: one that links nothing which a host may lack.
#[derive(Clone)]
pub struct AgentBinary {
    bytes: Arc<Vec<u8>>,
    /// The same as gzip has it, once a host wanted it.
    packed: Arc<OnceLock<Arc<Vec<u8>>>>,
    sha256: String,
    arguments: Vec<String>,
    /// `x86_64`, when the bytes say so.
    machine: Option<&'static str>,
}

impl std::fmt::Debug for AgentBinary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgentBinary({} bytes, {})", self.bytes.len(), self.sha256)
    }
}

impl AgentBinary {
    /// This very program, with the argument `agent`.
    ///
    /// # Errors
    /// What the system says.
    pub fn this_program() -> io::Result<AgentBinary> {
        // Not its path: the file there may have been replaced since.
        AgentBinary::read(Path::new("/proc/self/exe"), &["agent"])
    }

    /// A file, and the arguments that make it the agent. With `--version` it must exit with 0.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(path: &Path, arguments: &[&str]) -> io::Result<AgentBinary> {
        let bytes = fs::read(path)?;
        let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let machine = elf_machine(&bytes);
        let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        Ok(AgentBinary { bytes: Arc::new(bytes), packed: Arc::default(), sha256, arguments, machine })
    }

    /// Its SHA-256, in hexadecimal digits.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// What is sent to a host: compressed, where it can unpack that.
    pub(super) fn sent(&self, packed: bool) -> Arc<Vec<u8>> {
        if !packed {
            return Arc::clone(&self.bytes);
        }
        // Once for all hosts. Into memory: nothing can fail.
        Arc::clone(self.packed.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            let packed = encoder.write_all(&self.bytes).and_then(|()| encoder.finish());
            Arc::new(packed.unwrap_or_default())
        }))
    }

    pub(super) fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

/// `e_machine` of an ELF file (System V ABI, ELF header), as `uname -m` spells it.
fn elf_machine(bytes: &[u8]) -> Option<&'static str> {
    let header = bytes.get(..20).filter(|header| header.starts_with(b"\x7fELF"))?;
    let machine = match header[5] {
        1 => u16::from_le_bytes([header[18], header[19]]),
        _ => u16::from_be_bytes([header[18], header[19]]),
    };
    Some(match machine {
        3 => "i686",
        21 => "ppc64",
        22 => "s390x",
        40 => "armv7l",
        62 => "x86_64",
        183 => "aarch64",
        243 => "riscv64",
        _ => return None,
    })
}

/// A folder of hosts as the user names one: `~/x`, `$HOME/x`, `/x`. What a shell would take apart is refused.
pub(super) fn check_cache(folder: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+~".contains(c);
    let rest = folder.strip_prefix("$HOME").unwrap_or(folder);
    let rooted = folder.starts_with("$HOME/") || folder.starts_with("~/") || folder.starts_with('/');
    if rooted && rest.chars().all(plain) {
        return Ok(());
    }
    Err(format!("cache folder {folder:?}: absolute, or from `~/`, of letters, digits and `/._-+`"))
}

/// Where a binary lies on a host, and what the host says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// The file, if it is there and runs.
    pub(super) runs: Option<String>,
    /// It is there and does not run: what it said.
    pub(super) fails: Option<String>,
    /// What arrived was not what was sent.
    pub(super) bad_sum: bool,
    /// The host cannot compute a SHA-256.
    pub(super) no_sum: bool,
    /// It has gzip.
    pub(super) unpacks: bool,
    /// Others may write where the binary lies, or would lie.
    pub(super) shared: bool,
    /// `uname -s`, `uname -m`.
    pub(super) system: String,
    pub(super) machine: String,
    /// The address that we are connected to, as the host sees it.
    pub(super) address: Option<String>,
    /// The kernel's boot id: equal for hosts that are one machine.
    pub(super) boot: String,
    /// The processor says that it is a virtual machine's.
    pub(super) is_virtual: bool,
    /// What the login shell printed by itself.
    pub(super) noise: Option<String>,
}

/// Whether it is an IP address, and nothing that means more to a shell: it is filled into commands of other hosts and of this machine, and
/// a host may say anything. A link-local one may have its interface behind it.
fn is_address(text: &str) -> bool {
    let (ip, zone) = text.split_once('%').unwrap_or((text, "0"));
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    ip.parse::<IpAddr>().is_ok() && !zone.is_empty() && zone.chars().all(plain)
}

/// The beginning of both scripts: the folder, the file, how to sum, whether the folder is nobody else's (root's is as good).
fn head(binary: &AgentBinary, cache: Option<&str>) -> String {
    let folder = match cache {
        Some(folder) => {
            folder.strip_prefix("~/").map_or_else(|| folder.to_owned(), |rest| format!("$HOME/{rest}"))
        }
        None => "${XDG_CACHE_HOME:-$HOME/.cache}/barewire".to_owned(),
    };
    format!(
        "umask 077; d=\"{folder}\"; f=\"$d/agent-{sha}\"; \
         has() {{ command -v \"$1\" >/dev/null 2>&1; }}; \
         sum() {{ if has sha256sum; then sha256sum; elif has shasum; then shasum -a 256; \
         elif has openssl; then openssl dgst -sha256 -r; else echo none; fi; }}; \
         own() {{ set -- $(ls -ldn \"$d/.\" 2>/dev/null); case \"$1\" in ????????w*) return 1;; esac; \
         [ \"$3\" = 0 ] || [ \"$3\" = \"$(id -u)\" ]; }}; \
         try() {{ if \"$f\" --version >/dev/null 2>&1; then echo \"{MARK}runs $f\"; \
         else echo \"{MARK}fails $(\"$f\" --version 2>&1 | head -n 3 | tr \"\\n\" \" \")\"; fi; }}; ",
        sha = binary.sha256,
    )
}

/// Asks a host what it is and whether it has the binary.
pub(super) fn look_script(binary: &AgentBinary, cache: Option<&str>) -> String {
    format!(
        "{head}echo \"{MARK}system $(uname -s) $(uname -m)\"; \
         echo \"{MARK}address ${{SSH_CONNECTION:-}}\"; \
         echo \"{MARK}boot $(cat /proc/sys/kernel/random/boot_id 2>/dev/null)\"; \
         if has gzip; then echo \"{MARK}unpacks\"; fi; \
         if grep -qw hypervisor /proc/cpuinfo 2>/dev/null; then echo \"{MARK}virtual\"; fi; \
         if [ -f \"$f\" ]; then if own; then case \"$(sum <\"$f\")\" in {sha}*) touch -c \"$f\"; try;; esac; \
         else echo \"{MARK}shared\"; fi; fi; \
         echo \"{MARK}end\"",
        head = head(binary, cache),
        sha = binary.sha256,
    )
}

/// Stores the binary, which comes at standard input as [`AgentBinary::sent`] has it. What cannot be unpacked has another checksum; that
/// there is no room is `cat`'s to say.
pub(super) fn store_script(binary: &AgentBinary, cache: Option<&str>, packed: bool) -> String {
    let read = if packed { "gzip -dc | cat" } else { "cat" };
    format!(
        "{head}mkdir -p \"$d\" || exit 71; own || {{ echo \"{MARK}shared\"; exit 77; }}; t=$(mktemp \"$d/.incoming.XXXXXX\") || exit 72; \
         {read} >\"$t\" || {{ rm -f \"$t\"; exit 73; }}; s=\"$(sum <\"$t\")\"; \
         case \"$s\" in {sha}*) ;; none) rm -f \"$t\"; echo \"{MARK}no-sum\"; exit 74;; \
         *) rm -f \"$t\"; echo \"{MARK}bad-sum\"; exit 75;; esac; \
         chmod 700 \"$t\" && mv -f \"$t\" \"$f\" || {{ rm -f \"$t\"; exit 76; }}; \
         find \"$d\" -maxdepth 1 -type f -name \"agent-*\" -mtime +{UNUSED_DAYS} -exec rm -f {{}} + 2>/dev/null; \
         try; echo \"{MARK}end\"",
        head = head(binary, cache),
        sha = binary.sha256,
    )
}

/// A word for a shell: itself, and nothing else. A single quote has no form that all shells share.
pub(super) fn quoted(word: &str) -> Result<String, String> {
    if word.contains(['\'', '\\', '!']) || word.contains(char::is_control) {
        return Err(format!("{word:?} cannot be quoted for every shell"));
    }
    Ok(format!("'{word}'"))
}

impl Answer {
    /// Reads what a script printed; `None` when it did not come to its end.
    pub(super) fn parse(text: &str) -> Option<Answer> {
        let mut answer = Answer::default();
        let mut noise = Vec::new();
        let mut ended = false;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let Some(said) = line.strip_prefix(MARK) else {
                noise.push(line);
                continue;
            };
            let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
            match word {
                "system" => {
                    let (system, machine) = rest.split_once(' ').unwrap_or((rest, ""));
                    (answer.system, answer.machine) = (system.to_owned(), machine.to_owned());
                }
                // Their address, their port, our address, our port.
                "address" => {
                    let told = rest.split(' ').nth(2).filter(|told| is_address(told));
                    answer.address = told.map(str::to_owned);
                }
                "boot" => answer.boot = rest.trim().to_owned(),
                "virtual" => answer.is_virtual = true,
                "runs" => answer.runs = Some(rest.to_owned()),
                "fails" => answer.fails = Some(rest.trim().to_owned()),
                "bad-sum" => answer.bad_sum = true,
                "no-sum" => answer.no_sum = true,
                "unpacks" => answer.unpacks = true,
                "shared" => answer.shared = true,
                "end" => ended = true,
                _ => {}
            }
        }
        if !noise.is_empty() {
            answer.noise = Some(noise.join("\n"));
        }
        (ended || answer.bad_sum || answer.no_sum || answer.shared).then_some(answer)
    }

    /// Why this host cannot run this binary, whatever is done; with a hint.
    pub(super) fn unsuited(&self, binary: &AgentBinary) -> Option<(String, String)> {
        if self.system != "Linux" {
            let why = format!("it runs {:?}, and the agent needs Linux", self.system);
            return Some((why, "leave it out: `black = [\"NAME\"]`".into()));
        }
        let same = |want: &str| self.machine == want || (want == "armv7l" && self.machine.starts_with("arm"));
        if let Some(want) = binary.machine.filter(|want| !same(want)) {
            let why = format!("it is {:?}, and the binary to be sent is for {want}", self.machine);
            return Some((
                why,
                format!("send one that was built for {}, or leave the host out", self.machine),
            ));
        }
        if let Some(noise) = &self.noise {
            let why =
                format!("its login shell prints text of its own: {}", super::command::last_words(noise));
            return Some((why, "let .bashrc, .cshrc or config.fish print in interactive shells only".into()));
        }
        None
    }

    /// Where the binary lies, or why it does not, with a hint.
    pub(super) fn place(&self) -> Result<String, (String, String)> {
        if self.no_sum {
            let hint = "install coreutils, or perl's shasum, or openssl there";
            return Err(("it has no program that computes a SHA-256".into(), hint.into()));
        }
        if self.shared {
            let why = "other users can write to its cache folder, and could replace the binary";
            return Err((
                why.into(),
                "name another cache folder, or remove the write permission of others".into(),
            ));
        }
        if self.bad_sum {
            let hint = "the connection ended early, or the data was changed on the way; try again";
            return Err(("the binary arrived damaged: its SHA-256 differs".into(), hint.into()));
        }
        self.runs.clone().ok_or_else(|| self.broken())
    }

    /// Why the binary does not run there though it is there, with a hint.
    fn broken(&self) -> (String, String) {
        let said = self.fails.as_deref().unwrap_or("nothing");
        let why = format!("the binary was sent and does not run: {}", super::command::last_words(said));
        let hint = if said.contains("ermission denied") {
            "the cache folder's file system may forbid programs (noexec): name another cache folder"
        } else if said.contains("not found") || said.contains("GLIBC") {
            "it links libraries that the host does not have: send the static build (target x86_64-unknown-linux-musl)"
        } else {
            "send a build for this host's processor and system"
        };
        (why, hint.into())
    }
}

/// What lies between hosts that say so of themselves.
pub(super) fn hardware_of<'a>(answers: impl Iterator<Item = &'a Answer> + Clone) -> HardwareClass {
    let mut boots: Vec<&str> = answers.clone().map(|answer| answer.boot.as_str()).collect();
    let hosts = boots.len();
    boots.sort_unstable();
    boots.dedup();
    if hosts > 1 && boots.len() < hosts && boots.iter().all(|boot| !boot.is_empty()) {
        HardwareClass::OneMachine
    } else if answers.clone().any(|answer| answer.is_virtual) {
        HardwareClass::CloudVms
    } else {
        HardwareClass::BareMetal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::process::{Command, Stdio};

    fn script_binary(text: &str) -> AgentBinary {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent");
        fs::write(&path, text).unwrap();
        AgentBinary::read(&path, &["agent"]).unwrap()
    }

    /// What a host's shell answers.
    fn on_host(home: &Path, script: &str, input: &[u8]) -> Option<Answer> {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec sh -c '{script}'")]).env_clear().env("HOME", home);
        command.env("PATH", "/usr/bin:/bin").env("SSH_CONNECTION", "10.0.0.1 4000 fd00::2 22");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The look does not read.
        let _ = io::Write::write_all(&mut child.stdin.take().unwrap(), input);
        Answer::parse(&String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
    }

    #[test]
    fn an_address_is_an_address_whatever_a_host_says() {
        let said = |address: &str| {
            let text = format!("bw1 address 10.0.0.1 4000 {address} 22\nbw1 end\n");
            Answer::parse(&text).unwrap().address
        };
        for good in ["10.0.0.2", "fd00::2", "fe80::2%eth0"] {
            assert_eq!(said(good).as_deref(), Some(good));
        }
        // It is filled into commands of other hosts, and of this machine.
        for bad in [
            "$(touch${IFS}/x)",
            "h2;reboot",
            "`id`",
            "--option",
            "-oProxyCommand=x",
            "fe80::2%$(id)",
            "h2",
            "1.2.3",
            "",
        ] {
            assert_eq!(said(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_cache_folder_that_others_may_change_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let binary = script_binary("#!/bin/sh\necho ok\n");
        let folder = home.path().join("cache");
        fs::create_dir(&folder).unwrap();
        let cache = Some("~/cache");
        let of = |mode: u32| {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            let stored = on_host(home.path(), &store_script(&binary, cache, false), &binary.bytes).unwrap();
            let looked = on_host(home.path(), &look_script(&binary, cache), b"").unwrap();
            (stored.runs.is_some(), stored.shared, looked.runs.is_some(), looked.shared)
        };
        assert_eq!(of(0o755), (true, false, true, false));
        // What is there already is not run from there either.
        assert_eq!(of(0o777), (false, true, false, true));
        assert_eq!(of(0o1777), (false, true, false, true));
        let answer = Answer { shared: true, ..Answer::default() };
        assert!(answer.place().unwrap_err().0.contains("other users"));
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            std::os::unix::fs::chown(&folder, Some(12345), None).unwrap();
            assert_eq!(of(0o755), (false, true, false, true));
        } else {
            barewire_testing::skip_part(barewire_testing::Needs::Root, "a folder of another user");
        }
    }

    #[test]
    fn scripts_fit_into_single_quotes_of_any_shell() {
        let binary = script_binary("x");
        let store = |packed| store_script(&binary, Some("~/x"), packed);
        for script in [look_script(&binary, None), store(false), store(true)] {
            assert!(!script.contains(['\'', '!', '\n']), "{script}");
        }
    }

    #[test]
    fn a_binary_is_stored_once_and_under_its_sum_only() {
        let home = tempfile::tempdir().unwrap();
        let binary = script_binary("#!/bin/sh\nexit 0\n");
        let look = look_script(&binary, None);
        let first = on_host(home.path(), &look, b"").unwrap();
        assert_eq!((first.runs.clone(), first.system.as_str()), (None, "Linux"));
        assert_eq!(first.address.as_deref(), Some("fd00::2"));
        assert!(!first.boot.is_empty());

        let cache = home.path().join(".cache/barewire");
        let place = cache.join(format!("agent-{}", binary.sha256)).to_str().unwrap().to_owned();
        // As it is, and last as it is sent to this machine, which has gzip.
        assert!(first.unpacks);
        for packed in [false, true] {
            let (store, sent) = (store_script(&binary, None, packed), binary.sent(packed));
            assert_eq!(sent.starts_with(&[0x1f, 0x8b]), packed);
            let _ = fs::remove_file(&place);
            // Half of it, or something else: nothing stays.
            for bad in [&sent[..sent.len() / 2], &[], b"neither"] {
                assert!(on_host(home.path(), &store, bad).unwrap().bad_sum);
                assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
            }
            assert_eq!(on_host(home.path(), &store, &sent).unwrap().runs.as_ref(), Some(&place));
            assert_eq!(fs::read(&place).unwrap(), *binary.bytes);
        }
        assert_eq!(on_host(home.path(), &look, b"").unwrap().runs.as_ref(), Some(&place));
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);

        // Another content under this name is not run.
        fs::write(&place, "#!/bin/sh\necho evil\n").unwrap();
        assert_eq!(on_host(home.path(), &look, b"").unwrap().runs, None);
        // Another folder.
        let elsewhere = look_script(&binary, Some("~/else"));
        assert_eq!(on_host(home.path(), &elsewhere, b"").unwrap().runs, None);
    }

    #[test]
    fn what_does_not_run_says_why() {
        let home = tempfile::tempdir().unwrap();
        let binary = script_binary("#!/bin/sh\necho no such instruction >&2; exit 1\n");
        let answer = on_host(home.path(), &store_script(&binary, None, false), &binary.bytes).unwrap();
        assert_eq!((answer.runs.as_ref(), answer.fails.as_deref()), (None, Some("no such instruction")));
        assert!(answer.broken().0.contains("no such instruction"));
    }

    #[test]
    fn wrong_hosts_are_known_before_anything_is_sent() {
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[18] = 183;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), &elf).unwrap();
        let binary = AgentBinary::read(&folder.path().join("a"), &[]).unwrap();
        let answer = |text: &str| Answer::parse(text).unwrap().unsuited(&binary);
        assert_eq!(answer("bw1 system Linux aarch64\nbw1 end\n"), None);
        assert!(answer("bw1 system Linux x86_64\nbw1 end\n").unwrap().0.contains("\"x86_64\""));
        assert!(answer("bw1 system Darwin arm64\nbw1 end\n").unwrap().0.contains("Darwin"));
        assert!(answer("Welcome!\nbw1 system Linux aarch64\nbw1 end\n").unwrap().0.contains("Welcome!"));
        assert_eq!(Answer::parse("bw1 system Linux aarch64\n"), None);
    }

    #[test]
    fn folders_and_words_that_a_shell_would_take_apart_are_refused() {
        for good in ["/var/tmp/x", "~/cache-2", "$HOME/.x/y"] {
            assert_eq!(check_cache(good), Ok(()), "{good}");
        }
        for bad in ["", "x", "~x", "/a b", "/a;rm", "/$(id)", "/a'b", "$HOMEx", "$HOME/$X", "/a\n"] {
            assert!(check_cache(bad).is_err(), "{bad}");
        }
        assert_eq!(quoted("/a b"), Ok("'/a b'".into()));
        assert!(quoted("a'b").is_err() && quoted("a!").is_err() && quoted("a\n").is_err());
    }

    #[test]
    fn hosts_of_one_kernel_are_one_machine() {
        let host = |boot: &str, is_virtual| Answer { boot: boot.into(), is_virtual, ..Answer::default() };
        assert_eq!(hardware_of([host("a", true), host("a", true)].iter()), HardwareClass::OneMachine);
        assert_eq!(hardware_of([host("a", true), host("b", false)].iter()), HardwareClass::CloudVms);
        assert_eq!(hardware_of([host("a", false), host("b", false)].iter()), HardwareClass::BareMetal);
        assert_eq!(hardware_of([host("", false), host("", false)].iter()), HardwareClass::BareMetal);
    }

    proptest! {
        #[test]
        fn any_answer_is_survived(text in "(bw1 [a-z-]{0,8} ?.{0,20}\n|.{0,20}\n){0,6}") {
            let _ = Answer::parse(&text);
        }
    }
}
