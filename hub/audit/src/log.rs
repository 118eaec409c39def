//! Writing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use consentry_core::{Audit, AuditError, Record, Weight, timestamp};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// The hash before the first line.
pub(crate) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// How long a light line may wait for the disk.
const SYNC_WITHIN: Duration = Duration::from_millis(200);

/// The longest line in bytes.
const MAX_LINE: usize = 64 * 1024;

/// How large the audit may become.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A file that would become longer is put aside.
    pub bytes: u64,
    /// So many files are kept beside the current one.
    pub files: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 16 * 1024 * 1024, files: 8 }
    }
}

/// The open audit.
#[derive(Debug)]
pub struct AuditLog {
    state: Mutex<State>,
    sync: SyncSender<Arc<File>>,
}

#[derive(Debug)]
struct State {
    path: PathBuf,
    limits: Limits,
    file: Arc<File>,
    length: u64,
    next: u64,
    last_hash: String,
    /// Bytes of a line that could not be written whole: cut off before the next one.
    torn: bool,
}

impl AuditLog {
    /// Opens or makes the audit at `path`.
    ///
    /// # Errors
    /// When it cannot be opened for this user alone, or its last line cannot be understood.
    pub fn open(path: &Path, limits: Limits) -> io::Result<Self> {
        let mut file = open(path)?;
        let (next, last_hash, cut) = end_of(path, &mut file)?;
        let length = file.metadata()?.len();
        let file = Arc::new(file);
        // One slot is enough: a waiting request covers every line written before it is served.
        let (sync, requests) = mpsc::sync_channel(1);
        let state = State { path: path.to_owned(), limits, file, length, next, last_hash, torn: false };
        let log = Self { state: Mutex::new(state), sync };
        Self::start_syncing(requests)?;
        if cut > 0 {
            let fields = [("lost_bytes", json!(cut))];
            log.append(Record::new("cut_off", fields), Weight::Decision).map_err(io::Error::other)?;
        }
        Ok(log)
    }

    /// The number and the hash of the last line: what the next one follows.
    pub fn head(&self) -> (u64, String) {
        let state = self.lock();
        (state.next - 1, state.last_hash.clone())
    }

    /// One thread brings light lines to the disk; it ends with the log.
    fn start_syncing(requests: mpsc::Receiver<Arc<File>>) -> io::Result<()> {
        std::thread::Builder::new().name("audit-sync".into()).spawn(move || {
            while let Ok(file) = requests.recv() {
                // Lines that come within this time share one sync. A rotation has synced the file that it closed.
                std::thread::sleep(SYNC_WITHIN / 2);
                let file = requests.try_recv().unwrap_or(file);
                if let Err(error) = file.sync_data() {
                    tracing::error!(%error, "the audit cannot be brought to the disk");
                }
            }
        })?;
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audit for AuditLog {
    fn append(&self, record: Record, weight: Weight) -> Result<u64, AuditError> {
        let mut state = self.lock();
        let number = state.write(record).map_err(|error| AuditError(Box::new(error)))?;
        if weight == Weight::Decision {
            state.file.sync_data().map_err(|error| AuditError(Box::new(error)))?;
        } else {
            // A full slot means that a sync is due already.
            let _ = self.sync.try_send(Arc::clone(&state.file));
        }
        Ok(number)
    }
}

impl State {
    fn write(&mut self, record: Record) -> io::Result<u64> {
        self.still_there()?;
        if self.torn {
            self.file.set_len(self.length)?;
            self.torn = false;
        }
        let number = self.next;
        let mut line = Map::new();
        line.insert("n".into(), json!(number));
        line.insert("at".into(), json!(timestamp()));
        line.insert("kind".into(), json!(record.kind));
        line.extend(record.fields.into_iter().filter(|(_, value)| !value.is_null()));
        line.insert("prev".into(), json!(self.last_hash));
        let mut text = Value::Object(line.clone()).to_string();
        if text.len() > MAX_LINE {
            // Its writers keep lines short; one that is not loses its longest fields and says so.
            for value in line.values_mut().filter(|value| value.to_string().len() > MAX_LINE / 64) {
                *value = json!("… (too long for the audit)");
            }
            text = Value::Object(line).to_string();
        }
        let hash = hash(&text);
        let text = text + "\n";
        if self.length > 0 && self.length + text.len() as u64 > self.limits.bytes {
            self.rotate()?;
        }
        let mut file = &*self.file;
        if let Err(error) = file.write_all(text.as_bytes()) {
            self.torn = true;
            return Err(error);
        }
        self.length += text.len() as u64;
        self.next += 1;
        self.last_hash = hash;
        Ok(number)
    }

    /// Lines that go to a file which nobody finds any more are as good as not written, and those after a stranger's are
    /// no record.
    fn still_there(&self) -> io::Result<()> {
        let open = rustix::fs::fstat(&*self.file)?;
        let there = rustix::fs::stat(&self.path);
        let what = if !there.is_ok_and(|there| (there.st_dev, there.st_ino) == (open.st_dev, open.st_ino)) {
            "moved or removed"
        } else if !self.torn && u64::try_from(open.st_size).ok() != Some(self.length) {
            "written or cut by another program"
        } else {
            return Ok(());
        };
        Err(io::Error::other(format!("{} was {what} while it was open", self.path.display())))
    }

    /// `audit.jsonl` becomes `audit.jsonl.1`, and so on; the oldest goes.
    fn rotate(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        for n in (1..self.limits.files).rev() {
            let from = numbered(&self.path, n);
            if from.exists() {
                std::fs::rename(from, numbered(&self.path, n + 1))?;
            }
        }
        std::fs::rename(&self.path, numbered(&self.path, 1))?;
        self.file = Arc::new(open(&self.path)?);
        self.length = 0;
        Ok(())
    }
}

/// The n-th file before the current one.
pub(crate) fn numbered(path: &Path, n: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    name.into()
}

/// The hash of a line, as the next one carries it.
pub(crate) fn hash(line: &str) -> String {
    Sha256::digest(line.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mode = rustix::fs::fstat(&file)?.st_mode & 0o777;
    if mode & 0o077 != 0 {
        let text = format!("{} is open to others (mode {mode:o}): chmod 600 it", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(file)
}

/// Where the chain goes on: the next number, the last hash, and how many bytes of an unfinished line were cut off.
fn end_of(path: &Path, file: &mut File) -> io::Result<(u64, String, u64)> {
    let length = file.metadata()?.len();
    // A line is far shorter than this.
    let from = length.saturating_sub(4 * 1024 * 1024);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let cut = (bytes.len() - whole) as u64;
    if cut > 0 {
        file.set_len(length - cut)?;
    }
    let text = String::from_utf8_lossy(&bytes[..whole]);
    if let Some(last) = text.lines().last() {
        return Ok((after(last, path)?, hash(last), cut));
    }
    // The current file is fresh: the chain goes on from the one before, if there is one.
    let before = numbered(path, 1);
    match std::fs::read_to_string(&before) {
        Ok(text) => match text.lines().last() {
            Some(last) => Ok((after(last, &before)?, hash(last), cut)),
            None => Ok((1, GENESIS.to_owned(), cut)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((1, GENESIS.to_owned(), cut)),
        Err(error) => Err(error),
    }
}

/// The number that follows that of a line.
fn after(line: &str, path: &Path) -> io::Result<u64> {
    let number = serde_json::from_str::<Value>(line).ok().and_then(|line| line["n"].as_u64());
    number.and_then(|number| number.checked_add(1)).ok_or_else(|| {
        let text = format!("the last line of {} is none of ours: move the file away", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}
