//! `hub.sock`.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use consentry_wire::frame::ToExtension;
use consentry_wire::proof::{Handshake, Hub as HubProof};
use consentry_wire::socket::{MAX_LINE, Reply, Request, Role};
use consentry_wire::{ErrorCode, Failure};
use futures_util::StreamExt as _;
use serde::Serialize;
use tokio::io::{AsyncWriteExt as _, WriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::sync::CancellationToken;

use crate::door::{Door, random};
use crate::links::Transport;
use crate::platform::{Peer, parent_program};
use crate::session::{self, Pipe};

/// How long a peer may take to prove itself and say what it is.
const INTRODUCTION: Duration = Duration::from_secs(5);
/// Connections that have introduced themselves, at a time.
const MAX_CONNECTIONS: usize = 64;
/// Requests of one connection that may wait while another is answered.
const MAX_AHEAD: usize = 16;
/// Connections that have not yet: over that, the one that has waited longest goes.
const MAX_STRANGERS: usize = 64;

type Lines = FramedRead<tokio::io::ReadHalf<UnixStream>, LinesCodec>;

/// Runs what the command line asks for.
#[async_trait]
pub trait Commands: Send + Sync {
    /// One request; what it brings goes to `replies`, the last with `more` false.
    async fn run(&self, request: Request, replies: mpsc::Sender<Reply>);
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A hub lives there.
    #[error("a hub is running already on {0}")]
    InUse(PathBuf),
    /// Something that is no socket lies there.
    #[error("{0} is in the way and is no socket: move it")]
    InTheWay(PathBuf),
    /// The socket cannot be made.
    #[error("the socket {0} cannot be made")]
    Io(PathBuf, #[source] io::Error),
}

/// Makes the socket: never takes it from a hub that lives.
///
/// # Errors
/// When it cannot be made, or a hub lives there.
pub async fn bind(path: &Path) -> Result<UnixListener, SocketError> {
    use std::os::unix::fs::FileTypeExt as _;
    let io = |error| SocketError::Io(path.to_owned(), error);
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::InTheWay(path.to_owned()));
        }
        Ok(_) => match UnixStream::connect(path).await {
            // Nobody listens: it was left behind by a hub that is gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(io)?
            }
            Err(error) => return Err(io(error)),
            Ok(_) => return Err(SocketError::InUse(path.to_owned())),
        },
    }
    // The folder is this user's alone and so is what the process makes (its umask), so there is no moment in which
    // others could connect.
    let listener = UnixListener::bind(path).map_err(io)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(io)?;
    Ok(listener)
}

/// Serves until `stop` is raised.
pub async fn serve(listener: UnixListener, door: Door, commands: Arc<dyn Commands>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    let introduced = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut strangers: VecDeque<Stranger> = VecDeque::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    strangers.retain(|stranger| !stranger.task.is_finished() && !stranger.known.load(Ordering::Relaxed));
                    // Whoever holds connections open and says nothing keeps nobody else out.
                    if strangers.len() >= MAX_STRANGERS && let Some(longest) = strangers.pop_front() {
                        longest.task.abort();
                    }
                    let known = Arc::new(AtomicBool::new(false));
                    let entry = Entry { door: door.clone(), commands: commands.clone(), introduced: introduced.clone(), known: known.clone() };
                    let task = connections.spawn(async move { entry.connection(stream).await });
                    strangers.push_back(Stranger { task, known });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection to the socket was lost");
                    // Out of descriptors, most likely: others have to end first.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    connections.shutdown().await;
}

/// A connection that may not have said yet who it is.
struct Stranger {
    task: AbortHandle,
    known: Arc<AtomicBool>,
}

/// What one connection is handled with.
struct Entry {
    door: Door,
    commands: Arc<dyn Commands>,
    introduced: Arc<Semaphore>,
    known: Arc<AtomicBool>,
}

impl Entry {
    async fn connection(self, stream: UnixStream) {
        let peer = match Peer::of(&stream) {
            Ok(peer) if peer.is_ours() => peer,
            Ok(_) => return self.door.refused("another user connected to the socket"),
            Err(error) => {
                return self
                    .door
                    .refused(&format!("the kernel does not say who connected to the socket: {error}"));
            }
        };
        let (read, write) = tokio::io::split(stream);
        let mut link =
            Connection { lines: FramedRead::new(read, LinesCodec::new_with_max_length(MAX_LINE)), write };
        let role = match tokio::time::timeout(INTRODUCTION, introduce(&self.door, &mut link)).await {
            Err(_) => return self.door.refused("a program on the socket did not prove itself in time"),
            Ok(Err(why)) => return self.door.refused(&why),
            Ok(Ok(role)) => role,
        };
        self.known.store(true, Ordering::Relaxed);
        let Ok(_place) = self.introduced.try_acquire() else {
            return self.door.refused("too many programs are connected to the socket");
        };
        match role {
            Role::Command { version } => match version.check("command") {
                Ok(()) => serve_commands(link, self.commands.as_ref()).await,
                Err(failure) => {
                    drop(link.send(&Reply { result: None, error: Some(failure), more: false }).await)
                }
            },
            Role::Relay { version, origin } => {
                // Another extension is no business of ours, and learns nothing.
                if origin != format!("chrome-extension://{}/", self.door.inner.extension_id) {
                    return self.door.refused(&format!("a relay speaks for another extension: {origin:.80}"));
                }
                let allowed = under_a_browser(&self.door, peer)
                    .map_err(|why| Failure::new(ErrorCode::Forbidden, why).next("run `consentry doctor`"));
                if let Err(error) = allowed.and_then(|()| version.check("relay")) {
                    self.door.refused(&error.message);
                    // The extension shows its owner why, and tries again after a pause of its own.
                    return drop(link.send(&ToExtension::Refused { error }).await);
                }
                let why = relay(&self.door, link).await;
                tracing::debug!(%why, "a relay's link ended");
            }
        }
    }
}

struct Connection {
    lines: Lines,
    write: WriteHalf<UnixStream>,
}

impl Connection {
    async fn send(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.write.write_all(&line).await
    }

    async fn receive<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, String> {
        let line = self.lines.next().await.ok_or("a program on the socket went away")?;
        let line = line.map_err(|error| format!("a program on the socket sent no line: {error}"))?;
        serde_json::from_str(&line)
            .map_err(|error| format!("a program on the socket sent something else: {error}"))
    }
}

/// The handshake, then what the caller is.
async fn introduce(door: &Door, link: &mut Connection) -> Result<Role, String> {
    let token = door.token().ok_or("there is no token: `consentry setup` makes one")?;
    let challenge: Handshake = link.receive().await?;
    let (proof, answer) = HubProof::answer(token, &challenge, random()).map_err(|error| error.to_string())?;
    link.send(&answer).await.map_err(|error| error.to_string())?;
    let response: Handshake = link.receive().await?;
    proof.finish(&response).map_err(|_| "a program on the socket does not hold the token".to_owned())?;
    link.receive().await
}

/// A relay counts under a browser that is known.
fn under_a_browser(door: &Door, peer: Peer) -> Result<(), String> {
    let program = peer.pid.and_then(parent_program);
    let known = program.as_deref().and_then(door.inner.known_browser);
    match (known, program) {
        (Some(_), _) => Ok(()),
        (None, Some(program)) => {
            Err(format!("a relay was started by {}, which is no known browser", program.display()))
        }
        (None, None) => Err("the system does not say who started a relay".into()),
    }
}

async fn relay(door: &Door, link: Connection) -> session::LinkEnd {
    let Connection { mut lines, mut write } = link;
    let (to_session, incoming) = mpsc::channel(64);
    let (outgoing, mut from_session) = mpsc::channel::<String>(64);
    let reading = async {
        while let Some(Ok(line)) = lines.next().await {
            if to_session.send(line).await.is_err() {
                break;
            }
        }
        drop(to_session);
        std::future::pending::<()>().await;
    };
    let writing = async {
        while let Some(mut message) = from_session.recv().await {
            message.push('\n');
            if write.write_all(message.as_bytes()).await.is_err() {
                break;
            }
        }
    };
    let session = session::run(door, Pipe { incoming, outgoing, transport: Transport::Native });
    session::carry(session, reading, writing).await
}

async fn serve_commands(mut link: Connection, commands: &dyn Commands) {
    let mut ahead: VecDeque<String> = VecDeque::new();
    loop {
        let line = match ahead.pop_front() {
            Some(line) => line,
            None => match link.lines.next().await {
                Some(Ok(line)) => line,
                None | Some(Err(_)) => return,
            },
        };
        let request: Request = match serde_json::from_str(&line) {
            Ok(request) => request,
            Err(error) => {
                let failure = Failure::new(ErrorCode::BadFrame, format!("that is no request: {error}"));
                let _ = link.send(&Reply { result: None, error: Some(failure), more: false }).await;
                return;
            }
        };
        let (replies, mut outbox) = mpsc::channel(16);
        let running = commands.run(request, replies);
        tokio::pin!(running);
        let mut done = false;
        loop {
            tokio::select! {
                () = &mut running, if !done => done = true,
                reply = outbox.recv() => match reply {
                    Some(reply) => {
                        if link.send(&reply).await.is_err() {
                            return;
                        }
                    }
                    None => break,
                },
                // Whoever follows something ends it by going away. What it asks meanwhile waits its turn.
                next = link.lines.next(), if !done && ahead.len() < MAX_AHEAD => match next {
                    Some(Ok(line)) => ahead.push_back(line),
                    None | Some(Err(_)) => return,
                },
            }
        }
    }
}
