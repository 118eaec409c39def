//! What comes from elsewhere: under which licence, and each once. `.cargo/deny.toml` says what is allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::metadata::{Metadata, Package};
use crate::workspace;

const RULES: &str = ".cargo/deny.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    licences: Licences,
    #[serde(default)]
    duplicates: Vec<Duplicate>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Licences {
    allowed: BTreeSet<String>,
}

/// A crate that may be there in several versions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Duplicate {
    name: String,
    reason: String,
}

/// What is not allowed, and what is allowed in vain.
pub(crate) fn check() -> anyhow::Result<Vec<String>> {
    let place = workspace::root().join(RULES);
    let text = fs::read_to_string(&place).with_context(|| format!("cannot read {RULES}"))?;
    let rules: Rules = toml::from_str(&text).with_context(|| format!("cannot read {RULES}"))?;
    let packages = Metadata::with_dependencies()?.packages;
    let mut faults = licences(&rules.licences, &packages);
    faults.extend(duplicates(&rules.duplicates, &packages));
    Ok(faults)
}

fn licences(rules: &Licences, packages: &[Package]) -> Vec<String> {
    let allowed = |licence: &str| rules.allowed.contains(licence);
    let mut faults = Vec::new();
    for package in packages {
        let named = format!("{} {}", package.name, package.version);
        let Some(licence) = &package.license else {
            faults.push(format!("{named} names no licence"));
            continue;
        };
        match permits(licence, &allowed) {
            Ok(true) => {}
            Ok(false) => faults.push(format!("{named} is under {licence}, which {RULES} does not allow")),
            Err(error) => faults.push(format!("{named} is under {licence}, which cannot be read: {error}")),
        }
    }
    faults
}

fn duplicates(rules: &[Duplicate], packages: &[Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages.iter().filter(|package| package.source.is_some()) {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut faults = Vec::new();
    for rule in rules {
        if rule.reason.trim().is_empty() {
            faults.push(format!("{RULES} gives no reason for several versions of {}", rule.name));
        }
        if versions.remove(rule.name.as_str()).is_none() {
            faults.push(format!("{} is there once: take it out of {RULES}", rule.name));
        }
    }
    faults.extend(versions.iter().map(|(name, versions)| {
        format!(
            "{name} is there as {}: bring them together, or say why not in {RULES} (`cargo tree -i {name}@VERSION` \
            tells who needs it)",
            versions.join(" and ")
        )
    }));
    faults
}

/// Whether an SPDX expression can be met: one side of each OR, both of each AND.
fn permits(expression: &str, allowed: &dyn Fn(&str) -> bool) -> anyhow::Result<bool> {
    // Older manifests write a slash for OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any(&mut words, allowed)?;
    match words.next() {
        Some(word) => bail!("{word} is not expected there"),
        None => Ok(met),
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &dyn Fn(&str) -> bool) -> anyhow::Result<bool> {
    let mut met = all(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allowed)?;
    }
    Ok(met)
}

fn all(words: &mut Words<'_>, allowed: &dyn Fn(&str) -> bool) -> anyhow::Result<bool> {
    let mut met = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed)?;
    }
    Ok(met)
}

fn one(words: &mut Words<'_>, allowed: &dyn Fn(&str) -> bool) -> anyhow::Result<bool> {
    let word = words.next().context("something is missing at its end")?;
    match word {
        "(" => {
            let met = any(words, allowed)?;
            if words.next() != Some(")") {
                bail!("a parenthesis is not closed");
            }
            Ok(met)
        }
        ")" | "AND" | "OR" | "WITH" => bail!("{word} is not expected there"),
        // An exception only ever permits more, so the licence itself decides.
        licence if words.next_if_eq(&"WITH").is_some() => {
            words.next().context("WITH names no exception")?;
            Ok(allowed(licence))
        }
        licence => Ok(allowed(licence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_licensed_and_there_once() {
        assert_eq!(check().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn expressions_are_weighed() {
        let allowed = |licence: &str| ["MIT", "Apache-2.0", "BSD-3-Clause"].contains(&licence);
        for (expression, met) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("MIT/GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("MIT AND BSD-3-Clause", true),
            ("(MIT OR GPL-3.0) AND Apache-2.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true),
            ("GPL-2.0 OR MIT AND BSD-3-Clause", true),
        ] {
            assert_eq!(permits(expression, &allowed).unwrap(), met, "{expression}");
        }
        for broken in ["", "MIT OR", "(MIT", "MIT)", "AND MIT", "MIT MIT", "MIT WITH"] {
            assert!(permits(broken, &allowed).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_second_version_needs_a_reason_and_a_reason_a_second_version() {
        let packages = [package("a", "1.0.0"), package("a", "2.0.0"), package("b", "1.0.0")];
        let rule = |name: &str| Duplicate { name: name.to_owned(), reason: "why".to_owned() };
        assert_eq!(duplicates(&[], &packages).len(), 1);
        assert_eq!(duplicates(&[rule("a")], &packages), Vec::<String>::new());
        assert_eq!(duplicates(&[rule("a"), rule("b")], &packages).len(), 1);
    }

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some("MIT".to_owned()),
            manifest_path: "Cargo.toml".into(),
            dependencies: Vec::new(),
            source: Some("elsewhere".to_owned()),
        }
    }
}
