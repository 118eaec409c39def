//! What lies where, and how much of it.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::workspace;

/// The folders and files at the top. Dotfiles are free.
const TOP: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "crx",
    "docs",
    "extension-rs",
    "helpers",
    "hub",
    "install",
    "policies",
    "tests",
];

/// The extension is written in Rust; this is what its start-up files may take.
const JAVASCRIPT_LINES: usize = 150;

/// What lies at the top and should not.
pub(crate) fn top() -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    for entry in fs::read_dir(workspace::root())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // Hidden ones belong to tools, and cargo's output is ignored by Git.
        if !name.starts_with('.') && !name.starts_with("target") && !TOP.contains(&name.as_str()) {
            faults.push(format!("{name} does not belong at the top: move it into {}", TOP[6..].join(", ")));
        }
    }
    Ok(faults)
}

/// Whether the extension holds more JavaScript than it may.
pub(crate) fn javascript() -> anyhow::Result<Vec<String>> {
    let lines = javascript_lines(&workspace::root().join("extension-rs"))?;
    let over = lines > JAVASCRIPT_LINES;
    Ok(over
        .then(|| format!("extension-rs has {lines} lines of JavaScript; {JAVASCRIPT_LINES} are allowed"))
        .into_iter()
        .collect())
}

fn javascript_lines(folder: &Path) -> anyhow::Result<usize> {
    let mut lines = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            lines += javascript_lines(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "js" || extension == "mjs") {
            lines += fs::read_to_string(&path)?.lines().count();
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_holds_what_it_should() {
        assert_eq!(top().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn the_extension_holds_little_javascript() {
        assert_eq!(javascript().unwrap(), Vec::<String>::new());
    }
}
