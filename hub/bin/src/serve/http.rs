//! The two HTTP listeners: bounded, so that whoever opens connections and says nothing keeps nobody out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

/// Connections of one listener. Over that, one that has not sent a whole request goes, the oldest first.
const MAX_CONNECTIONS: usize = 200;
/// How long the head of a request may take, also the next one of a connection that is kept.
const HEAD: Duration = Duration::from_secs(20);

struct Connection {
    task: AbortHandle,
    /// It has sent a whole request's head.
    spoke: Arc<AtomicBool>,
}

/// Serves until `stop` is raised.
pub(crate) async fn serve(listener: TcpListener, routes: Router, stop: CancellationToken) {
    let mut tasks = JoinSet::new();
    let mut connections: VecDeque<Connection> = VecDeque::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.retain(|connection| !connection.task.is_finished());
                    if connections.len() >= MAX_CONNECTIONS && !make_room(&mut connections) {
                        continue;
                    }
                    let spoke = Arc::new(AtomicBool::new(false));
                    let task = tasks.spawn(connection(stream, routes.clone(), spoke.clone()));
                    connections.push_back(Connection { task, spoke });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was lost");
                    // Out of descriptors, most likely: others have to end first.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    tasks.shutdown().await;
}

/// Ends the oldest connection that never said anything. False if all of them did.
fn make_room(connections: &mut VecDeque<Connection>) -> bool {
    let silent = connections.iter().position(|connection| !connection.spoke.load(Ordering::Relaxed));
    if let Some(silent) = silent.and_then(|at| connections.remove(at)) {
        silent.task.abort();
        return true;
    }
    false
}

async fn connection(stream: TcpStream, routes: Router, spoke: Arc<AtomicBool>) {
    // A small answer must not wait for a larger one.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        spoke.store(true, Ordering::Relaxed);
        routes.clone().call(request.map(Body::new))
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection ended");
    }
}

/// As many descriptors as the system gives: both listeners, the socket and a dialog fit well within the usual limits.
pub(crate) fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::debug!(%error, "the limit of descriptors stays");
    }
}
