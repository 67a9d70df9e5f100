//! Files with a private key: two lines of text, for their owner alone.

use barewire_transport::security::{PrivateKey, PublicKey};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use zeroize::{Zeroize as _, Zeroizing};

const FIRST_LINE: &str = "barewire private key 1";
/// Longest file, in bytes.
const LEN_MAX: u64 = 256;

/// Why a key file was refused. No text of it is repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It cannot be opened, made or read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is there already.
    #[error("the file already exists, and a key is never overwritten")]
    Exists,
    /// Not a file.
    #[error("not a regular file")]
    NotAFile,
    /// Others may read or write it.
    #[error("mode {0:04o} lets other users at it; chmod 600")]
    Mode(u32),
    /// It is another user's.
    #[error("it belongs to user {0}; it must belong to root, or to the user who reads it")]
    Owner(u32),
    /// It holds no key.
    #[error("no private key in it; make one with `barewire key new`")]
    Content,
}

/// Reads a private key.
///
/// # Errors
/// [`KeyFileError`].
pub fn read(path: &Path) -> Result<PrivateKey, KeyFileError> {
    // A pipe or a device must not make us wait.
    let mut file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    check(&file)?;
    let mut text = Zeroizing::new(String::with_capacity(LEN_MAX as usize));
    (&mut file).take(LEN_MAX).read_to_string(&mut text).map_err(|e| match e.kind() {
        ErrorKind::InvalidData => KeyFileError::Content,
        _ => e.into(),
    })?;
    let mut lines = text.lines();
    match (lines.next(), lines.next(), lines.next()) {
        (Some(FIRST_LINE), Some(key), None) => key.parse().map_err(|_| KeyFileError::Content),
        _ => Err(KeyFileError::Content),
    }
}

/// The file that was opened, not what stands at its path by now.
fn check(file: &File) -> Result<(), KeyFileError> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(KeyFileError::NotAFile);
    }
    if meta.mode() & 0o077 != 0 {
        return Err(KeyFileError::Mode(meta.mode() & 0o7777));
    }
    if meta.uid() != 0 && meta.uid() != crate::sys::effective_uid() {
        return Err(KeyFileError::Owner(meta.uid()));
    }
    Ok(())
}

/// Writes a new private key, of 32 random bytes, and gives its public half.
///
/// # Errors
/// [`KeyFileError`].
pub fn create(path: &Path, mut random: [u8; 32]) -> Result<PublicKey, KeyFileError> {
    let key = PrivateKey::from_bytes(random);
    random.zeroize();
    let mut text = Zeroizing::new(String::with_capacity(LEN_MAX as usize));
    text.push_str(FIRST_LINE);
    text.push('\n');
    for byte in key.as_bytes() {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from_digit(half.into(), 16).unwrap_or('0'));
        }
    }
    text.push('\n');
    let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = open.map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => KeyFileError::Exists,
        _ => e.into(),
    })?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(key.public())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_read_as_it_was_written_and_by_its_owner_alone() {
        let path = std::env::temp_dir().join(format!("barewire-keyfile-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let public = create(&path, [0x31; 32]).unwrap();
        assert_eq!(read(&path).unwrap().public(), public);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(create(&path, [1; 32]), Err(KeyFileError::Exists)));
        let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        for mode in [0o640, 0o604, 0o666, 0o620] {
            set(mode);
            assert!(matches!(read(&path), Err(KeyFileError::Mode(m)) if m == mode));
        }
        set(0o400);
        assert!(read(&path).is_ok());
        set(0o600);
        let no_key = format!("{FIRST_LINE}\n{}\n", "0".repeat(64));
        for text in ["", "x", &format!("{FIRST_LINE}\n"), &no_key, "\u{1}\n\n\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(read(&path), Err(KeyFileError::Content)), "{text:?}");
        }
        std::fs::write(&path, [0xff; 300]).unwrap();
        assert!(matches!(read(&path), Err(KeyFileError::Content)));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(read(&path), Err(KeyFileError::Io(_))));
    }
}
