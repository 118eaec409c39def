//! The one switch between platforms.

#[cfg(not(target_os = "macos"))]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(not(target_os = "macos"))]
pub(crate) use linux::Desktop;
#[cfg(target_os = "macos")]
pub(crate) use macos::Desktop;
