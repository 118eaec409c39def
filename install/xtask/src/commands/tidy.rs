//! `cargo xtask tidy`: what no test of behaviour sees.

use anyhow::bail;

use crate::checks::{dependencies, layers, tree};
use crate::commands::{extension, link_darwin};
use crate::machine::{self, WASM};
use crate::say::{say, step};
use crate::workspace;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Lints for both kinds of Mac, and links for them.
    #[arg(long)]
    slow: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    check(args.slow)?;
    say("Tidy.");
    Ok(())
}

/// All of it; the quick ones first.
pub(crate) fn check(slow: bool) -> anyhow::Result<()> {
    step("Checking the format", || workspace::run(&mut workspace::cargo(["fmt", "--all", "--check"])))?;
    step("Checking layers, licences, versions and sizes", rules)?;
    lint("this machine", &["--workspace", "--all-targets"])?;
    machine::need_targets(&[WASM])?;
    lint("the browser", &["--target", WASM, "-p", "consentry-wire", "-p", extension::PACKAGE])?;
    let macs = if slow { link_darwin::TARGETS } else { &link_darwin::TARGETS[..1] };
    machine::need_targets(macs)?;
    for target in macs {
        let excluded = ["--exclude", extension::PACKAGE, "--exclude", "xtask"];
        lint(target, &[&["--target", target, "--workspace"], excluded.as_slice()].concat())?;
    }
    if slow {
        link_darwin::link(false)?;
    }
    Ok(())
}

fn lint(what: &str, args: &[&str]) -> anyhow::Result<()> {
    step(&format!("Linting for {what}"), || {
        let mut command = workspace::cargo(["clippy"]);
        workspace::run(command.args(args).args(["--", "-D", "warnings"]))
    })
}

fn rules() -> anyhow::Result<()> {
    let faults = [layers::check()?, dependencies::check()?, tree::top()?, tree::javascript()?].concat();
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{}", faults.join("\n  "))
}
