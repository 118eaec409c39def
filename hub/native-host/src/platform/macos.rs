use std::io;
use std::os::unix::net::UnixStream;

/// The effective user of whoever listens on the other end (`getpeereid`).
pub(crate) fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    let (user, _) = nix::unistd::getpeereid(stream)?;
    Ok(user.as_raw())
}
