//! Notes for whoever debugs it, on standard error: the browser's own log. Standard output is the browser's.
//! A note never holds what a frame says.

use std::fmt;
use std::io::{self, Write as _};

/// Writes one line. That nobody reads it is no reason to stop.
pub(crate) fn note(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "consentry-native-host: {what}");
}

/// Notes the 1st, 2nd, 4th, 8th… of a thing that a peer can cause without end.
#[derive(Debug, Default)]
pub(crate) struct Counted(u64);

impl Counted {
    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.0 = self.0.saturating_add(1);
        if self.0.is_power_of_two() {
            note(format_args!("{what} (number {})", self.0));
        }
    }
}
