//! Writing a private file whole.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a file whole, for this user alone: a new file beside it, brought to the disk, then renamed over it.
///
/// # Errors
/// When it cannot be written; the old one is then as it was.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = Path::new(&name);
    // What a crash left behind is nobody's.
    if let Err(error) = std::fs::remove_file(new)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(new, path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(new)))
}
