//! Where a running browser listens for DevTools, and the connection to it.

use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, geteuid, test_kill_process};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// The file in which a browser says where it listens. A browser whose chrome://inspect toggle made it listen answers
/// nothing else, so this is the only way to learn it.
const FILE: &str = "DevToolsActivePort";
/// The link in which a running browser names its process: `<host>-<process id>`.
const LOCK: &str = "SingletonLock";
/// The path of the browser's own target, before its id.
const PATH: &str = "/devtools/browser/";
/// Larger than any picture of a page; a browser that sends more is not one.
const MAX_MESSAGE: usize = 256 * 1024 * 1024;
/// How long reaching the port may take. What comes after may take a person's click.
const REACH: Duration = Duration::from_secs(3);

/// One start of one browser, as it says where it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) folder: PathBuf,
    port: u16,
    path: String,
    written: Option<SystemTime>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoConnection {
    /// Nobody listens there (any more).
    #[error("nobody listens on 127.0.0.1:{0}")]
    Nobody(u16),
    /// Whoever listens there did not let us in.
    #[error("the browser did not let us in")]
    Refused(#[source] Box<tokio_tungstenite::tungstenite::Error>),
    /// Whoever listens there did not answer; perhaps nobody clicked.
    #[error("the browser did not answer in time: it may show a question that nobody answered")]
    Silent,
}

impl Endpoint {
    /// Reads what the browser of a user data folder has written, if it still runs.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let file = folder.join(FILE);
        let metadata = std::fs::symlink_metadata(&file).ok()?;
        // The port of a browser that is gone may be anybody's by now, another user's too.
        if metadata.uid() != geteuid().as_raw() || !runs(folder) {
            return None;
        }
        let text = std::fs::read_to_string(&file).ok()?;
        let (port, path) = parse(&text)?;
        Some(Self { folder: folder.to_owned(), port, path, written: metadata.modified().ok() })
    }

    /// Connects. `patience` is how long the browser may take to let us in: some ask a person.
    pub(super) async fn connect(
        &self,
        patience: Duration,
    ) -> Result<WebSocketStream<TcpStream>, NoConnection> {
        let nobody = || NoConnection::Nobody(self.port);
        let stream = timeout(REACH, TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))).await;
        let stream = stream.map_err(|_| nobody())?.map_err(|_| nobody())?;
        // A small command must not wait for a larger one.
        let _ = stream.set_nodelay(true);
        let address = format!("ws://127.0.0.1:{}{}", self.port, self.path);
        let limits =
            WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
        let connected = timeout(patience, client_async_with_config(address, stream, Some(limits))).await;
        let connected = connected.map_err(|_| NoConnection::Silent)?;
        connected.map(|(socket, _)| socket).map_err(|error| NoConnection::Refused(Box::new(error)))
    }
}

/// Whether the browser that owns a user data folder is alive.
fn runs(folder: &Path) -> bool {
    let Ok(owner) = std::fs::read_link(folder.join(LOCK)) else { return false };
    let owner = owner.to_string_lossy().into_owned();
    let process =
        owner.rsplit_once('-').and_then(|(_, process)| process.parse().ok()).and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process).is_ok())
}

fn parse(text: &str) -> Option<(u16, String)> {
    let mut lines = text.lines();
    let port = lines.next()?.parse().ok().filter(|port| *port != 0)?;
    let path = lines.next()?;
    let id = path.strip_prefix(PATH)?;
    let plain = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    plain.then(|| (port, path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_browsers_own_target_is_taken() {
        let good = "9222\n/devtools/browser/1ed17c43-53f8-4ecf-beb8-f3f33e7d5af2";
        assert_eq!(parse(good).unwrap().0, 9222);
        for bad in [
            "",
            "9222",
            "0\n/devtools/browser/a",
            "70000\n/devtools/browser/a",
            "9222\n/devtools/page/a",
            "9222\n/devtools/browser/",
            "9222\n/devtools/browser/../page/a",
            "9222\n@evil.test/devtools/browser/a",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_a_browser_that_is_gone_has_left_behind_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "9222\n/devtools/browser/a\n").unwrap();
        assert_eq!(Endpoint::read(folder.path()), None);
        let lock = folder.path().join(LOCK);
        std::os::unix::fs::symlink("desk-1999999999", &lock).unwrap();
        assert_eq!(Endpoint::read(folder.path()), None);
        std::fs::remove_file(&lock).unwrap();
        std::os::unix::fs::symlink(format!("my-desk-{}", std::process::id()), &lock).unwrap();
        assert_eq!(Endpoint::read(folder.path()).unwrap().port, 9222);
    }
}
