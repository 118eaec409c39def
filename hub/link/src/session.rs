//! One link to one browser, whatever carries it.

use std::sync::Arc;
use std::time::Duration;

use consentry_core::Live;
use consentry_wire::chunk::{Joiner, split};
use consentry_wire::frame::{FromExtension, GrantState, Hello, State, ToExtension, read, write};
use consentry_wire::{Epoch, ErrorCode, Failure, PathName, ProfileId};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::door::Door;
use crate::links::{Link, OUTBOX, Pending, Transport};

/// A message at least this often keeps an extension's worker alive (it is stopped after 30 s).
const PING: Duration = Duration::from_secs(20);
/// A browser that has said nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a browser may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);
/// How long a link that is in the way may take to show that it lives.
const ALIVE: Duration = Duration::from_millis(1500);

/// The two directions of one link: whole messages, as the transport carries them.
pub(crate) struct Pipe {
    pub(crate) incoming: mpsc::Receiver<String>,
    pub(crate) outgoing: mpsc::Sender<String>,
    pub(crate) transport: Transport,
}

/// Why a link ended, for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkEnd {
    #[error("the other side closed it")]
    Closed,
    #[error("it was ended from here")]
    Ended,
    #[error("the browser said nothing for {} s", SILENCE.as_secs())]
    Silent,
    #[error("the browser did not say who it is")]
    NoHello,
    #[error("refused: {0}")]
    Refused(Failure),
    #[error("it sent something that is no frame: {0}")]
    BadFrame(String),
}

/// Runs a link that has proved itself until it ends.
pub(crate) async fn run(door: &Door, mut pipe: Pipe) -> LinkEnd {
    let mut joiner = Joiner::default();
    let first = match tokio::time::timeout(HELLO, next(&mut pipe, &mut joiner)).await {
        Err(_) => return LinkEnd::NoHello,
        Ok(Err(end)) => return end,
        Ok(Ok(frame)) => frame,
    };
    let FromExtension::Hello(hello) = first else { return LinkEnd::NoHello };
    if let Err(failure) = admit(door, &hello).await {
        let _ = pipe.outgoing.send(write(&ToExtension::Refused { error: failure.clone() })).await;
        return LinkEnd::Refused(failure);
    }
    let hello = Arc::new(hello);
    let (outbox, to_write) = mpsc::channel(OUTBOX);
    let (acknowledged, acknowledged_seen) = watch::channel(Epoch::default());
    let (heard, heard_seen) = watch::channel(0);
    let end = CancellationToken::new();
    let pending = Arc::new(Pending::default());
    let link = Link {
        hello: Arc::clone(&hello),
        transport: pipe.transport,
        since: tokio::time::Instant::now(),
        outbox,
        pending: Arc::clone(&pending),
        acknowledged: acknowledged_seen,
        heard: heard_seen,
        end: end.clone(),
    };
    let replaced = door.inner.links.lock().insert(hello.profile.clone(), link);
    if let Some(replaced) = replaced {
        replaced.end.cancel();
    }
    tracing::info!(profile = %hello.profile, browser = hello.browser, transport = ?pipe.transport, "a browser is linked");
    door.inner.events.linked(&hello);

    let writing = write_frames(door, &pipe.outgoing, to_write, &hello.profile);
    let reading = async {
        loop {
            let frame = match tokio::time::timeout(SILENCE, next_of(&mut pipe.incoming, &mut joiner)).await {
                Err(_) => break LinkEnd::Silent,
                Ok(Err(end)) => break end,
                Ok(Ok(frame)) => frame,
            };
            heard.send_modify(|count| *count += 1);
            match frame {
                FromExtension::Done { id, result } => pending.settle(id, Ok(result)),
                FromExtension::Failed { id, error } => pending.settle(id, Err(error)),
                FromExtension::Ack { epoch } => {
                    acknowledged.send_if_modified(|seen| std::mem::replace(seen, (*seen).max(epoch)) < epoch);
                }
                FromExtension::Event(event) => door.inner.events.event(&hello.profile, event),
                FromExtension::Pong => {}
                FromExtension::Hello(_) => break LinkEnd::BadFrame("a second hello".into()),
            }
        }
    };
    let why = tokio::select! {
        biased;
        () = end.cancelled() => LinkEnd::Ended,
        why = reading => why,
        () = writing => LinkEnd::Closed,
    };

    // Only if it is still this link that stands there: another may have taken its place.
    let ours = {
        let mut links = door.inner.links.lock();
        let ours = links.get(&hello.profile).is_some_and(|link| Arc::ptr_eq(&link.pending, &pending));
        if ours {
            links.remove(&hello.profile);
        }
        ours
    };
    end.cancel();
    pending.lose_all();
    if ours {
        door.inner.events.unlinked(&hello.profile);
    }
    tracing::info!(profile = %hello.profile, %why, "a browser is no longer linked");
    why
}

/// Refuses another version, and a second claim of a profile whose link still answers.
async fn admit(door: &Door, hello: &Hello) -> Result<(), Failure> {
    hello.version.check("extension")?;
    let standing = door.inner.links.lock().get(&hello.profile).cloned();
    let Some(standing) = standing.filter(|link| link.hello.worker != hello.worker) else { return Ok(()) };
    let mut heard = standing.heard.clone();
    heard.mark_unchanged();
    let _ = standing.outbox.try_send(write(&ToExtension::Ping));
    let alive = tokio::select! {
        heard = tokio::time::timeout(ALIVE, heard.changed()) => matches!(heard, Ok(Ok(()))),
        () = standing.end.cancelled() => false,
    };
    if alive {
        let message = format!("the profile {} is linked already and answers", hello.profile);
        return Err(Failure::new(ErrorCode::ProfileTaken, message));
    }
    Ok(())
}

/// Writes what is due: the welcome, what is allowed, calls, and pings.
async fn write_frames(
    door: &Door,
    outgoing: &mpsc::Sender<String>,
    mut outbox: mpsc::Receiver<String>,
    profile: &ProfileId,
) {
    let mut live = door.inner.hub.live();
    let mut ping = tokio::time::interval(PING);
    ping.reset();
    let welcome = write(&ToExtension::Welcome(door.inner.welcome.clone()));
    let mut due = vec![welcome, state(&live.borrow_and_update(), profile)];
    loop {
        for frame in due.drain(..) {
            for message in split(frame) {
                if outgoing.send(message).await.is_err() {
                    return;
                }
            }
        }
        tokio::select! {
            // What is allowed goes before any call that was made under it.
            biased;
            changed = live.changed() => {
                if changed.is_err() {
                    return;
                }
                due.push(state(&live.borrow_and_update(), profile));
            }
            frame = outbox.recv() => match frame {
                Some(frame) => due.push(frame),
                None => return,
            },
            _ = ping.tick() => due.push(write(&ToExtension::Ping)),
        }
    }
}

/// What one browser is allowed.
fn state(live: &Live, profile: &ProfileId) -> String {
    let browser = PathName::browser();
    let grants = live.grants.iter().filter(|grant| grant.view.path == browser).map(|grant| GrantState {
        label: grant.view.label.clone(),
        path: grant.view.path.clone(),
        client: grant.view.key.to_string(),
        purpose: grant.view.purpose.clone(),
        sites: grant.scope(profile),
        expires_in_ms: grant.view.expires.since(live.at),
    });
    write(&ToExtension::State(State { epoch: live.epoch, disabled: live.disabled, grants: grants.collect() }))
}

async fn next(pipe: &mut Pipe, joiner: &mut Joiner) -> Result<FromExtension, LinkEnd> {
    next_of(&mut pipe.incoming, joiner).await
}

async fn next_of(
    incoming: &mut mpsc::Receiver<String>,
    joiner: &mut Joiner,
) -> Result<FromExtension, LinkEnd> {
    loop {
        let message = incoming.recv().await.ok_or(LinkEnd::Closed)?;
        let whole = joiner.push(message).map_err(|error| LinkEnd::BadFrame(error.to_string()))?;
        if let Some(frame) = whole {
            return read(&frame).map_err(|error| LinkEnd::BadFrame(error.to_string()));
        }
    }
}
