//! The audit, opened again when it could not be: a full disk or a wrong mode refuses calls until it is mended.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use consentry_audit::{AuditLog, Limits};
use consentry_core::{Audit, AuditError, Record, Weight};

pub(crate) struct Reopening {
    path: PathBuf,
    log: Mutex<Option<AuditLog>>,
}

impl Reopening {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, log: Mutex::new(None) }
    }
}

impl Audit for Reopening {
    fn append(&self, record: Record, weight: Weight) -> Result<u64, AuditError> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.is_none() {
            let open =
                AuditLog::open(&self.path, Limits::default()).map_err(|error| AuditError(Box::new(error)))?;
            // A record that was taken away and begins anew says so itself.
            open.append(Record::new("opened", []), Weight::Decision)?;
            *log = Some(open);
        }
        let written = match log.as_ref() {
            Some(open) => open.append(record, weight),
            None => Err(AuditError("the audit is not open".into())),
        };
        if written.is_err() {
            *log = None;
        }
        written
    }
}
