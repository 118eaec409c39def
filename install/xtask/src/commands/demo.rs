//! `cargo xtask demo`: the whole of it at work, on a machine where nothing is installed yet.

use std::path::PathBuf;
use std::process::Command;

use crate::commands::build;
use crate::machine::{self, WINDOW_MANAGER, X_SERVER};
use crate::say::{say, step};
use crate::workspace;

const PACKAGE: &str = "consentry-demo";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ends with one line of JSON.
    #[arg(long)]
    json: bool,
    /// Keeps pictures of the dialog, the page and the status page in this folder.
    #[arg(long, value_name = "DIR")]
    shots: Option<PathBuf>,
    /// On a virtual screen, with a scripted hand, even where there is a desktop.
    #[arg(long = "virtual")]
    virtual_screen: bool,
    /// Optimised: the first build takes longer, and the figures are those that count.
    #[arg(long)]
    release: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let desktop = !args.virtual_screen && has_desktop();
    let chromium = machine::need_chromium()?;
    if !desktop {
        machine::need(&[X_SERVER, WINDOW_MANAGER])?;
    }
    let example = ["--package", PACKAGE, "--example", "demo"];
    let programs = if args.release {
        let programs = build::build(true)?;
        step("Building the demo", || workspace::run(workspace::cargo(["build"]).args(example)))?;
        programs
    } else {
        build::build_workspace(&["--bins", "--example", "demo"])?
    };
    say("==> Showing it");
    let mut demo = Command::new(workspace::programs(false).join("examples/demo"));
    demo.env(chromium.0, chromium.1).arg("--programs").arg(programs);
    if !desktop {
        demo.arg("--virtual");
    }
    if args.json {
        demo.arg("--json");
    }
    if let Some(shots) = args.shots {
        demo.arg("--shots").arg(std::path::absolute(shots)?);
    }
    workspace::run(&mut demo)
}

/// Whether a person sits before a screen that a window can be shown on.
fn has_desktop() -> bool {
    if cfg!(target_os = "macos") {
        // Over SSH there is nobody to click.
        return std::env::var_os("SSH_CONNECTION").is_none();
    }
    let Some(display) = std::env::var("DISPLAY").ok().filter(|display| !display.is_empty()) else {
        return false;
    };
    let Some((host, number)) = display.rsplit_once(':') else { return false };
    let number = number.split('.').next().unwrap_or(number);
    if host.is_empty() {
        return std::os::unix::net::UnixStream::connect(format!("/tmp/.X11-unix/X{number}")).is_ok();
    }
    let port = number.parse::<u16>().ok().and_then(|number| number.checked_add(6000));
    port.is_some_and(|port| std::net::TcpStream::connect((host, port)).is_ok())
}
