//! The kernel's word on who is on the other end.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(target_os = "linux")]
pub(crate) use linux::peer_user;
#[cfg(target_os = "macos")]
pub(crate) use macos::peer_user;
