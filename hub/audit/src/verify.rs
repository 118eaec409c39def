//! Verifying the chain.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::log::{GENESIS, hash, numbered};

/// A chain that holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// How many lines.
    pub lines: u64,
    /// The number of the first one that is kept.
    pub first: u64,
    /// The number of the last one.
    pub last: u64,
    /// The hash of the last line: whoever kept an earlier one can see that this chain contains it.
    pub head: String,
}

/// Where a chain breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct Broken {
    /// In which file.
    pub file: String,
    /// On which line of it, from 1.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

/// Goes over every file that is kept.
///
/// # Errors
/// The outer when a file cannot be read, the inner at the first line that does not follow from the one before it.
pub fn verify(path: &Path) -> io::Result<Result<Verified, Broken>> {
    let mut files = vec![path.to_owned()];
    let mut n = 1;
    while numbered(path, n).exists() {
        files.insert(0, numbered(path, n));
        n += 1;
    }
    let mut chain: Option<(u64, String)> = None;
    let mut first = 0;
    let mut lines = 0;
    for file in files {
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (at, line) in text.lines().enumerate() {
            let broken =
                |what: &str| Broken { file: name.clone(), line: at as u64 + 1, what: what.to_owned() };
            let Ok(value) = serde_json::from_str::<Value>(line) else {
                return Ok(Err(broken("it is no JSON")));
            };
            let Some(number) = value["n"].as_u64() else { return Ok(Err(broken("it has no number"))) };
            let prev = value["prev"].as_str().unwrap_or_default();
            match &chain {
                // The oldest file that is kept may begin in the middle: what came before it was rotated away.
                None if number == 1 && prev != GENESIS => {
                    return Ok(Err(broken("the first line follows something")));
                }
                None => first = number,
                Some((last, _)) if number != last + 1 => {
                    return Ok(Err(broken(&format!("line {} is missing before it", last + 1))));
                }
                Some((_, hash)) if prev != hash => return Ok(Err(broken("the line before it was changed"))),
                Some(_) => {}
            }
            if let Some(before) = value["instead_of"].as_u64() {
                let what =
                    format!("the audit was exchanged while the hub ran: it had written up to line {before}");
                return Ok(Err(broken(&what)));
            }
            chain = Some((number, hash(line)));
            lines += 1;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            let line = text.lines().count() as u64;
            return Ok(Err(Broken { file: name, line, what: "it is cut off".into() }));
        }
    }
    let (last, head) = chain.unwrap_or((0, GENESIS.to_owned()));
    Ok(Ok(Verified { lines, first, last, head }))
}

/// Whether the audit still holds the line of this hash, in the current file or the one before it.
///
/// # Errors
/// When a file cannot be read.
pub fn holds(path: &Path, line: &str) -> io::Result<bool> {
    for file in [path.to_owned(), numbered(path, 1)] {
        match std::fs::read_to_string(&file) {
            Ok(text) if text.lines().any(|kept| hash(kept) == line) => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
