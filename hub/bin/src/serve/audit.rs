//! The audit, opened again when it could not be: a full disk or a wrong mode refuses calls until it is mended.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use consentry_audit::{AuditLog, Limits, holds};
use consentry_core::{Audit, AuditError, Record, Weight};
use serde_json::json;

pub(crate) struct Reopening {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log: Option<AuditLog>,
    /// The number and the hash of the last line that was written.
    written: Option<(u64, String)>,
}

impl Reopening {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, state: Mutex::default() }
    }
}

impl Audit for Reopening {
    fn append(&self, record: Record, weight: Weight) -> Result<u64, AuditError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { log, written: last } = &mut *state;
        if log.is_none() {
            let open =
                AuditLog::open(&self.path, Limits::default()).map_err(|error| AuditError(Box::new(error)))?;
            // A record that was taken away, cut or added to meanwhile says so itself, and does not verify any more.
            // A disk that was full may have taken half a line more, and what mends that is a line as well.
            let exchanged = match last.as_ref() {
                Some((_, hash)) if *last != Some(open.head()) => {
                    let kept = holds(&self.path, hash).map_err(|error| AuditError(Box::new(error)))?;
                    last.as_ref().filter(|_| !kept)
                }
                _ => None,
            };
            if let Some((number, _)) = exchanged {
                tracing::error!(written = number, "the audit is not the one that was written to");
            }
            let instead_of = json!(exchanged.map(|(number, _)| number));
            open.append(Record::new("opened", [("instead_of", instead_of)]), Weight::Decision)?;
            *log = Some(open);
        }
        let written = match log.as_ref() {
            Some(open) => open.append(record, weight),
            None => Err(AuditError("the audit is not open".into())),
        };
        match (&written, &log) {
            (Ok(_), Some(open)) => *last = Some(open.head()),
            _ => *log = None,
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consentry_audit::verify;

    #[test]
    fn an_audit_that_was_exchanged_while_it_was_open_does_not_verify() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let audit = Reopening::new(path.clone());
        let write = || audit.append(Record::new("call", []), Weight::Light);
        write().unwrap();
        std::fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        assert!(write().is_err());
        write().unwrap();
        let broken = verify(&path).unwrap().unwrap_err().to_string();
        assert!(broken.contains("exchanged") && broken.contains("line 2"), "{broken}");
    }

    #[test]
    fn an_audit_that_could_not_be_written_for_a_while_goes_on() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let audit = Reopening::new(path.clone());
        let write = || audit.append(Record::new("call", []), Weight::Light);
        write().unwrap();
        audit.state.lock().unwrap().log = None;
        // Half a line, as a full disk leaves it.
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut file, b"{\"n\":3").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(write().is_err());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        write().unwrap();
        assert!(verify(&path).unwrap().is_ok());
    }
}
