//! Who is on the other end of a socket.

#[cfg(not(target_os = "macos"))]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(not(target_os = "macos"))]
pub use linux::parent_program;
#[cfg(target_os = "macos")]
pub use macos::parent_program;

use tokio::net::UnixStream;

/// A peer by the kernel's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process, where the system says.
    pub pid: Option<i32>,
}

impl Peer {
    /// Asks the kernel.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn of(stream: &UnixStream) -> std::io::Result<Self> {
        let credentials = stream.peer_cred()?;
        Ok(Self { uid: credentials.uid(), pid: credentials.pid() })
    }

    /// Whether it is this very user.
    pub fn is_ours(self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }
}
