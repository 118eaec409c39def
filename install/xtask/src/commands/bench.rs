//! `cargo xtask bench`: what was promised, measured beside its peers.

use std::process::Command;

use crate::commands::build;
use crate::machine::{self, NPM};
use crate::say::{say, step};
use crate::workspace;

const PACKAGE: &str = "consentry-bench";

#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// The browser path: calls, outlines, clicks, start-up and memory
    Browser(Args),
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ends with one line of JSON.
    #[arg(long)]
    json: bool,
    /// Measures only Consentry, without fetching its peers.
    #[arg(long)]
    alone: bool,
}

pub(crate) fn run(bench: Bench) -> anyhow::Result<()> {
    match bench {
        Bench::Browser(args) => browser(args),
    }
}

fn browser(args: Args) -> anyhow::Result<()> {
    let chromium = machine::need_chromium()?;
    if cfg!(target_os = "linux") {
        machine::need(&[machine::X_SERVER, machine::WINDOW_MANAGER])?;
    }
    if !args.alone {
        machine::need(&[NPM])?;
    }
    let programs = build::build(true)?;
    step("Building the bench", || {
        workspace::run(&mut workspace::cargo([
            "build",
            "--release",
            "--package",
            PACKAGE,
            "--example",
            "browser",
        ]))
    })?;
    say("==> Measuring");
    let mut bench = Command::new(workspace::programs(true).join("examples/browser"));
    bench.env(chromium.0, chromium.1).arg("--programs").arg(programs);
    if args.json {
        bench.arg("--json");
    }
    if args.alone {
        bench.arg("--alone");
    } else {
        bench.arg("--peers").arg(workspace::target().join("bench-peers"));
    }
    workspace::run(&mut bench)
}
