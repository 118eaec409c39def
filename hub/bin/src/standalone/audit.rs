//! The audit of a program that runs alone. A chain has one writer, and the hub, whose audit lies in the same folder,
//! may start at any moment: so this is another file, the first that no other such program has locked.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use consentry_audit::{AuditLog, Limits};
use consentry_config::Home;
use consentry_core::{Audit, AuditError, Record, Weight};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// More than this at the same time is a mistake.
const MOST: u32 = 64;

/// The open audit, locked as long as it lives.
pub(super) struct Locked {
    log: AuditLog,
    _lock: File,
}

impl Audit for Locked {
    fn append(&self, record: Record, weight: Weight) -> Result<u64, AuditError> {
        self.log.append(record, weight)
    }
}

/// Opens the first that is free: `audit-standalone-1.jsonl`, and so on, beside the hub's.
pub(super) fn open(home: &Home) -> anyhow::Result<Locked> {
    for n in 1..=MOST {
        let place = home.audit().with_file_name(format!("audit-standalone-{n}.jsonl"));
        if let Some(lock) = lock(&place.with_extension("lock"))? {
            let log = AuditLog::open(&place, Limits::default());
            let log = log.with_context(|| format!("the audit {} cannot be opened", place.display()))?;
            return Ok(Locked { log, _lock: lock });
        }
    }
    bail!("{MOST} programs run alone in {} already", home.path().display())
}

fn lock(place: &Path) -> anyhow::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(place);
    let file = file.with_context(|| format!("cannot open {}", place.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot lock {}", place.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consentry_audit::verify;

    #[test]
    fn each_chain_has_one_writer_and_goes_on_with_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("state")).unwrap();
        home.create().unwrap();
        let line = |log: &Locked| log.append(Record::new("owner", []), Weight::Decision).unwrap();
        let (first, second) = (open(&home).unwrap(), open(&home).unwrap());
        assert_eq!((line(&first), line(&second)), (1, 1));
        drop(first);
        assert_eq!(line(&open(&home).unwrap()), 2);
        for n in 1..=2 {
            verify(&home.audit().with_file_name(format!("audit-standalone-{n}.jsonl"))).unwrap().unwrap();
        }
        assert!(!home.audit().exists());
    }
}
