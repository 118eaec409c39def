//! Reading a file that may be anything.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// No file of ours is longer.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Reads a text file. Whoever can put something in its place, such as a pipe that nobody writes to, must not be able to
/// hold up the hub.
///
/// # Errors
/// When there is none, it is no regular file, is far too long or is no text.
pub fn read_text(path: &Path) -> io::Result<String> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let refuse = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
    if !file.metadata()?.is_file() {
        return refuse("it is no regular file");
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST { refuse("it is longer than 4 MiB") } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        for place in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            assert!(read_text(place).is_err(), "{}", place.display());
        }
        let file = folder.path().join("file");
        std::fs::write(&file, "a = 1").unwrap();
        assert_eq!(read_text(&file).unwrap(), "a = 1");
    }
}
