//! `cargo xtask link-darwin`: links the programs for macOS with no Apple software at hand.
//!
//! The linker is Rust's own, and what it links against are stubs that list exactly the symbols we use of each
//! library. One that is not listed fails the link and is named by it. Nothing here says that a program starts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use crate::commands::build::PROGRAMS;
use crate::machine;
use crate::say::{say, step};
use crate::workspace;

/// Both kinds of Mac, the one that is sold first.
pub(crate) const TARGETS: &[&str] = &["aarch64-apple-darwin", "x86_64-apple-darwin"];

/// What each program uses of the system, beside what the others do.
const SYMBOLS: &[&str] = &["helpers/dialog/macos/symbols.json", "install/xtask/darwin/symbols.json"];

/// The oldest macOS that the programs are built for.
const OLDEST: &str = "13.0";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Optimised.
    #[arg(long)]
    release: bool,
}

/// A library of the system.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Library {
    /// Where the linker looks for it, below the folder of stubs.
    stub: PathBuf,
    /// Further names of the same library.
    #[serde(default)]
    also: Vec<PathBuf>,
    /// Where a Mac has it.
    install_name: String,
    symbols: BTreeSet<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    link(args.release)
}

/// Links every program for every target.
pub(crate) fn link(release: bool) -> anyhow::Result<()> {
    machine::need_targets(TARGETS)?;
    let stubs = workspace::target().join("darwin-stubs");
    write_stubs(&stubs)?;
    for target in TARGETS {
        step(&format!("Linking for {target}"), || link_for(target, release, &stubs))?;
        let folder = workspace::target().join(target).join(if release { "release" } else { "debug" });
        for name in PROGRAMS {
            say(format_args!("    {}", folder.join(name).display()));
        }
    }
    Ok(())
}

fn link_for(target: &str, release: bool, stubs: &Path) -> anyhow::Result<()> {
    let variable = target.to_uppercase().replace('-', "_");
    let flags = [
        "linker-flavor=ld64.lld",
        "link-arg=--error-limit=0",
        "link-arg=-syslibroot",
        &format!("link-arg={}", stubs.display()),
    ]
    .map(|flag| format!("-C{flag}"))
    .join("\x1f");
    let mut command = workspace::cargo(["build", "--target", target]);
    command
        .env(format!("CARGO_TARGET_{variable}_LINKER"), "rust-lld")
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .env("SDKROOT", stubs)
        .env("MACOSX_DEPLOYMENT_TARGET", OLDEST);
    for name in PROGRAMS {
        command.args(["--package", name]);
    }
    if release {
        command.arg("--release");
    }
    workspace::run(&mut command)
        .context("if the linker names undefined symbols that are right, add them to a symbols.json")
}

fn write_stubs(folder: &Path) -> anyhow::Result<()> {
    let mut libraries: BTreeMap<String, Library> = BTreeMap::new();
    for place in SYMBOLS {
        let text = fs::read_to_string(workspace::root().join(place))
            .with_context(|| format!("cannot read {place}"))?;
        let read: BTreeMap<String, Library> =
            serde_json::from_str(&text).with_context(|| format!("cannot read {place}"))?;
        for (name, library) in read {
            match libraries.get_mut(&name) {
                Some(known) => known.symbols.extend(library.symbols),
                None => drop(libraries.insert(name, library)),
            }
        }
    }
    for library in libraries.values() {
        let text = library.stub_text()?;
        for stub in std::iter::once(&library.stub).chain(&library.also) {
            let place = folder.join(stub);
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&place, &text).with_context(|| format!("cannot write {}", place.display()))?;
        }
    }
    Ok(())
}

impl Library {
    /// A text-based stub, version 4, as Apple's linkers and LLVM's read it.
    fn stub_text(&self) -> anyhow::Result<String> {
        const TARGETS: &str = "[ x86_64-macos, arm64-macos ]";
        const CLASS: &str = "_OBJC_CLASS_$_";
        let (classes, symbols): (Vec<&str>, Vec<&str>) =
            self.symbols.iter().map(String::as_str).partition(|symbol| symbol.starts_with(CLASS));
        let mut text = String::from("--- !tapi-tbd\ntbd-version:     4\n");
        writeln!(text, "targets:         {TARGETS}\ninstall-name:    '{}'", self.install_name)?;
        if !self.symbols.is_empty() {
            writeln!(text, "exports:\n  - targets:         {TARGETS}")?;
        }
        if !symbols.is_empty() {
            let quoted: Vec<String> = symbols.iter().map(|symbol| format!("'{symbol}'")).collect();
            writeln!(text, "    symbols:         [ {} ]", quoted.join(", "))?;
        }
        if !classes.is_empty() {
            let names: Vec<&str> = classes.iter().filter_map(|class| class.strip_prefix(CLASS)).collect();
            writeln!(text, "    objc-classes:    [ {} ]", names.join(", "))?;
        }
        text.push_str("...\n");
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_lists_symbols_and_classes_apart() {
        let library = Library {
            stub: "usr/lib/libx.tbd".into(),
            also: Vec::new(),
            install_name: "/usr/lib/libx.dylib".to_owned(),
            symbols: ["_b", "_OBJC_CLASS_$_Window", "_a"].map(str::to_owned).into(),
        };
        let text = library.stub_text().unwrap();
        assert!(text.contains("symbols:         [ '_a', '_b' ]"), "{text}");
        assert!(text.contains("objc-classes:    [ Window ]"), "{text}");
        assert!(text.contains("install-name:    '/usr/lib/libx.dylib'"), "{text}");
    }
}
