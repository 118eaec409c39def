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
use crate::links::{Link, OUTBOX, Outgoing, Pending, Transport};

/// A message at least this often keeps an extension's worker alive (it is stopped after 30 s).
const PING: Duration = Duration::from_secs(20);
/// A browser that has said nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a browser may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);
/// How long the last words of a session may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
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

/// Runs a session over its transport. What the session said last, such as why it refused, still goes out.
pub(crate) async fn carry(
    session: impl Future<Output = LinkEnd>,
    reading: impl Future<Output = ()>,
    writing: impl Future<Output = ()>,
) -> LinkEnd {
    tokio::pin!(writing);
    let why = tokio::select! {
        why = session => why,
        () = reading => return LinkEnd::Closed,
        () = &mut writing => return LinkEnd::Closed,
    };
    // The session's end of the channel is gone, so this ends by itself unless the other side takes nothing.
    let _ = tokio::time::timeout(LAST_WORDS, writing).await;
    why
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
    let in_the_way = match admit(door, &hello).await {
        Ok(in_the_way) => in_the_way,
        Err(failure) => return refuse(&pipe, failure).await,
    };
    let hello = Arc::new(hello);
    let (outbox, to_write) = mpsc::channel(OUTBOX);
    let (acknowledged, acknowledged_seen) = watch::channel(Epoch::default());
    let (tell, told) = watch::channel(Epoch::default());
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
    let taken = {
        let mut links = door.inner.links.lock();
        let standing = links.get(&hello.profile).map(|link| Arc::clone(&link.pending));
        // Another may have come in while the one in the way was given its time.
        let unchanged = match (&standing, &in_the_way) {
            (None, _) => true,
            (Some(standing), Some(expected)) => Arc::ptr_eq(standing, expected),
            (Some(_), None) => false,
        };
        if unchanged { Ok(links.insert(hello.profile.clone(), link)) } else { Err(taken(&hello)) }
    };
    let replaced = match taken {
        Ok(replaced) => replaced,
        Err(failure) => return refuse(&pipe, failure).await,
    };
    if let Some(replaced) = replaced {
        // Whatever was attached there is gone: said before anything of the new link is.
        replaced.end.cancel();
        replaced.pending.lose_all();
        door.inner.events.unlinked(&hello.profile);
    }
    tracing::info!(profile = %hello.profile, browser = hello.browser, transport = ?pipe.transport, "a browser is linked");
    door.inner.events.linked(&hello);

    let writing = write_frames(door, &pipe.outgoing, to_write, &pending, &hello.profile, &tell);
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
                // What was never sent cannot have been acted upon.
                FromExtension::Ack { epoch } if epoch > *told.borrow() => {
                    break LinkEnd::BadFrame("an acknowledgement of what was never sent".into());
                }
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

async fn refuse(pipe: &Pipe, failure: Failure) -> LinkEnd {
    let _ = pipe.outgoing.send(write(&ToExtension::Refused { error: failure.clone() })).await;
    LinkEnd::Refused(failure)
}

fn taken(hello: &Hello) -> Failure {
    let message = format!("the profile {} is linked already and answers", hello.profile);
    Failure::new(ErrorCode::ProfileTaken, message)
}

/// Refuses another version, and a second claim of a profile whose link still answers. Gives the link that is to be
/// replaced, if one stands in the way.
async fn admit(door: &Door, hello: &Hello) -> Result<Option<Arc<Pending>>, Failure> {
    hello.version.check("extension")?;
    let standing = door.inner.links.lock().get(&hello.profile).cloned();
    let Some(standing) = standing else { return Ok(None) };
    if standing.hello.worker == hello.worker {
        return Ok(Some(standing.pending));
    }
    let mut heard = standing.heard.clone();
    heard.mark_unchanged();
    let _ = standing.outbox.try_send(Outgoing::Frame(write(&ToExtension::Ping)));
    let alive = tokio::select! {
        heard = tokio::time::timeout(ALIVE, heard.changed()) => matches!(heard, Ok(Ok(()))),
        () = standing.end.cancelled() => false,
    };
    if alive { Err(taken(hello)) } else { Ok(Some(standing.pending)) }
}

/// Writes what is due: the welcome, what is allowed, calls, and pings.
async fn write_frames(
    door: &Door,
    outgoing: &mpsc::Sender<String>,
    mut outbox: mpsc::Receiver<Outgoing>,
    pending: &Pending,
    profile: &ProfileId,
    told: &watch::Sender<Epoch>,
) {
    let mut live = door.inner.hub.live();
    let mut ping = tokio::time::interval(PING);
    ping.reset();
    let mut due = vec![write(&ToExtension::Welcome(door.inner.welcome.clone()))];
    live.mark_changed();
    loop {
        for frame in due.drain(..) {
            for message in split(frame) {
                if outgoing.send(message).await.is_err() {
                    return;
                }
            }
        }
        tokio::select! {
            // What is allowed goes before any call that was made under it, and what is given up before what is new.
            biased;
            changed = live.changed() => {
                if changed.is_err() {
                    return;
                }
                let live = live.borrow_and_update();
                told.send_replace(live.epoch);
                due.push(state(&live, profile));
            }
            id = pending.given_up() => due.push(write(&ToExtension::Cancel { id })),
            next = outbox.recv() => match next {
                Some(Outgoing::Frame(frame)) => due.push(frame),
                // A call that nobody waits for any more is not begun.
                Some(Outgoing::Call { id, frame }) if pending.begins(id) => due.push(frame),
                Some(Outgoing::Call { .. }) => {}
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
