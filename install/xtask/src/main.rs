//! `cargo xtask …`: everything that a person would otherwise have to remember, one file per command.

mod checks;
mod commands;
mod machine;
mod metadata;
mod say;
mod workspace;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds everything: the extension, the hub, its relay and its dialog
    Build(commands::build::Args),
    /// Shows the whole of it at work: an agent asks, you allow, a real browser is driven, and it is ended
    Demo(commands::demo::Args),
    /// Installs what the tests need, builds everything and runs every test
    Test(commands::test::Args),
    /// Formatting, lints on every platform, licences, layers and sizes
    Tidy(commands::tidy::Args),
    /// Measures what was promised, beside its peers
    #[command(subcommand)]
    Bench(commands::bench::Bench),
    /// Builds the browser extension as an unpacked folder
    Extension(commands::extension::Args),
    /// Links the programs for macOS against stubs of the system's libraries
    LinkDarwin(commands::link_darwin::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Build(args) => commands::build::run(args),
        Command::Demo(args) => commands::demo::run(args),
        Command::Test(args) => commands::test::run(args),
        Command::Tidy(args) => commands::tidy::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Extension(args) => commands::extension::run(args),
        Command::LinkDarwin(args) => commands::link_darwin::run(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
