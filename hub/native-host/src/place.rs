//! Where the hub's socket and token are.
//!
//! A host manifest has no arguments and a browser passes no environment on, so the program's own path says
//! it: it lies in `<state>/bin/`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use consentry_wire::socket::files;

/// The files of the state folder that the relay needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) socket: PathBuf,
    pub(crate) token: PathBuf,
}

impl Place {
    /// Symbolic links are resolved: Linux names the running file itself and never the link, macOS whatever
    /// was started, and both must find the same folder. So the program is installed as a copy, and a link
    /// to it in another place still serves the state folder that it was installed for.
    pub(crate) fn of_this_program() -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("find this program's own path")?;
        let program =
            program.canonicalize().with_context(|| format!("resolve the path {}", program.display()))?;
        Self::beside(&program).with_context(|| format!("{} lies in no state folder", program.display()))
    }

    fn beside(program: &Path) -> Option<Self> {
        let bin = program.parent()?;
        if bin.file_name()? != files::BIN {
            return None;
        }
        let state = bin.parent()?;
        Some(Self { socket: state.join(files::SOCKET), token: state.join(files::TOKEN) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_the_folder_above_bin() {
        let place = Place::beside(Path::new("/home/a/.consentry/bin/consentry-native-host")).unwrap();
        assert_eq!(place.socket, Path::new("/home/a/.consentry/hub.sock"));
        assert_eq!(place.token, Path::new("/home/a/.consentry/extension-token"));
        for outside in ["/usr/lib/consentry-native-host", "consentry-native-host", "bin", "/"] {
            assert_eq!(Place::beside(Path::new(outside)), None, "{outside}");
        }
    }
}
