//! What the machine has to have. On Debian as root it is installed; elsewhere a person is told what to install.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::say::{say, step};
use crate::workspace;

/// What the extension is compiled to.
pub(crate) const WASM: &str = "wasm32-unknown-unknown";

/// Names the browser to run, for tests and for the demo.
const CHROMIUM: &str = "CONSENTRY_CHROMIUM";

/// A program that something needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// What it is called on the PATH; any of them will do.
    names: &'static [&'static str],
    /// Debian's package.
    package: &'static str,
}

/// An X server whose pointer a program can hold as a person holds a mouse.
pub(crate) const X_SERVER: Program = Program { names: &["Xtigervnc"], package: "tigervnc-standalone-server" };
/// A light window manager.
pub(crate) const WINDOW_MANAGER: Program = Program { names: &["icewm"], package: "icewm" };
/// Posts clicks and keys, which the dialog has to refuse.
pub(crate) const XDOTOOL: Program = Program { names: &["xdotool"], package: "xdotool" };
/// A bus of a test's own, for notifications.
pub(crate) const BUS: Program = Program { names: &["dbus-daemon"], package: "dbus-daemon" };
/// Says how much memory a process takes.
pub(crate) const PS: Program = Program { names: &["ps"], package: "procps" };
/// Brings and runs programs that are not ours, to test and measure with.
pub(crate) const NPM: Program = Program { names: &["npm"], package: "npm" };
/// Likewise.
pub(crate) const PYTHON: Program = Program { names: &["python3"], package: "python3-venv" };
const BROWSER: Program = Program { names: &["chromium", "chromium-browser"], package: "chromium" };

/// Where Chromium is when it is on no PATH.
const CHROMIUM_APP: &str = "/Applications/Chromium.app/Contents/MacOS/Chromium";

/// Sees to it that programs are there.
pub(crate) fn need(programs: &[Program]) -> anyhow::Result<()> {
    let missing: Vec<Program> =
        programs.iter().copied().filter(|program| find(program.names).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    if !Path::new("/etc/debian_version").exists() {
        let names: Vec<&str> = missing.iter().filter_map(|program| program.names.first().copied()).collect();
        bail!("missing on this machine: {}. Install them, then run this again", names.join(", "));
    }
    if !is_root() {
        bail!(
            "missing on this machine: run `sudo apt-get install {}`, then run this again",
            packages.join(" ")
        );
    }
    step(&format!("Installing {}", packages.join(", ")), || install(&packages))
}

/// Sees to it that Chromium is there, and returns the variable that names it to whatever starts it.
pub(crate) fn need_chromium() -> anyhow::Result<(&'static str, PathBuf)> {
    if let Some(named) = std::env::var_os(CHROMIUM).filter(|name| !name.is_empty()) {
        let named = PathBuf::from(named);
        if !named.exists() {
            bail!("{CHROMIUM} names {}, which does not exist", named.display());
        }
        return Ok((CHROMIUM, named));
    }
    if cfg!(target_os = "macos") {
        let app = PathBuf::from(CHROMIUM_APP);
        if app.exists() {
            return Ok((CHROMIUM, app));
        }
        bail!(
            "Chromium is needed, as Chrome itself takes no extension from a command line: install it in \
            /Applications, or set {CHROMIUM} to its program"
        );
    }
    need(&[BROWSER])?;
    let found = find(BROWSER.names).context("chromium was installed but is not on the PATH")?;
    Ok((CHROMIUM, found))
}

/// Adds targets where rustup is at hand; elsewhere the build itself says what is missing.
pub(crate) fn need_targets(targets: &[&str]) -> anyhow::Result<()> {
    let Ok(list) = Command::new("rustup").args(["target", "list", "--installed"]).output() else {
        return Ok(());
    };
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    for target in targets {
        if !list.lines().any(|line| line == *target) {
            step(&format!("Adding the target {target}"), || {
                workspace::run(Command::new("rustup").args(["target", "add", target]))
            })?;
        }
    }
    Ok(())
}

/// Whether a subcommand of cargo is installed.
pub(crate) fn has_cargo_command(name: &str) -> bool {
    find(&[&format!("cargo-{name}")]).is_some()
}

fn install(packages: &[&str]) -> anyhow::Result<()> {
    let apt = |args: &[&str]| {
        workspace::run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").arg("-q").args(args))
    };
    // An old list names packages that are no longer served. Without any, installing still may work.
    if let Err(error) = apt(&["update"]) {
        say(format_args!("    {error:#}; going on"));
    }
    apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|place| place.is_file())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == "0")
}
