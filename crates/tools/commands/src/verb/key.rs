//! `barewire key`: keys of hosts, and whom they trust.

use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use barewire_client::security::PublicKey;
use barewire_daemon::Config;
use barewire_engine::keyfile::{self, KeyFileError};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Create a private key for this host, in a file that only you can read, and print its public half
    New {
        /// File to write; an existing file is not overwritten
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Print the public half of a key, for other hosts to trust
    Show {
        /// The file with the private key
        file: PathBuf,
    },
    /// Add a trusted peer to a configuration
    Trust {
        /// The configuration, with a `[security]` table
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Name of the peer
        #[arg(long)]
        name: String,
        /// Address or network where it may be; may be repeated [default: anywhere]
        #[arg(long = "address", value_name = "ADDRESS[/BITS]")]
        addresses: Vec<String>,
        /// Its public key, as `barewire key show` prints it on that host
        key: PublicKey,
    },
}

fn refuse(path: &Path, error: &KeyFileError) -> anyhow::Error {
    let failure = Failure::new(Code::Failed, format!("{}: {error}", path.display()));
    match error {
        KeyFileError::Mode(_) => failure.hint(format!("chmod 600 {}", path.display())).into(),
        KeyFileError::Exists => {
            failure.hint("give another name, or remove it if nobody trusts it any more").into()
        }
        _ => failure.into(),
    }
}

/// Runs it.
///
/// # Errors
/// What could not be read or written, or is no key.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    match &args.what {
        What::New { out } => {
            let mut random = [0; 32];
            getrandom::fill(&mut random)
                .map_err(|e| Failure::new(Code::Failed, format!("the system's random source: {e}")))?;
            let public = keyfile::create(out, random).map_err(|e| refuse(out, &e))?;
            console.note(&format!("{}: the private key; keep it. This is its public half:", out.display()));
            print(&format!("{public}\n"))?;
        }
        What::Show { file } => {
            let key = keyfile::read(file).map_err(|e| refuse(file, &e))?;
            print(&format!("{}\n", key.public()))?;
        }
        What::Trust { config, name, addresses, key } => {
            trust(config, name, addresses, key)?;
            console.note(&format!("{}: trusts {name} now; restart the daemon", config.display()));
        }
    }
    Ok(Code::Done)
}

/// A TOML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Adds a peer at the end of the file. The new file takes the old one's place only when it is a good configuration.
fn trust(path: &Path, name: &str, addresses: &[String], key: &PublicKey) -> anyhow::Result<()> {
    let shown = path.display().to_string();
    let failed = |e: std::io::Error| Failure::new(Code::Failed, format!("{shown}: {e}"));
    let mut text = fs::read_to_string(path).map_err(failed)?;
    let before = Config::parse(&text, &shown).map_err(|e| Failure::new(Code::Usage, e.to_string()))?;
    if before.transport.security.is_none() {
        return Err(Failure::new(Code::Usage, format!("{shown}: no [security] table"))
            .hint("make a key with `barewire key new --out host.key`, and add: [security] key = \"host.key\"")
            .into());
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let addresses: Vec<String> = addresses.iter().map(|a| quoted(a)).collect();
    text += &format!(
        "\n[[security.peer]]\nname = {}\nkey = \"{key}\"\naddresses = [{}]\n",
        quoted(name),
        addresses.join(", ")
    );
    Config::parse(&text, &shown).map_err(|e| Failure::new(Code::Usage, e.to_string()))?;
    let target = fs::canonicalize(path).map_err(failed)?;
    let mode = fs::metadata(&target).map_err(failed)?.mode() & 0o777;
    let beside = target.with_extension("toml.new");
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside).map_err(failed)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, &target));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    Ok(written.map_err(failed)?)
}
