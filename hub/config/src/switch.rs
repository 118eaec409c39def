//! The kill switch: the file `DISABLED`.

use std::io;
use std::path::PathBuf;

use consentry_core::KillSwitch;

/// The file.
#[derive(Debug, Clone)]
pub struct SwitchFile(pub PathBuf);

impl KillSwitch for SwitchFile {
    fn disabled(&self) -> bool {
        // Whatever is there disables, also a folder or a link to nowhere; only its absence enables.
        match std::fs::symlink_metadata(&self.0) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    fn disable(&self) -> io::Result<()> {
        std::fs::OpenOptions::new().append(true).create(true).open(&self.0).map(drop)
    }

    fn enable(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_lies_there_disables() {
        let folder = tempfile::tempdir().unwrap();
        let switch = SwitchFile(folder.path().join("DISABLED"));
        assert!(!switch.disabled());
        switch.disable().unwrap();
        assert!(switch.disabled());
        switch.disable().unwrap();
        switch.enable().unwrap();
        switch.enable().unwrap();
        assert!(!switch.disabled());
        std::os::unix::fs::symlink("/nowhere", &switch.0).unwrap();
        assert!(switch.disabled());
        let under_a_file = SwitchFile(folder.path().join("file").join("DISABLED"));
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(under_a_file.disabled(), "what cannot be told is taken for disabled");
    }
}
