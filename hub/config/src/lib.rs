//! The owner's settings, the approved copy, keys, decisions and the kill switch, all as files of the state folder.
//!
//! Invariants:
//! - A configuration is taken whole or not at all: a wrong key or value is refused with its line and what is
//!   allowed, and what was in force stays in force.
//! - What is weaker than the approved copy does not hold before the owner has clicked for it ([`Settings::tighten`]).
//! - Every file is written whole (a new file, then a rename), mode 0600, in a folder of mode 0700.
//! - Paths, ports and environment variables are declared here and nowhere else.
//!
//! It must never hold a key itself, only its digest.

mod decisions;
mod keys;
mod paths;
mod read;
mod settings;
mod switch;
mod watch;
mod weaker;
mod write;

pub use decisions::Decisions;
pub use keys::{KeyFile, KeyStore, KeyStoreError, Keys, NewKey};
pub use paths::{Home, HomeError, env};
pub use read::read_text;
pub use settings::{ConfigError, PathSettings, Settings, TimeoutRule};
pub use switch::SwitchFile;
pub use watch::watch;
pub use weaker::Weakening;
pub use write::write_private;
