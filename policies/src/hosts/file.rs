//! A host manifest in one folder: looked at, written, removed.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use consentry_wire::socket::NATIVE_HOST;

use super::Host;
use super::manifest::Content;

/// What a browser is told now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Exactly what it should be.
    Installed,
    /// Nothing.
    Missing,
    /// Something of ours that is no longer right.
    Stale {
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file of our name that is not ours: another installation's, or no manifest at all.
    Foreign {
        /// The program that it names, if it names one.
        path: Option<PathBuf>,
    },
}

/// Whether a file that is not ours may be replaced or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// It may not.
    No,
    /// The owner said so.
    Yes,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The manifest was written.
    Written,
    /// The manifest was removed.
    Removed,
    /// Nothing had to be done.
    None,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The file is another program's.
    #[error("{} belongs to another installation and was left alone", .0.display())]
    Foreign(PathBuf),
    /// The system refused.
    #[error("could not {what} {}", path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// No manifest is longer.
const MAX_BYTES: u64 = 64 * 1024;

impl Host {
    /// The manifest's file in a folder. A browser wants the host's name there, and finds it by nothing else.
    pub fn file(folder: &Path) -> PathBuf {
        folder.join(format!("{NATIVE_HOST}.json"))
    }

    /// What a browser that looks in `folder` is told now.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn state(&self, folder: &Path) -> Result<State, HostError> {
        let path = Self::file(folder);
        let (bytes, mode) = match read(&path) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(State::Foreign { path: None }),
            // A link that leads nowhere is a file of our name all the same.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(match fs::symlink_metadata(&path) {
                    Ok(_) => State::Foreign { path: None },
                    Err(_) => State::Missing,
                });
            }
            Err(source) => return Err(HostError::Io { what: "read", path, source }),
        };
        if bytes == self.text().as_bytes() {
            return Ok(match mode {
                // Whoever may write it may name a program that the browser starts.
                mode if mode & 0o022 != 0 => State::Stale { why: "other users may write it" },
                _ => State::Installed,
            });
        }
        let Ok(content) = serde_json::from_slice::<Content>(&bytes) else {
            return Ok(State::Foreign { path: None });
        };
        let named = (!content.path.as_os_str().is_empty()).then(|| content.path.clone());
        if !self.owns(&content.path) {
            return Ok(State::Foreign { path: named });
        }
        let wanted: Option<Content> = serde_json::from_str(self.text()).ok();
        let why = if content.path != self.relay() {
            "it names another relay"
        } else if wanted.is_none_or(|wanted| wanted.allowed_origins != content.allowed_origins) {
            "it names other extensions"
        } else {
            "its text is not the current one"
        };
        Ok(State::Stale { why })
    }

    /// Tells a browser that looks in `folder`. The folder is made if it is missing.
    ///
    /// # Errors
    /// When another program's file is there and `force` does not say otherwise, or it cannot be written.
    pub fn install(&self, folder: &Path, force: Force) -> Result<Change, HostError> {
        match self.state(folder)? {
            State::Installed => return Ok(Change::None),
            State::Foreign { .. } if force == Force::No => {
                return Err(HostError::Foreign(Self::file(folder)));
            }
            State::Foreign { .. } | State::Missing | State::Stale { .. } => {}
        }
        self.write(folder)?;
        Ok(Change::Written)
    }

    /// Corrects the file in `folder` if it is ours and stale.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn refresh(&self, folder: &Path) -> Result<Change, HostError> {
        match self.state(folder)? {
            State::Stale { .. } => self.write(folder).map(|()| Change::Written),
            State::Installed | State::Missing | State::Foreign { .. } => Ok(Change::None),
        }
    }

    /// Removes the file in `folder`. The folder stays: other programs' files may be in it.
    ///
    /// # Errors
    /// When it is another program's and `force` does not say otherwise, or it cannot be removed.
    pub fn remove(&self, folder: &Path, force: Force) -> Result<Change, HostError> {
        let path = Self::file(folder);
        match self.state(folder)? {
            State::Missing => return Ok(Change::None),
            State::Foreign { .. } if force == Force::No => return Err(HostError::Foreign(path)),
            State::Foreign { .. } | State::Installed | State::Stale { .. } => {}
        }
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(HostError::Io { what: "remove", path, source })
            }
            _ => Ok(Change::Removed),
        }
    }

    fn write(&self, folder: &Path) -> Result<(), HostError> {
        let path = Self::file(folder);
        fs::create_dir_all(folder).map_err(|source| HostError::Io {
            what: "make the folder",
            path: folder.to_owned(),
            source,
        })?;
        replace(&path, self.text().as_bytes()).map_err(|source| HostError::Io { what: "write", path, source })
    }
}

/// The bytes and the permissions of a file; none of what is no file, or too long for a manifest.
fn read(path: &Path) -> io::Result<Option<(Vec<u8>, u32)>> {
    let found = fs::metadata(path)?;
    if !found.is_file() || found.len() > MAX_BYTES {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(Some((bytes, found.permissions().mode())))
}

/// Writes beside and renames, so that a browser reads the old text or the new one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // A browser looks at names that end in `.json` only. One of a crashed attempt is written over.
    let beside =
        path.with_extension(format!("{}-{}.new", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let written = (|| {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&beside)?;
        file.write_all(bytes)?;
        // Whatever the umask says: a system's folder is read by all users.
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
