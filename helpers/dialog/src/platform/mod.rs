//! What differs between systems, behind two functions: `show` and `probe`.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
#[expect(unsafe_code, reason = "AppKit and Core Graphics are C and Objective-C")]
mod macos;

#[cfg(target_os = "linux")]
pub(crate) use linux::{probe, show};
#[cfg(target_os = "macos")]
pub(crate) use macos::{probe, show};
