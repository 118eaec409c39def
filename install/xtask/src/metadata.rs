//! What cargo knows about the workspace, as far as the checks need it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use crate::workspace;

#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    /// None for what lies in this workspace.
    pub(crate) source: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// None for a normal one.
    pub(crate) kind: Option<String>,
    /// None for what comes from elsewhere.
    pub(crate) path: Option<PathBuf>,
}

impl Metadata {
    /// The workspace's own packages.
    pub(crate) fn of_workspace() -> anyhow::Result<Self> {
        Self::read(&["--no-deps"])
    }

    /// With everything that they need on any platform, tests included.
    pub(crate) fn with_dependencies() -> anyhow::Result<Self> {
        Self::read(&[])
    }

    fn read(args: &[&str]) -> anyhow::Result<Self> {
        let mut command = workspace::cargo(["metadata", "--format-version", "1", "--quiet"]);
        let output = workspace::output(command.args(args))?;
        serde_json::from_slice(&output).context("cannot read what `cargo metadata` says")
    }
}

impl Package {
    /// Its folder below the workspace's root, such as `hub/wire`.
    pub(crate) fn folder(&self) -> PathBuf {
        below_root(self.manifest_path.parent().unwrap_or(&self.manifest_path))
    }
}

/// A path below the workspace's root.
pub(crate) fn below_root(path: &Path) -> PathBuf {
    path.strip_prefix(workspace::root()).unwrap_or(path).to_path_buf()
}
