//! The command line.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::client::NotRunning;
use crate::{commands, exit};

#[derive(Debug, Parser)]
#[command(
    name = "consentry",
    version,
    about,
    after_help = "Exit codes: 0 well, 1 failed, 2 wrong command line, \
    3 the hub is not running, 4 something needs attention.\nState lies in ~/.consentry, or where CONSENTRY_HOME says."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// For scripts.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// Prints JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prepares the state folder, a first configuration and the extension
    Setup(commands::setup::Setup),
    /// Runs the hub
    Serve(commands::serve::Serve),
    /// Serves one path on standard input and output, for clients that start their servers themselves
    Stdio(commands::stdio::Stdio),
    /// Says what is going on
    Status(commands::status::Status),
    /// Opens the status page
    Open(commands::open::Open),
    /// Disables everything, at once and until you enable it
    Disable(commands::disable::Disable),
    /// Enables control again
    Enable(commands::enable::Enable),
    /// Ends one grant, those of a path, or all
    Kill(commands::kill::Kill),
    /// Adds, lists, revokes and rotates keys
    #[command(subcommand)]
    Key(commands::key::Key),
    /// Lists and forgets the sites that you allowed for good
    #[command(subcommand)]
    Site(commands::site::Site),
    /// Shows or does what an agent's program needs in order to reach the hub
    Connect(commands::connect::Connect),
    /// The browser extension: where it lies, its token, its registration with browsers
    #[command(subcommand)]
    Extension(commands::extension::Extension),
    /// Shows, follows and verifies the audit
    Audit(commands::audit::Audit),
    /// Shows what one session did
    Log(commands::log::Log),
    /// Says what is wrong and the command that mends it
    Doctor(commands::doctor::Doctor),
    /// Prints completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Reads the command line and runs what it says.
pub(crate) fn run() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Setup(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::Stdio(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Open(command) => command.run(),
        Command::Disable(command) => command.run(),
        Command::Enable(command) => command.run(),
        Command::Kill(command) => command.run(),
        Command::Key(command) => command.run(),
        Command::Site(command) => command.run(),
        Command::Connect(command) => command.run(),
        Command::Extension(command) => command.run(),
        Command::Audit(command) => command.run(),
        Command::Log(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "consentry", &mut std::io::stdout());
            Ok(exit::code(exit::OK))
        }
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            // Standard error may be closed; there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "consentry: {error:#}");
            let not_running = error.chain().any(|cause| cause.is::<NotRunning>());
            exit::code(if not_running { exit::NOT_RUNNING } else { exit::FAILED })
        }
    }
}

/// Prints lines for people. A closed pipe ends the program quietly, as it should.
pub(crate) fn say(text: impl std::fmt::Display) {
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(0);
    }
}

/// So many grants, in words.
pub(crate) fn grants(count: &serde_json::Value) -> String {
    match count.as_u64() {
        Some(1) => "1 grant".to_owned(),
        _ => format!("{count} grants"),
    }
}

/// Runs something asynchronous on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
