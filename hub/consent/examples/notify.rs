//! Sends the notifications of one grant, its start and its end, to the desktop that the environment names.

use consentry_consent::Notifications;
use consentry_core::Notifier as _;
use consentry_gate::{Decision, EndReason, GrantView, Moment};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (notifications, worker) = Notifications::start();
    let grant = GrantView {
        label: "KQXZ".parse()?,
        path: "browser".parse()?,
        key: "claude-code".parse()?,
        purpose: "Read <b>the</b> invoices & more.".into(),
        caller: None,
        decision: Decision::TimeoutAllow,
        started: Moment(0),
        expires: Moment(60_000),
        last_used: Moment(0),
        calls: 3,
        in_flight: 0,
        last_tool: None,
        sites: Vec::new(),
    };
    notifications.started(&grant);
    notifications.ended(&grant, EndReason::Killed);
    // The worker ends when the handle is gone and everything was sent.
    drop(notifications);
    worker.await;
    Ok(())
}
