//! Reading, for the command line and the status page.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::log::numbered;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub n: u64,
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// What kind.
    pub kind: String,
    /// The rest.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// The newest lines, oldest first, at most `limit`. Reads no more than the end of the current file and, if that is
/// short, the one before.
///
/// # Errors
/// When a file cannot be read.
pub fn tail(path: &Path, limit: usize) -> io::Result<Vec<Entry>> {
    // A line is rarely longer than a kilobyte.
    let want = (limit as u64).saturating_mul(1024).max(64 * 1024);
    let mut entries = entries_of(&end(path, want)?);
    if entries.len() < limit {
        let mut older = entries_of(&end(&numbered(path, 1), want)?);
        older.append(&mut entries);
        entries = older;
    }
    Ok(entries.split_off(entries.len().saturating_sub(limit)))
}

/// Every line of every file that is kept, oldest first.
///
/// # Errors
/// When a file cannot be read.
pub fn read_all(path: &Path) -> io::Result<Vec<Entry>> {
    let mut files = vec![path.to_owned()];
    let mut n = 1;
    while numbered(path, n).exists() {
        files.insert(0, numbered(path, n));
        n += 1;
    }
    let mut entries = Vec::new();
    for file in files {
        match std::fs::read_to_string(&file) {
            Ok(text) => entries.append(&mut entries_of(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(entries)
}

/// The lines of one grant, from its decision on. Labels come again after some time: the last grant that had it is meant.
pub fn of_grant(entries: Vec<Entry>, label: &str) -> Vec<Entry> {
    let mut ours: Vec<Entry> = entries
        .into_iter()
        .filter(|entry| entry.fields.get("grant").is_some_and(|grant| grant == label))
        .collect();
    let begins = |entry: &Entry| entry.kind == "decision" && entry.fields.contains_key("minutes");
    let begin = ours.iter().rposition(begins).unwrap_or(0);
    ours.split_off(begin)
}

fn end(path: &Path, bytes: u64) -> io::Result<String> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    let from = file.metadata()?.len().saturating_sub(bytes);
    file.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    // The first line is cut unless the file begins there.
    Ok(if from == 0 {
        text
    } else {
        text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default()
    })
}

fn entries_of(text: &str) -> Vec<Entry> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
