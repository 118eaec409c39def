//! Server-sent events: the state, whenever it changes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::state::StateSource;

/// The state is sent no more often than this, whatever happens.
const AT_MOST: Duration = Duration::from_millis(150);
/// And at least so often, because ages and counts go on.
const AT_LEAST: Duration = Duration::from_secs(5);

pub(crate) fn stream(
    source: Arc<dyn StateSource>,
    mut changes: watch::Receiver<u64>,
    stop: CancellationToken,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    changes.mark_changed();
    let begun = (source, changes, stop, None::<Instant>);
    let states = futures_util::stream::unfold(begun, |(source, mut changes, stop, last)| async move {
        tokio::select! {
            () = stop.cancelled() => return None,
            changed = changes.changed() => changed.ok()?,
            () = tokio::time::sleep(AT_LEAST) => {}
        }
        // What is sent is what is so now, not what was when it had to wait.
        if let Some(last) = last {
            tokio::time::sleep_until(last + AT_MOST).await;
        }
        changes.mark_unchanged();
        let state = source.state().await;
        // A state is plain data, which always serialises.
        let event = Event::default().json_data(&state).unwrap_or_default();
        Some((Ok(event), (source, changes, stop, Some(Instant::now()))))
    });
    Sse::new(states).keep_alive(KeepAlive::default())
}
