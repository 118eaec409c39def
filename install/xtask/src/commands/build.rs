//! `cargo xtask build`: everything, in the order in which one part takes in another.

use std::path::{Path, PathBuf};

use crate::commands::extension;
use crate::say::{say, step};
use crate::workspace;

/// The programs. The hub looks for the other two beside itself.
pub(crate) const PROGRAMS: &[&str] = &["consentry", "consentry-native-host", "consentry-dialog"];

/// The whole workspace but for this program, which is running.
pub(crate) const WORKSPACE: &[&str] = &["--workspace", "--exclude", "xtask"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Optimised: takes longer, and is what to install.
    #[arg(long)]
    release: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let folder = build(args.release)?;
    for name in PROGRAMS {
        let program = folder.join(name);
        say(format_args!("{} ({:.1} MB)", program.display(), megabytes(&program)));
    }
    say(format_args!("Next: {} setup", folder.join("consentry").display()));
    Ok(())
}

/// Builds the extension, then the programs, the hub with the extension inside. Returns their folder.
pub(crate) fn build(release: bool) -> anyhow::Result<PathBuf> {
    build_extension()?;
    let what = if release { "Building the programs, optimised" } else { "Building the programs" };
    step(what, || {
        let mut command = workspace::cargo(["build"]);
        for name in PROGRAMS {
            command.args(["--package", name]);
        }
        if release {
            command.arg("--release");
        }
        workspace::run(&mut command)
    })?;
    Ok(workspace::programs(release))
}

/// Builds the extension, then these targets of the whole workspace, programs among them. Returns the programs' folder.
///
/// Cargo decides over all that it builds at once which features a dependency has. Taking the whole workspace each
/// time means that tests and demo find each other's dependencies built.
pub(crate) fn build_workspace(targets: &[&str]) -> anyhow::Result<PathBuf> {
    build_extension()?;
    step("Building everything", || {
        workspace::run(workspace::cargo(["build"]).args(WORKSPACE).args(targets))
    })?;
    Ok(workspace::programs(false))
}

fn build_extension() -> anyhow::Result<()> {
    step("Building the extension", || extension::build(&extension::folder()))
}

fn megabytes(file: &Path) -> f64 {
    file.metadata().map_or(0.0, |meta| meta.len() as f64 / 1e6)
}
