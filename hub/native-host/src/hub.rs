//! Connecting to the hub, and not believing it before it proved itself.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use consentry_wire::proof::{Caller, Handshake, NONCE_BYTES, ProofError, Token};
use consentry_wire::socket::Role;
use consentry_wire::version;

use crate::frame::Found;
use crate::place::Place;
use crate::{line, platform};

/// How long the whole handshake may take. A busy machine is slow to answer; something that never does must
/// not keep the real hub waiting much longer.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// A handshake's message is about 200 bytes.
const HANDSHAKE_LINE: usize = 1024;

/// How long one write may block before the caller looks around.
pub(crate) const WRITE_TICK: Duration = Duration::from_millis(250);

/// Why there is no hub to talk to. The extension's popup shows these words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("consentry is not running on this machine")]
    Absent,
    #[error("{} cannot be reached: {cause}", path.display())]
    Unreachable { path: PathBuf, cause: io::Error },
    #[error("{} is not a socket", .0.display())]
    NotASocket(PathBuf),
    #[error("{} belongs to another user", .0.display())]
    OthersSocket(PathBuf),
    #[error("other users may write {0}; stop consentry, remove that file and start it again", path.display())]
    OpenSocket { path: PathBuf },
    #[error("there is no token in {}; start consentry again", .0.display())]
    NoToken(PathBuf),
    #[error("the program behind {} runs as another user", .0.display())]
    OthersProgram(PathBuf),
    #[error("what answers on {} is not this machine's hub: {cause}", path.display())]
    Unproven { path: PathBuf, cause: ProofError },
    #[error("what answers on {} ended the handshake: {cause}", path.display())]
    Broken { path: PathBuf, cause: io::Error },
}

/// The reading half of a proven hub.
pub(crate) type Input = BufReader<Timed>;

/// Connects, checks and proves. The socket's file and the token are looked at anew each time, since a hub
/// that starts may have made both again.
///
/// The connecting itself may block for as long as a stopped program with a full queue holds the socket.
/// Nothing waits for it but the next attempt.
pub(crate) fn connect(place: &Place, origin: &str) -> Result<Input, Refusal> {
    let path = || place.socket.clone();
    check_socket(&place.socket)?;
    let token = read_token(&place.token).ok_or_else(|| Refusal::NoToken(place.token.clone()))?;
    let stream = UnixStream::connect(&place.socket).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Refusal::Absent,
        _ => Refusal::Unreachable { path: path(), cause },
    })?;
    match platform::peer_user(&stream) {
        Ok(user) if user == own_user() => {}
        Ok(_) => return Err(Refusal::OthersProgram(path())),
        Err(cause) => return Err(Refusal::Unreachable { path: path(), cause }),
    }
    handshake(stream, token, origin).map_err(|failure| match failure {
        Failed::Proof(cause) => Refusal::Unproven { path: path(), cause },
        Failed::Io(cause) => Refusal::Broken { path: path(), cause },
    })
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The file itself, never what a link points at.
fn check_socket(path: &Path) -> Result<(), Refusal> {
    let file = fs::symlink_metadata(path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => Refusal::Absent,
        _ => Refusal::Unreachable { path: path.to_owned(), cause },
    })?;
    if !file.file_type().is_socket() {
        return Err(Refusal::NotASocket(path.to_owned()));
    }
    if file.uid() != own_user() {
        return Err(Refusal::OthersSocket(path.to_owned()));
    }
    if file.mode() & 0o022 != 0 {
        return Err(Refusal::OpenSocket { path: path.to_owned() });
    }
    Ok(())
}

fn read_token(path: &Path) -> Option<Token> {
    // Anything else than a file could block for ever.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(4096).read_to_string(&mut text).ok()?;
    Token::new(&text)
}

enum Failed {
    Proof(ProofError),
    Io(io::Error),
}

impl From<ProofError> for Failed {
    fn from(error: ProofError) -> Self {
        Self::Proof(error)
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn handshake(stream: UnixStream, token: Token, origin: &str) -> Result<Input, Failed> {
    stream.set_write_timeout(Some(WRITE_TICK))?;
    let mut random = [0; NONCE_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::from)?;
    let (caller, challenge) = Caller::start(token, random);

    let mut input =
        BufReader::with_capacity(64 * 1024, Timed { stream, until: Some(Instant::now() + HANDSHAKE) });
    send(&input, &[&json(&challenge)?])?;

    let mut answer = Vec::with_capacity(HANDSHAKE_LINE);
    match line::read(&mut input, HANDSHAKE_LINE, &mut answer)? {
        Found::Frame => {}
        Found::TooLong => return Err(ProofError::Unexpected.into()),
        Found::End => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
    }
    let answer: Handshake = serde_json::from_slice(&answer).map_err(|_| ProofError::Unexpected)?;
    let response = caller.finish(&answer)?;

    let role = Role::Relay { version: version::CURRENT, origin: origin.to_owned() };
    send(&input, &[&json(&response)?, &json(&role)?])?;
    input.get_mut().untimed()?;
    Ok(input)
}

fn json(message: &impl serde::Serialize) -> io::Result<String> {
    Ok(serde_json::to_string(message)?)
}

fn send(input: &Input, lines: &[&str]) -> io::Result<()> {
    let mut text = lines.join("\n");
    text.push('\n');
    (&input.get_ref().stream).write_all(text.as_bytes())
}

/// A stream whose reads end together at a moment, however few bytes each brings.
#[derive(Debug)]
pub(crate) struct Timed {
    stream: UnixStream,
    until: Option<Instant>,
}

impl Timed {
    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    fn untimed(&mut self) -> io::Result<()> {
        self.until = None;
        self.stream.set_read_timeout(None)
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(until) = self.until else { return (&self.stream).read(buffer) };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&self.stream).read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_an_own_closed_socket_is_connected_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.sock");
        assert!(matches!(check_socket(&path), Err(Refusal::Absent)));

        fs::write(&path, "").unwrap();
        assert!(matches!(check_socket(&path), Err(Refusal::NotASocket(_))));
        fs::remove_file(&path).unwrap();

        let real = folder.path().join("real.sock");
        let _listener = UnixListener::bind(&real).unwrap();
        std::os::unix::fs::symlink(&real, &path).unwrap();
        assert!(matches!(check_socket(&path), Err(Refusal::NotASocket(_))));

        for (mode, fits) in [(0o600, true), (0o755, true), (0o620, false), (0o602, false), (0o777, false)] {
            fs::set_permissions(&real, fs::Permissions::from_mode(mode)).unwrap();
            match check_socket(&real) {
                Ok(()) => assert!(fits, "{mode:o}"),
                Err(refusal) => assert!(!fits && matches!(refusal, Refusal::OpenSocket { .. }), "{mode:o}"),
            }
        }
    }

    #[test]
    fn a_token_is_a_file_with_enough_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("extension-token");
        assert!(read_token(&path).is_none());
        assert!(read_token(folder.path()).is_none());
        fs::write(&path, "short\n").unwrap();
        assert!(read_token(&path).is_none());
        fs::write(&path, [0xff; 64]).unwrap();
        assert!(read_token(&path).is_none());
        fs::write(&path, "a-token-of-some-length\n").unwrap();
        assert!(read_token(&path).is_some());
    }

    #[test]
    fn the_kernel_names_the_peers_user() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(platform::peer_user(&one).unwrap(), own_user());
    }

    #[test]
    fn a_peer_that_drips_does_not_hold_a_handshake_open() {
        let (near, far) = UnixStream::pair().unwrap();
        let drip = std::thread::spawn(move || while (&far).write_all(b" ").is_ok() {});
        let mut input = Timed { stream: near, until: Some(Instant::now() + Duration::from_millis(50)) };
        let mut byte = [0; 1];
        let error = loop {
            if let Err(error) = input.read(&mut byte) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(input);
        drip.join().unwrap();
    }
}
