//! `consentry`: lets AI agents work in your own Chrome, under your consent.

mod cli;
mod client;
mod commands;
mod embedded;
mod exit;
mod serve;
mod standalone;
mod stdio;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Whatever this program makes is its user's alone.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    cli::run()
}
