//! Which crate may know which: wire ← gate ← core ← adapters ← programs.
//!
//! A crate's room follows from its folder, so a new crate is judged without a line here.

use std::path::Path;

use crate::metadata::{Dependency, Metadata, Package, below_root};

/// The one crate that may name the MCP library.
const MCP: &str = "hub/mcp";
const MCP_LIBRARY: &str = "rmcp";

/// What a crate is to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Wire,
    Gate,
    Core,
    /// One outside thing each.
    Adapter,
    /// The hub's program and this one: they wire everything up.
    Program,
    /// The relay between a browser and the hub.
    Relay,
    Extension,
    HelperLibrary,
    Helper,
    Crx,
    Policies,
    Install,
    /// What tests share.
    Support,
    /// Tests that are crates of their own.
    Suite,
}

impl Room {
    fn of(folder: &Path) -> Option<Self> {
        let parts: Vec<_> = folder.iter().map(|part| part.to_string_lossy()).collect();
        let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
        Some(match parts.as_slice() {
            ["hub", "wire"] => Self::Wire,
            ["hub", "gate"] => Self::Gate,
            ["hub", "core"] => Self::Core,
            ["hub", "bin"] | ["install", "xtask"] => Self::Program,
            ["hub", "native-host"] => Self::Relay,
            ["hub", _] => Self::Adapter,
            ["extension-rs"] => Self::Extension,
            ["helpers", "link" | "typedstream"] => Self::HelperLibrary,
            ["helpers", _] => Self::Helper,
            ["crx", ..] => Self::Crx,
            ["policies", ..] => Self::Policies,
            ["install", _] => Self::Install,
            ["tests", "support"] => Self::Support,
            ["tests", _] => Self::Suite,
            _ => return None,
        })
    }

    /// Whom it may know outside its tests.
    fn knows(self) -> &'static [Self] {
        match self {
            Self::Wire | Self::Crx => &[],
            Self::Gate
            | Self::Relay
            | Self::Extension
            | Self::HelperLibrary
            | Self::Policies
            | Self::Install
            | Self::Suite => &[Self::Wire],
            Self::Core => &[Self::Wire, Self::Gate],
            Self::Adapter | Self::Support => &[Self::Wire, Self::Gate, Self::Core],
            Self::Helper => &[Self::Wire, Self::HelperLibrary],
            Self::Program => {
                &[Self::Wire, Self::Gate, Self::Core, Self::Adapter, Self::Crx, Self::Policies, Self::Install]
            }
        }
    }

    /// Whom its tests may know besides.
    fn tests_know(self, other: Self) -> bool {
        self == Self::Suite || other == Self::Support || self.knows().contains(&other)
    }
}

/// Every dependency that goes against the arrows.
pub(crate) fn check() -> anyhow::Result<Vec<String>> {
    Ok(Metadata::of_workspace()?.packages.iter().flat_map(faults).collect())
}

fn faults(package: &Package) -> Vec<String> {
    let folder = package.folder();
    let Some(room) = Room::of(&folder) else {
        return vec![format!("{} is no folder for a crate: see docs/ARCHITECTURE.md", folder.display())];
    };
    package.dependencies.iter().filter_map(|dependency| fault(package, &folder, room, dependency)).collect()
}

fn fault(package: &Package, folder: &Path, room: Room, dependency: &Dependency) -> Option<String> {
    let name = &package.name;
    let for_tests = dependency.kind.as_deref() == Some("dev");
    let Some(path) = &dependency.path else {
        let stray = dependency.name == MCP_LIBRARY && !for_tests && folder != Path::new(MCP);
        return stray
            .then(|| format!("{name} names {MCP_LIBRARY}: only {MCP} may, others go through its traits"));
    };
    let known = Room::of(&below_root(path))?;
    let allowed = if for_tests { room.tests_know(known) } else { room.knows().contains(&known) };
    let how = if for_tests { ", even in its tests" } else { "" };
    (!allowed).then(|| format!("{name} ({room:?}) may not depend on {} ({known:?}){how}", dependency.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn the_arrows_hold() {
        assert_eq!(check().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn every_arrow_against_the_layers_is_found() {
        for (from, to, kind) in [
            ("hub/wire", "hub/gate", None),
            ("hub/gate", "hub/core", None),
            ("hub/core", "hub/audit", None),
            ("hub/browser", "hub/link", None),
            ("hub/browser", "hub/link", Some("dev")),
            ("hub/link", "crx", None),
            ("hub/mcp", "tests/support", None),
            ("hub/native-host", "hub/core", None),
            ("extension-rs", "hub/gate", None),
            ("helpers/shell", "helpers/dialog", None),
            ("helpers/shell", "hub/core", Some("build")),
            ("install/xtask", "tests/support", None),
            ("tests/support", "hub/bin", None),
        ] {
            assert_eq!(faults(&package(from, to, Some(to), kind)).len(), 1, "{from} → {to}");
        }
    }

    #[test]
    fn what_follows_the_layers_is_allowed() {
        for (from, to, kind) in [
            ("hub/bin", "crx", None),
            ("hub/bin", "hub/browser", None),
            ("hub/browser", "hub/core", None),
            ("hub/browser", "tests/support", Some("dev")),
            ("helpers/shell", "helpers/link", None),
            ("install/xtask", "policies", None),
            ("tests/e2e", "hub/bin", Some("dev")),
        ] {
            assert_eq!(faults(&package(from, to, Some(to), kind)), Vec::<String>::new(), "{from} → {to}");
        }
    }

    #[test]
    fn only_one_crate_names_the_mcp_library() {
        assert_eq!(faults(&package("hub/core", "rmcp", None, None)).len(), 1);
        assert_eq!(faults(&package("hub/mcp", "rmcp", None, None)), Vec::<String>::new());
        assert_eq!(faults(&package("tests/e2e", "rmcp", None, Some("dev"))), Vec::<String>::new());
    }

    #[test]
    fn a_crate_elsewhere_is_named() {
        assert_eq!(faults(&package("misc/thing", "serde", None, None)).len(), 1);
    }

    fn package(folder: &str, dependency: &str, path: Option<&str>, kind: Option<&str>) -> Package {
        Package {
            name: folder.to_owned(),
            version: "0.0.0".to_owned(),
            license: None,
            manifest_path: workspace::root().join(folder).join("Cargo.toml"),
            source: None,
            dependencies: vec![Dependency {
                name: dependency.to_owned(),
                kind: kind.map(str::to_owned),
                path: path.map(|path| workspace::root().join(path)),
            }],
        }
    }
}
