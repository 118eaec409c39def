//! A private key in a file of its owner's.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::{KeyError, PrivateKey};

/// Why a key file was not read or made. A file that exists stays as it is, whatever is wrong with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It could not be read, or does not exist.
    #[error("could not read the key file {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder, a pipe or the like, or far too long for a key.
    #[error("{} is no key file", .0.display())]
    NotAKeyFile(PathBuf),
    /// Another user could replace it.
    #[error("the key file {} belongs to another user", .0.display())]
    OthersFile(PathBuf),
    /// Others may read or write it.
    #[error(
        "other users may read or write the key file {0} (mode {mode:04o}): run `chmod 600 '{0}'`",
        path.display()
    )]
    Permissions {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// What it holds is no key. It is not replaced: with the key, the extension's id would be lost.
    #[error("the key file {} is damaged; restore it from a copy, or move it away to start with a new key \
             and a new extension id", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: KeyError,
    },
    /// No key could be generated or encoded.
    #[error("could not make a key for {}", path.display())]
    Make {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: KeyError,
    },
    /// The new file could not be written.
    #[error("could not write the key file {}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A key of 4096 bits has about 3,300 bytes.
const MAX_BYTES: u64 = 64 * 1024;

impl PrivateKey {
    /// Reads the key in a file; where there is no file, makes a key and writes it.
    ///
    /// The new file appears whole or not at all, readable for its owner alone, and only if no other process
    /// made one first: then that one's key is read.
    ///
    /// # Errors
    /// When a file is there that is not a key, is not the owner's, or may be read by others, and when none
    /// could be written.
    pub fn load_or_create(path: &Path) -> Result<Self, KeyFileError> {
        match Self::load(path) {
            Err(KeyFileError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let failed = |source| KeyFileError::Make { path: path.to_owned(), source };
        let key = Self::generate().map_err(failed)?;
        let pem = key.to_pem().map_err(failed)?;
        match create(path, pem.as_bytes()) {
            Ok(()) => Ok(key),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::load(path),
            Err(source) => Err(KeyFileError::Write { path: path.to_owned(), source }),
        }
    }

    /// Reads the key in a file.
    ///
    /// # Errors
    /// When there is none, or it is not a key, is not the owner's, or may be read by others.
    pub fn load(path: &Path) -> Result<Self, KeyFileError> {
        let unread = |source| KeyFileError::Read { path: path.to_owned(), source };
        // Opening a pipe would wait for its writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unread)?;
        let found = file.metadata().map_err(unread)?;
        if !found.is_file() || found.len() > MAX_BYTES {
            return Err(KeyFileError::NotAKeyFile(path.to_owned()));
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(KeyFileError::OthersFile(path.to_owned()));
        }
        let mode = found.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyFileError::Permissions { path: path.to_owned(), mode });
        }
        // Room for all of it at once: growing would leave copies of the key in memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES as usize + 1));
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(unread)?;
        let damaged = |source| KeyFileError::Damaged { path: path.to_owned(), source };
        let pem = std::str::from_utf8(&bytes).map_err(|_| damaged(KeyError::NotPem))?;
        Self::from_pem(pem).map_err(damaged)
    }
}

/// Writes a file beside and links it to its name, which fails if that exists and never leaves half a file
/// there.
fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    // No attempt before this one, cut short by a crash, can be in the way.
    beside.push(format!(".{:016x}.new", rand::random::<u64>()));
    let beside = folder.join(beside);

    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::hard_link(&beside, path)
    })();
    let removed = fs::remove_file(&beside);
    written?;
    removed?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const PKCS8: &str = include_str!("testdata/openssl-pkcs8.pem");

    fn write(path: &Path, bytes: &[u8], mode: u32) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_key_is_made_once_for_its_owner_alone_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("extension-key.pem");
        let key = PrivateKey::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(names(folder.path()), ["extension-key.pem"]);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(PrivateKey::load_or_create(&path).unwrap().public(), key.public());
        assert_eq!(PrivateKey::load(&path).unwrap().id(), key.id());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn of_two_that_make_a_key_at_once_the_first_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        create(&path, PKCS8.as_bytes()).unwrap();
        assert_eq!(create(&path, b"another").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), PKCS8);
        assert_eq!(names(folder.path()), ["key.pem"]);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        let half = &PKCS8.as_bytes()[..PKCS8.len() / 2];
        for bytes in [&b""[..], b"nonsense", &[0xff; 40], half] {
            write(&path, bytes, 0o600);
            let error = PrivateKey::load_or_create(&path).unwrap_err();
            assert!(matches!(error, KeyFileError::Damaged { .. }), "{error:?}");
            assert!(error.to_string().contains("restore it from a copy"));
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        write(&path, &vec![b'-'; MAX_BYTES as usize + 1], 0o600);
        assert!(matches!(PrivateKey::load_or_create(&path), Err(KeyFileError::NotAKeyFile(_))));
    }

    #[test]
    fn a_file_that_others_may_read_is_an_error_with_its_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        for mode in [0o644, 0o640, 0o604, 0o620, 0o601] {
            write(&path, PKCS8.as_bytes(), mode);
            let error = PrivateKey::load_or_create(&path).unwrap_err().to_string();
            assert!(error.contains("chmod 600") && error.contains(&format!("{mode:04o}")), "{error}");
        }
        for mode in [0o600, 0o400] {
            write(&path, PKCS8.as_bytes(), 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(PrivateKey::load_or_create(&path).is_ok());
        }
    }

    #[test]
    fn what_is_no_file_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let error = PrivateKey::load_or_create(folder.path()).unwrap_err();
        assert!(matches!(error, KeyFileError::NotAKeyFile(_)), "{error:?}");

        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = PrivateKey::load_or_create(&pipe).unwrap_err();
        assert!(matches!(error, KeyFileError::NotAKeyFile(_)), "{error:?}");

        // A link that leads nowhere is not written through.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &link).unwrap();
        assert!(matches!(PrivateKey::load_or_create(&link), Err(KeyFileError::Read { .. })));
        assert!(!folder.path().join("nowhere").exists());

        let missing = folder.path().join("no-such-folder/key.pem");
        assert!(matches!(PrivateKey::load_or_create(&missing), Err(KeyFileError::Write { .. })));
    }
}
