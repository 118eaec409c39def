//! The whole of it at work, on a machine where nothing is installed: `cargo xtask demo` builds and runs it.
//!
//! Everything is scratch: the state folder, the ports, the browser's profile. Nothing of the owner's is touched,
//! and all of it ends with this process, however that ends short of `kill -9`.

mod shots;
mod stage;
mod walk;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use consentry_demo::{Report, say};

#[derive(Parser)]
#[command(name = "cargo xtask demo")]
pub(crate) struct Args {
    /// Where the built programs are.
    #[arg(long)]
    programs: PathBuf,
    /// On a screen that nobody sees, with a scripted hand.
    #[arg(long = "virtual")]
    virtual_screen: bool,
    /// Ends with one line of JSON.
    #[arg(long)]
    json: bool,
    /// Keeps pictures here.
    #[arg(long)]
    shots: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let mut report = Report::default();
    // A dropped future takes down what it had started.
    let outcome = tokio::select! {
        outcome = walk::walk(&args, &mut report) => outcome,
        () = interrupted() => Err(anyhow::anyhow!("interrupted")),
    };
    report.ok = outcome.is_ok();
    if let Err(error) = &outcome {
        let step = report.steps.last().filter(|step| !step.ok).map_or("the start", |step| step.name);
        say(format_args!("\nThe demo stopped at {step}: {error:#}"));
        say(next(args.virtual_screen));
    }
    if args.json {
        match serde_json::to_string(&report) {
            Ok(line) => say(line),
            Err(error) => say(format_args!("{{\"ok\":false,\"error\":\"{error}\"}}")),
        }
    }
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What whoever sees it fail can do.
fn next(virtual_screen: bool) -> &'static str {
    if virtual_screen {
        "Run it again with CONSENTRY_LOG=debug to see more of the hub's log; if it says so again, it is a fault of ours: please report the text above."
    } else {
        "Run it again and click Allow in each dialog, or let a scripted hand do it on a screen of its own: cargo xtask demo --virtual"
    }
}

async fn interrupted() {
    let Ok(mut terminated) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}
