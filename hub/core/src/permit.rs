//! The permit: the proof that a call was admitted.

use std::sync::Arc;
use std::time::Duration;

use consentry_gate::KeyName;
use consentry_wire::site::Origin;
use consentry_wire::{Epoch, ErrorCode, Failure, GrantLabel, PathName, ProfileId};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::handle::Hub;

/// One admitted call. Dropping it ends the call.
///
/// It cannot be made up:
/// ```compile_fail,E0451
/// let permit = consentry_core::Permit { finished: false };
/// ```
/// It cannot be copied, for one admission is one call:
/// ```compile_fail,E0599
/// fn twice(permit: consentry_core::Permit) -> (consentry_core::Permit, consentry_core::Permit) {
///     (permit.clone(), permit)
/// }
/// ```
/// And no tool can be called without one:
/// ```compile_fail,E0061
/// async fn call(tool: &dyn consentry_core::Tool) {
///     let _ = tool.call(Default::default()).await;
/// }
/// ```
/// while with one it can:
/// ```
/// async fn call(tool: &dyn consentry_core::Tool, permit: &consentry_core::Permit) {
///     let _ = tool.call(permit, Default::default()).await;
/// }
/// ```
#[derive(Debug)]
pub struct Permit {
    pub(crate) hub: Hub,
    pub(crate) label: GrantLabel,
    pub(crate) path: PathName,
    pub(crate) key: KeyName,
    pub(crate) epoch: Epoch,
    pub(crate) deadline: Instant,
    pub(crate) cancel: CancellationToken,
    pub(crate) sequence: u64,
    pub(crate) asked: Option<String>,
    pub(crate) finished: bool,
}

impl Permit {
    /// The grant's label.
    pub fn label(&self) -> &GrantLabel {
        &self.label
    }

    /// The path.
    pub fn path(&self) -> &PathName {
        &self.path
    }

    /// The key that holds the grant.
    pub fn key(&self) -> &KeyName {
        &self.key
    }

    /// The epoch in which it was admitted.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// When the call is over at the latest.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The time that is left, at most `limit`.
    pub fn time_left(&self, limit: Duration) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()).min(limit)
    }

    /// The number of the audit line that announced the call.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The origin that the owner was shown when this very call was asked about: it may act there and nowhere else.
    pub fn asked(&self) -> Option<&str> {
        self.asked.as_deref()
    }

    /// Raised when the grant ends.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Has to be called right before each send: the grant lives, nothing is disabled, there is time.
    ///
    /// # Errors
    /// When the call may not go on.
    pub fn check(&self) -> Result<(), Failure> {
        if self.hub.ports().switch.disabled() {
            return Err(Failure::new(ErrorCode::Disabled, "the owner disabled control while the call ran"));
        }
        if self.cancel.is_cancelled() {
            return Err(Failure::new(ErrorCode::GrantEnded, "the grant ended while the call ran"));
        }
        if Instant::now() >= self.deadline {
            return Err(Failure::new(ErrorCode::DeadlineExceeded, "the call took too long"));
        }
        Ok(())
    }

    /// Waits for something, but no longer than the permit holds.
    ///
    /// # Errors
    /// When the grant ends or the deadline passes first; something may have been done.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        self.check()?;
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {
                let ended = || Failure::new(ErrorCode::GrantEnded, "the grant ended while the call ran");
                Err(self.check().err().unwrap_or_else(ended).maybe_done())
            }
            done = work => Ok(done),
            () = tokio::time::sleep_until(self.deadline) => {
                Err(Failure::new(ErrorCode::DeadlineExceeded, "the call took too long").maybe_done())
            }
        }
    }

    /// Makes sure that the grant may touch an origin in a browser profile; asks the owner if need be.
    ///
    /// # Errors
    /// When it may not.
    pub async fn site(&self, profile: &ProfileId, origin: &Origin) -> Result<(), Failure> {
        if self.covers(profile, origin) {
            return self.check();
        }
        self.during(self.hub.site(&self.label, profile, origin)).await?
    }

    /// Whether the grant may touch an origin now, without asking anybody.
    pub fn covers(&self, profile: &ProfileId, origin: &Origin) -> bool {
        let live = self.hub.live();
        let live = live.borrow();
        let grant = live.grants.iter().find(|grant| grant.view.label == self.label);
        grant.is_some_and(|grant| grant.scope(profile).covers(origin))
    }

    /// Ends the call and writes down how.
    pub async fn finish(mut self, fields: Map<String, Value>) {
        self.finished = true;
        self.hub.finished(self.label.clone(), self.sequence, fields).await;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.finished {
            self.hub.dropped(self.label.clone(), self.sequence);
        }
    }
}

/// Cancellation of everything that hangs on one grant.
pub(crate) type Cancellations = std::collections::HashMap<GrantLabel, Arc<CancellationToken>>;
