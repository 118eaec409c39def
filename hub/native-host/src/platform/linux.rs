use std::io;
use std::os::unix::net::UnixStream;

/// The effective user of whoever listens on the other end (`SO_PEERCRED`).
pub(crate) fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw())
}
