//! Desktop notifications at the start and the end of a grant.

use consentry_core::Notifier;
use consentry_gate::{Decision, EndReason, GrantView};
use tokio::sync::mpsc;

use crate::platform;

/// Sends notifications, one after the other; a desktop that does not take them costs nothing but them.
#[derive(Debug)]
pub struct Notifications {
    queue: mpsc::Sender<Notice>,
}

/// One notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) title: String,
    pub(crate) body: String,
}

impl Notifications {
    /// The handle, and the worker that has to be run.
    pub fn start() -> (Self, impl Future<Output = ()> + Send) {
        let (queue, mut notices) = mpsc::channel::<Notice>(16);
        let worker = async move {
            let mut desktop = platform::Desktop::default();
            while let Some(notice) = notices.recv().await {
                if let Err(error) = desktop.show(&notice).await {
                    tracing::debug!(%error, "the desktop takes no notification");
                }
            }
        };
        (Self { queue }, worker)
    }
}

impl Notifier for Notifications {
    fn started(&self, grant: &GrantView) {
        // A full queue means that the desktop does not take them.
        let _ = self.queue.try_send(started(grant));
    }

    fn ended(&self, grant: &GrantView, reason: EndReason) {
        let _ = self.queue.try_send(ended(grant, reason));
    }
}

fn started(grant: &GrantView) -> Notice {
    let why = match grant.decision {
        Decision::Allowed => "You allowed it.",
        Decision::TimeoutAllow => "Nobody answered, and your rule allows it.",
        Decision::NoConsent => "Started with --no-consent.",
    };
    Notice {
        title: format!("{} may use the {} path", grant.key, grant.path),
        body: format!("{why}\n“{}”", grant.purpose),
    }
}

fn ended(grant: &GrantView, reason: EndReason) -> Notice {
    let why = match reason {
        EndReason::Expired => "Its time is over.",
        EndReason::Idle => "It was not used any more.",
        EndReason::Released => "It was given back.",
        EndReason::Killed => "You ended it.",
        EndReason::Stopped => "You stopped it in the browser.",
        EndReason::Disabled => "You disabled everything.",
        EndReason::KeyRevoked => "Its key was revoked.",
        EndReason::Away => "The screen was locked or the machine slept.",
        EndReason::RulesChanged => "Your settings changed.",
        EndReason::AuditFailed => "The audit cannot be written.",
        EndReason::Shutdown => "Consentry stopped.",
    };
    Notice {
        title: format!("{} no longer uses the {} path", grant.key, grant.path),
        body: format!("{why} Calls: {}.\n“{}”", grant.calls, grant.purpose),
    }
}
