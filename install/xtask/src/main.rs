//! `cargo xtask …`: everything that a person would otherwise have to remember, one file per command.
#![expect(clippy::print_stdout, reason = "a command's output is for the person who ran it")]

mod commands;
mod workspace;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds the browser extension as an unpacked folder.
    Extension(commands::extension::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Extension(args) => commands::extension::run(args),
    }
}
