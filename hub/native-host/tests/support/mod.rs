//! A state folder with the real relay in it, a browser's hand on its pipes, and a hub that is not one.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use consentry_wire::frame::{self, FromRelay};
use consentry_wire::proof::{Handshake, Hub, Token};
use consentry_wire::socket::{Role, files};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A bound for waits that should take milliseconds; the machine may be busy.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const ORIGIN: &str = "chrome-extension://abcdefghijklmnopabcdefghijklmnop/";
pub(crate) const TOKEN: &str = "the-canary-token-of-the-tests";
pub(crate) const HELLO: &str = r#"{"type":"hello","build":"0.1.0"}"#;

pub(crate) struct State {
    folder: tempfile::TempDir,
}

impl State {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("relay").tempdir().unwrap();
        let state = Self { folder };
        fs::create_dir(state.path().join(files::BIN)).unwrap();
        // Copied by another process: a program that this one held open for writing while a test beside it
        // forked could not be started.
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_consentry-native-host"))
            .arg(state.program())
            .status()
            .unwrap();
        assert!(copied.success());
        state.write_token(TOKEN);
        state
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.path().join(files::BIN).join(files::RELAY)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join(files::SOCKET)
    }

    pub(crate) fn write_token(&self, token: &str) {
        fs::write(self.path().join(files::TOKEN), format!("{token}\n")).unwrap();
    }

    pub(crate) fn relay(&self) -> Relay {
        Relay::start(&self.program())
    }

    pub(crate) fn hub(&self) -> FakeHub {
        FakeHub::bind(self, TOKEN)
    }

    /// A relay and a hub that are linked and have greeted.
    pub(crate) fn linked(&self) -> (Relay, FakeHub, HubLink) {
        let hub = self.hub();
        let mut relay = self.relay();
        let mut link = hub.accept().prove();
        assert_eq!(relay.said(), FromRelay::HubHere);
        relay.send(HELLO);
        assert_eq!(link.line(), HELLO);
        (relay, hub, link)
    }
}

pub(crate) struct Relay {
    child: Child,
    input: Option<ChildStdin>,
    frames: Receiver<Vec<u8>>,
    notes: JoinHandle<String>,
}

impl Relay {
    pub(crate) fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .arg(ORIGIN)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        let mut errors = child.stderr.take().unwrap();
        let (sender, frames) = channel();
        thread::spawn(move || {
            let mut header = [0; 4];
            while output.read_exact(&mut header).is_ok() {
                let mut frame = vec![0; u32::from_ne_bytes(header) as usize];
                if output.read_exact(&mut frame).is_err() || sender.send(frame).is_err() {
                    return;
                }
            }
        });
        let notes = thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        let input = child.stdin.take();
        Self { child, input, frames, notes }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The pipe to the relay, for writing what no browser would, or from a thread of its own.
    pub(crate) fn input(&mut self) -> &mut ChildStdin {
        self.input.as_mut().unwrap()
    }

    pub(crate) fn take_input(&mut self) -> ChildStdin {
        self.input.take().unwrap()
    }

    pub(crate) fn send(&mut self, frame: &str) {
        write_native(self.input(), frame.as_bytes()).unwrap();
    }

    /// The next frame for the extension.
    pub(crate) fn frame(&self) -> String {
        let frame = self.frames.recv_timeout(SOON).expect("a frame for the extension");
        assert!(frame.len() <= 1024 * 1024, "{} bytes would end the port", frame.len());
        String::from_utf8(frame).unwrap()
    }

    /// The next frame, which the relay itself must have said.
    pub(crate) fn said(&self) -> FromRelay {
        frame::read(&self.frame()).unwrap()
    }

    pub(crate) fn lost(&self) -> String {
        match self.said() {
            FromRelay::HubGone { reason } => reason,
            FromRelay::HubHere => panic!("the relay says that the hub is here"),
        }
    }

    /// Whether nothing is said to the extension for so long.
    pub(crate) fn is_silent_for(&self, time: Duration) -> bool {
        self.frames.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }

    /// Closes the pipe as a browser does that quits, and waits; gives what was noted too.
    pub(crate) fn quit(mut self, within: Duration) -> (ExitStatus, String) {
        drop(self.input.take());
        let since = Instant::now();
        // Its standard output ends when it does.
        loop {
            match self.frames.recv_timeout(within.saturating_sub(since.elapsed())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.child.kill().unwrap();
                    panic!("still there {within:?} after the browser quit");
                }
            }
        }
        let status = self.child.wait().unwrap();
        (status, self.notes.join().unwrap())
    }

    /// Waits for it to end by itself.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        assert_eq!(self.frames.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected));
        (self.child.wait().unwrap(), self.notes.join().unwrap())
    }
}

pub(crate) fn write_native(pipe: &mut impl io::Write, frame: &[u8]) -> io::Result<()> {
    let mut bytes = (frame.len() as u32).to_ne_bytes().to_vec();
    bytes.extend_from_slice(frame);
    pipe.write_all(&bytes)
}

pub(crate) struct FakeHub {
    listener: UnixListener,
    socket: PathBuf,
    token: String,
}

impl FakeHub {
    pub(crate) fn bind(state: &State, token: &str) -> Self {
        let socket = state.socket();
        // Bound beside and renamed, as a real hub does: nobody sees it with other permissions.
        let beside = socket.with_extension("new");
        let listener = UnixListener::bind(&beside).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&beside, &socket).unwrap();
        Self { listener, socket, token: token.to_owned() }
    }

    /// The next connection, from which nothing was read yet.
    pub(crate) fn accept(&self) -> HubLink {
        self.accept_within(SOON).expect("a connection of the relay")
    }

    pub(crate) fn accept_within(&self, time: Duration) -> Option<HubLink> {
        let mut asked = [PollFd::new(&self.listener, PollFlags::IN)];
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        if poll(&mut asked, Some(&time)).unwrap() == 0 {
            return None;
        }
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_write_timeout(Some(SOON)).unwrap();
        Some(HubLink { input: BufReader::new(stream), token: Token::new(&self.token).unwrap() })
    }

    /// Stops as a hub that crashed: the socket's file stays.
    pub(crate) fn stop(self, links: Vec<HubLink>) {
        drop(links);
        drop(self);
    }

    pub(crate) fn stop_and_remove(self, links: Vec<HubLink>) {
        fs::remove_file(&self.socket).unwrap();
        self.stop(links);
    }
}

pub(crate) struct HubLink {
    input: BufReader<UnixStream>,
    token: Token,
}

impl HubLink {
    /// The hub's half of the handshake, and the role that follows it.
    pub(crate) fn prove(mut self) -> Self {
        let challenge: Handshake = serde_json::from_str(&self.line()).unwrap();
        let (hub, answer) = Hub::answer(self.token.clone(), &challenge, [7; 32]).unwrap();
        self.write(&serde_json::to_string(&answer).unwrap());
        let response: Handshake = serde_json::from_str(&self.line()).unwrap();
        hub.finish(&response).unwrap();
        let role: Role = serde_json::from_str(&self.line()).unwrap();
        let expected = Role::Relay { version: consentry_wire::version::CURRENT, origin: ORIGIN.into() };
        assert_eq!(role, expected);
        self
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.input.read_line(&mut line).expect("a line from the relay");
        assert!(line.ends_with('\n'), "the relay ended the connection after {line:?}");
        line.pop();
        line
    }

    /// What comes until the relay closes the connection.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = String::new();
        match self.input.read_to_string(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
        rest
    }

    pub(crate) fn write(&mut self, line: &str) {
        self.stream().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn stream(&self) -> &UnixStream {
        self.input.get_ref()
    }
}
