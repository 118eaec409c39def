//! `cargo xtask test`: installs what the tests need, builds everything and runs every test.

use std::process::Command;

use anyhow::bail;

use crate::commands::{build, tidy};
use crate::machine::{self, BUS, NPM, PS, PYTHON, WINDOW_MANAGER, X_SERVER, XDOTOOL};
use crate::say::{say, step};
use crate::workspace;

/// Tells the tests that those which take minutes run too.
const SLOW: &str = "CONSENTRY_SLOW";

/// Clients and suites that are not ours, the official conformance suite among them.
const CONFORMANCE: &str = "tests/conformance/run.sh";

/// The tests of the whole.
const END_TO_END: &str = "e2e";

/// By a filter, since leaving packages out would build the others anew with other features.
const BUT_END_TO_END: &str = "not package(consentry-e2e)";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also the tests that take minutes, the conformance suite, and everything that `tidy --slow` looks at.
    #[arg(long)]
    slow: bool,
    /// Which tests, as nextest or cargo take it.
    #[arg(last = true)]
    filter: Vec<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    machine::need(if cfg!(target_os = "linux") {
        &[X_SERVER, WINDOW_MANAGER, XDOTOOL, BUS, PS]
    } else {
        &[]
    })?;
    let chromium = machine::need_chromium()?;
    build::build_workspace(&["--all-targets"])?;
    let slow = if args.slow { "1" } else { "" };
    let cargo = |words: &[&str]| {
        let mut command = workspace::cargo(words);
        command.env(chromium.0, &chromium.1).env(SLOW, slow);
        command
    };
    if args.slow {
        tidy::check(true)?;
        let script = workspace::root().join(CONFORMANCE);
        if script.exists() {
            machine::need(&[NPM, PYTHON])?;
            let mut suite = Command::new("bash");
            suite.arg(&script).current_dir(workspace::root()).env(chromium.0, &chromium.1).env(SLOW, slow);
            step("Running clients and suites that are not ours", || workspace::run(&mut suite))?;
        }
    }
    step("Checking the repository's own rules", || {
        workspace::run(&mut cargo(&["test", "--quiet", "-p", "xtask"]))
    })?;
    // One after the other whatever comes of them, and the most last: its summary is what a person, or a machine,
    // looks for.
    let nextest = machine::has_cargo_command("nextest");
    let mut suites = Vec::new();
    if nextest {
        let mut examples = cargo(&["test", "--quiet", "--doc"]);
        examples.args(build::WORKSPACE);
        suites.push(("the examples in the documentation", examples));
        // Its tests share browsers within one process, and nextest would give each a process.
        let mut end_to_end = cargo(&["test", "--test", END_TO_END]);
        end_to_end.args(build::WORKSPACE).arg("--").args(&args.filter);
        suites.push(("the whole way, end to end", end_to_end));
        let mut tests = cargo(&["nextest", "run"]);
        tests.args(build::WORKSPACE).args(["-E", BUT_END_TO_END]).args(&args.filter);
        suites.push(("the tests", tests));
    } else {
        say("    (`cargo install cargo-nextest` would make this quicker)");
        let mut tests = cargo(&["test", "--no-fail-fast"]);
        tests.args(build::WORKSPACE).arg("--").args(&args.filter);
        suites.push(("the tests", tests));
    }
    let mut failed = Vec::new();
    for (name, mut suite) in suites {
        say(format_args!("==> Running {name}"));
        if let Err(error) = workspace::run(&mut suite) {
            failed.push(format!("{name}: {error:#}"));
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n  "));
    }
    Ok(())
}
