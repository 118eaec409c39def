//! `cargo xtask extension`: Rust → WebAssembly → an unpacked extension.
//!
//! The folder has no `key`: the extension's id is each install's own, and the hub writes it in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use wasm_bindgen_cli_support::Bindgen;

use crate::workspace;

const PACKAGE: &str = "consentry-extension";
const PROFILE: &str = "extension";
const TARGET: &str = "wasm32-unknown-unknown";

/// The folder below cargo's own; `extension/` there belongs to the profile of that name.
const FOLDER: &str = "unpacked-extension";

/// The generated module's name; the static files import it.
const GLUE: &str = "consentry";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to write it [default: unpacked-extension/ in cargo's target folder].
    #[arg(long)]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let out = args.out.unwrap_or_else(|| workspace::target().join(FOLDER));
    add_target()?;
    workspace::run(workspace::cargo().args([
        "build",
        "--quiet",
        "--package",
        PACKAGE,
        "--lib",
        "--profile",
        PROFILE,
        "--target",
        TARGET,
    ]))?;
    let built =
        workspace::target().join(TARGET).join(PROFILE).join(format!("{}.wasm", PACKAGE.replace('-', "_")));

    empty(&out)?;
    copy(&workspace::root().join("extension-rs/static"), &out)?;
    set_version(&out.join("manifest.json"))?;
    let wasm = bind(&built, &out)?;

    let size = size_of(&out)?;
    println!("{} ({} KB, of it {} KB WebAssembly)", out.display(), size / 1024, wasm / 1024);
    Ok(())
}

/// Installs the WebAssembly target where rustup is at hand; elsewhere the build itself says what is missing.
fn add_target() -> anyhow::Result<()> {
    let Ok(list) = Command::new("rustup").args(["target", "list", "--installed"]).output() else {
        return Ok(());
    };
    if String::from_utf8_lossy(&list.stdout).lines().any(|line| line == TARGET) {
        return Ok(());
    }
    workspace::run(Command::new("rustup").args(["target", "add", TARGET]))
}

/// Leaves an empty folder. Only a former extension is ever removed.
fn empty(out: &Path) -> anyhow::Result<()> {
    if out.exists() {
        let ours = out.join("manifest.json").exists() || fs::read_dir(out)?.next().is_none();
        ensure!(ours, "{} is not empty and holds no extension: name another folder", out.display());
        fs::remove_dir_all(out).with_context(|| format!("removing {}", out.display()))?;
    }
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("writing {}", target.display()))?;
        }
    }
    Ok(())
}

/// The workspace has one version, and a browser takes no extension without.
fn set_version(manifest: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(manifest).with_context(|| format!("reading {}", manifest.display()))?;
    let mut value: Value = serde_json::from_str(&text).context("manifest.json is not JSON")?;
    value["version"] = json!(env!("CARGO_PKG_VERSION"));
    fs::write(manifest, format!("{value:#}\n")).with_context(|| format!("writing {}", manifest.display()))
}

/// Writes the glue and the WebAssembly beside it as a module that holds base64: a service worker may neither
/// fetch it nor await it before its listeners have to stand.
fn bind(built: &Path, out: &Path) -> anyhow::Result<usize> {
    let mut output = Bindgen::new()
        .input_path(built)
        .out_name(GLUE)
        .web(true)?
        .typescript(false)
        .omit_default_module_path(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate_output()
        .with_context(|| format!("binding {}", built.display()))?;
    let wasm = output.wasm_mut().emit_wasm();
    fs::write(out.join(format!("{GLUE}.js")), output.js())?;
    fs::write(out.join("wasm.js"), format!("export default \"{}\";\n", STANDARD.encode(&wasm)))?;
    Ok(wasm.len())
}

fn size_of(folder: &Path) -> anyhow::Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        total += if meta.is_dir() { size_of(&entry.path())? } else { meta.len() };
    }
    Ok(total)
}
