//! `cargo xtask extension`: Rust → WebAssembly → an unpacked extension.
//!
//! The folder has no `key`: the extension's id is each install's own, and the hub writes it in.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use wasm_bindgen_cli_support::Bindgen;

use crate::machine::{WASM as TARGET, need_targets};
use crate::say::say;
use crate::workspace;

pub(crate) const PACKAGE: &str = "consentry-extension";
const PROFILE: &str = "extension";

/// The folder below cargo's own; `extension/` there belongs to the profile of that name.
const FOLDER: &str = "unpacked-extension";

/// The generated module's name; the static files import it.
const GLUE: &str = "consentry";

const MANIFEST: &str = "manifest.json";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to write it [default: unpacked-extension/ in cargo's target folder].
    #[arg(long)]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    build(&args.out.unwrap_or_else(folder))
}

/// Where it goes unless told otherwise; the hub's own build takes it from there.
pub(crate) fn folder() -> PathBuf {
    workspace::target().join(FOLDER)
}

/// Compiles it and writes it there. What has not changed stays as it was, so that the hub is not built again.
pub(crate) fn build(out: &Path) -> anyhow::Result<()> {
    need_targets(&[TARGET])?;
    workspace::run(&mut workspace::cargo([
        "build",
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

    let mut files = Files::default();
    files.collect(&workspace::root().join("extension-rs/static"), Path::new(""))?;
    files.set_version()?;
    let wasm = files.bind(&built)?;
    files.write(out)?;
    let size = files.0.values().map(Vec::len).sum::<usize>();
    say(format_args!("    {} ({} KB, of it {} KB WebAssembly)", out.display(), size / 1024, wasm / 1024));
    Ok(())
}

/// What the extension consists of, by its path in the folder.
#[derive(Default)]
struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    fn collect(&mut self, from: &Path, below: &Path) -> anyhow::Result<()> {
        for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
            let entry = entry?;
            let name = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.collect(&entry.path(), &name)?;
            } else {
                self.0.insert(name, fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    /// The workspace has one version, and a browser takes no extension without.
    fn set_version(&mut self) -> anyhow::Result<()> {
        let manifest = self.0.get_mut(Path::new(MANIFEST)).context("the extension has no manifest")?;
        let mut value: Value = serde_json::from_slice(manifest).context("manifest.json is not JSON")?;
        value["version"] = json!(env!("CARGO_PKG_VERSION"));
        *manifest = format!("{value:#}\n").into_bytes();
        Ok(())
    }

    /// Adds the glue and the WebAssembly beside it as a module that holds base64: a service worker may neither
    /// fetch it nor await it before its listeners have to stand.
    fn bind(&mut self, built: &Path) -> anyhow::Result<usize> {
        let mut output = Bindgen::new()
            .input_path(built)
            .out_name(GLUE)
            .web(true)?
            .typescript(false)
            .omit_default_module_path(true)
            .remove_name_section(true)
            .remove_producers_section(true)
            .generate_output()
            .with_context(|| format!("cannot bind {}", built.display()))?;
        let wasm = output.wasm_mut().emit_wasm();
        self.0.insert(format!("{GLUE}.js").into(), output.js().as_bytes().to_vec());
        let module = format!("export default \"{}\";\n", STANDARD.encode(&wasm));
        self.0.insert("wasm.js".into(), module.into_bytes());
        Ok(wasm.len())
    }

    fn write(&self, out: &Path) -> anyhow::Result<()> {
        let ours = !out.exists() || out.join(MANIFEST).exists() || fs::read_dir(out)?.next().is_none();
        ensure!(ours, "{} is not empty and holds no extension: name another folder", out.display());
        for (name, content) in &self.0 {
            let place = out.join(name);
            if fs::read(&place).is_ok_and(|old| old == *content) {
                continue;
            }
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&place, content).with_context(|| format!("cannot write {}", place.display()))?;
        }
        self.remove_others(out, Path::new(""))
    }

    /// What an earlier build left would be loaded with the rest.
    fn remove_others(&self, out: &Path, below: &Path) -> anyhow::Result<()> {
        for entry in fs::read_dir(out.join(below))? {
            let entry = entry?;
            let name = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.remove_others(out, &name)?;
            } else if !self.0.contains_key(&name) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}
