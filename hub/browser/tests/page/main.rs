//! The page script in a real Chromium: what it reads, what its refs promise, where it says to act.

mod act;
mod harness;
mod outline;
mod refs;
mod watch;
