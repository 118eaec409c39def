//! The consent dialog, a program of its own: it shows one question and says which button a real pointer clicked.
//!
//! - `consentry-dialog show` reads one [`DialogSpec`](consentry_wire::dialog::DialogSpec) as a JSON line from
//!   standard input and prints [`DialogEvent`](consentry_wire::dialog::DialogEvent)s as JSON lines; the last one is
//!   `closed`. When standard input ends, it goes away. A specification that is not one: a message, exit code 2.
//! - `consentry-dialog probe` prints whether a dialog could be shown now, as one JSON line.
//!
//! Invariants: no key event is ever selected, nothing is exposed to accessibility clients, no option answers, and
//! every failure is a denial. Where a posted click could not be told from a real one, no dialog is shown at all.

mod environment;
mod layout;
mod paint;
mod platform;
mod scene;
mod spec;
mod text;
mod theme;
mod verdict;

use std::io::{BufRead as _, Read as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use consentry_wire::dialog::DialogEvent;
use serde::Serialize;

/// A line of standard input longer than this is not a specification.
const LONGEST_SPEC: u64 = 4 * 1024 * 1024;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let result = match (arguments.next().as_deref(), arguments.next()) {
        (Some("show"), None) => show(),
        (Some("probe"), None) => print(&platform::probe()),
        _ => Err(anyhow::anyhow!("usage: consentry-dialog show | consentry-dialog probe")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The hub reads standard error into its log; if even that is gone, the exit code is left.
            drop(writeln!(std::io::stderr(), "consentry-dialog: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn show() -> anyhow::Result<()> {
    let spec = spec::parse(&read_line()?)?;
    let answer = platform::show(&spec, &mut |event| {
        if print(&event).is_err() {
            // Nobody hears the answer, and no answer is a denial.
            std::process::exit(1);
        }
    });
    print(&DialogEvent::Closed { answer })
}

fn read_line() -> anyhow::Result<String> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .take(LONGEST_SPEC)
        .read_line(&mut line)
        .context("cannot read the specification from standard input")?;
    if !line.ends_with('\n') {
        bail!("standard input ended within the specification");
    }
    Ok(line)
}

/// Calls `withdraw` when standard input ends. What else comes in is of no interest.
pub(crate) fn on_withdrawal(withdraw: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        // An error is an end like any other.
        drop(std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        withdraw();
    })?;
    Ok(())
}

fn print(message: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()?;
    Ok(())
}
