//! Where things lie.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use consentry_wire::socket::files;

/// The longest path of a socket that every system takes.
const MAX_SOCKET_PATH: usize = 103;

/// Every environment variable that Consentry reads. None of them reaches a command that an agent runs.
pub mod env {
    /// The state folder, instead of `~/.consentry`.
    pub const HOME: &str = "CONSENTRY_HOME";
    /// What is logged: `info`, `debug`, or a filter such as `consentry_link=debug`.
    pub const LOG: &str = "CONSENTRY_LOG";
    /// The key that `consentry stdio` shows to a running hub.
    pub const KEY: &str = "CONSENTRY_KEY";
}

/// The state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home(PathBuf);

/// Why there is no state folder.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Neither `CONSENTRY_HOME` nor `HOME` is set.
    #[error("neither CONSENTRY_HOME nor HOME is set, so there is no place for the state folder")]
    Nowhere,
    /// The folder cannot be made or looked at.
    #[error("the state folder {0} cannot be used")]
    Io(PathBuf, #[source] std::io::Error),
    /// It belongs to somebody else.
    #[error("the state folder {0} belongs to another user")]
    NotOurs(PathBuf),
    /// A socket in it could not be reached.
    #[error(
        "the path {0} is too long for a socket: at most {MAX_SOCKET_PATH} bytes; set CONSENTRY_HOME to a shorter one"
    )]
    TooLong(PathBuf),
}

impl Home {
    /// The folder that the environment names; not made yet.
    ///
    /// # Errors
    /// When the environment names none, or one that is too deep for a socket.
    pub fn from_env() -> Result<Self, HomeError> {
        let own = std::env::var_os(env::HOME).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || {
            std::env::var_os("HOME")
                .filter(|value| !value.is_empty())
                .map(|home| PathBuf::from(home).join(".consentry"))
        };
        Self::at(own.or_else(home).ok_or(HomeError::Nowhere)?)
    }

    /// A folder by its path.
    ///
    /// # Errors
    /// When it is too deep for a socket.
    pub fn at(path: PathBuf) -> Result<Self, HomeError> {
        let path = std::path::absolute(&path).map_err(|error| HomeError::Io(path, error))?;
        let home = Self(path);
        let socket = home.socket();
        if socket.as_os_str().len() > MAX_SOCKET_PATH { Err(HomeError::TooLong(socket)) } else { Ok(home) }
    }

    /// Makes the folder, for this user alone.
    ///
    /// # Errors
    /// When it cannot be made, or is somebody else's.
    pub fn create(&self) -> Result<(), HomeError> {
        let io = |error| HomeError::Io(self.0.clone(), error);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(io)?;
        let metadata = std::fs::metadata(&self.0).map_err(io)?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(HomeError::NotOurs(self.0.clone()));
        }
        if metadata.mode() & 0o077 != 0 {
            std::fs::set_permissions(&self.0, std::fs::Permissions::from_mode(0o700)).map_err(io)?;
        }
        for folder in [self.keys(), self.secrets(), self.bin(), self.logs()] {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(io)?;
        }
        Ok(())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident = $file:expr;)*) => {
        impl Home {
            $($(#[$doc])* pub fn $name(&self) -> PathBuf { self.0.join($file) })*
        }
    };
}

places! {
    /// What the owner writes.
    config = "config.toml";
    /// What the owner has clicked for.
    approved = "approved.toml";
    /// What the owner told us to remember.
    decisions = "decisions.toml";
    /// One file for each key.
    keys = "keys";
    /// Secrets, where there is no keychain.
    secrets = "secrets";
    /// The record.
    audit = "audit.jsonl";
    /// The socket.
    socket = files::SOCKET;
    /// The key that the extension's id comes from.
    extension_key = "extension-key.pem";
    /// The secret between hub, relay and extension.
    extension_token = files::TOKEN;
    /// The unpacked copy of the extension.
    extension = "extension";
    /// Programs.
    bin = files::BIN;
    /// Output of commands.
    spool = "spool";
    /// Logs.
    logs = "logs";
    /// The kill switch.
    disabled = "DISABLED";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_no_socket_can_have_is_a_clear_error() {
        let deep = PathBuf::from("/tmp").join("x".repeat(100));
        let error = Home::at(deep).unwrap_err().to_string();
        assert!(error.contains("CONSENTRY_HOME") && error.contains("103"), "{error}");
    }

    #[test]
    fn the_folder_is_for_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("state")).unwrap();
        home.create().unwrap();
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        home.create().unwrap();
        assert_eq!(std::fs::metadata(home.path()).unwrap().mode() & 0o777, 0o700);
    }
}
