//! The dialog as a process on a real X server, under a window manager, with a real pointer and real attackers.
#![cfg(target_os = "linux")]

mod answers;
mod attacks;
mod support;
