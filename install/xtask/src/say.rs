//! What a command tells the person who ran it.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Instant;

/// Prints a line. A reader that went away ends the program quietly, as it should.
pub(crate) fn say(text: impl Display) {
    if writeln!(io::stdout(), "{text}").is_err() {
        std::process::exit(0);
    }
}

/// Says what is done now, runs it, and says how long it took.
pub(crate) fn step<T>(what: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let (on, off) = if io::stdout().is_terminal() { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    say(format_args!("{on}==> {what}{off}"));
    let start = Instant::now();
    let outcome = work()?;
    let took = start.elapsed().as_secs_f32();
    // What took no time needs no word.
    if took >= 1.0 {
        say(format_args!("    done in {took:.0} s"));
    }
    Ok(outcome)
}
