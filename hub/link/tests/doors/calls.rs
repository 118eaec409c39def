//! Calls: their reply, their end, and what becomes of them when the link or the caller goes away.

use std::time::Duration;

use consentry_wire::frame::{DetachReason, Event, FromExtension, Op, ToExtension};
use consentry_wire::{ErrorCode, Failure, Outcome};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::extension::Extension;
use crate::scene::{Scene, label, profile, until};

const LIMIT: Duration = Duration::from_secs(20);

async fn call(scene: &Scene, name: &str, limit: Duration) -> Result<Value, Failure> {
    scene.links.call(&profile(name), &label(), Op::ListTabs, limit).await
}

#[tokio::test]
async fn a_call_brings_the_reply_or_the_failure_that_the_browser_gave() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    let answering = async {
        let first = extension.hear_call().await;
        let second = extension.hear_call().await;
        assert_ne!(first.id, second.id);
        assert_eq!((&first.grant, first.deadline_ms), (&label(), 20_000));
        let error = Failure::new(ErrorCode::UnknownTab, "no such tab").maybe_done();
        extension.say(&FromExtension::Failed { id: second.id, error }).await;
        extension.say(&FromExtension::Done { id: first.id, result: json!({ "tabs": [] }) }).await;
    };
    let (first, second, ()) =
        tokio::join!(call(&scene, "k3x9", LIMIT), call(&scene, "k3x9", LIMIT), answering);
    assert_eq!(first.unwrap(), json!({ "tabs": [] }));
    let failure = second.unwrap_err();
    assert_eq!((failure.code, failure.outcome), (ErrorCode::UnknownTab, Outcome::MaybeDone));
}

#[tokio::test]
async fn what_happened_before_a_reply_is_heard_before_it() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    let answering = async {
        let call = extension.hear_call().await;
        extension.say(&FromExtension::Event(Event::Detached { tab: 7, reason: DetachReason::Closed })).await;
        extension.say(&FromExtension::Done { id: call.id, result: json!({}) }).await;
    };
    let calling = async {
        call(&scene, "k3x9", LIMIT).await.unwrap();
        scene.heard.all()
    };
    let (heard, ()) = tokio::join!(calling, answering);
    assert_eq!(heard, ["linked k3x9 w1", "k3x9 Detached { tab: 7, reason: Closed }"]);
}

#[tokio::test]
async fn a_browser_that_is_not_linked_is_a_typed_error_at_once() {
    let scene = Scene::start().await;
    let failure = call(&scene, "k3x9", LIMIT).await.unwrap_err();
    assert_eq!((failure.code, failure.outcome), (ErrorCode::ExtensionNotConnected, Outcome::NotStarted));
    assert!(failure.next.contains("extension"));
}

#[tokio::test(start_paused = true)]
async fn a_browser_that_does_not_answer_ends_in_the_deadline_and_is_told() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    let started = Instant::now();
    let failure = call(&scene, "k3x9", Duration::from_secs(1)).await.unwrap_err();
    assert_eq!((failure.code, failure.outcome), (ErrorCode::DeadlineExceeded, Outcome::MaybeDone));
    assert!(started.elapsed() <= Duration::from_millis(1300), "{:?}", started.elapsed());
    let late = extension.hear_call().await;
    assert_eq!(late.deadline_ms, 1000);
    let cancel = extension.hear_where(|frame| matches!(frame, ToExtension::Cancel { .. })).await;
    assert_eq!(cancel, ToExtension::Cancel { id: late.id });

    // The answer comes all the same, and belongs to nobody.
    extension.say(&FromExtension::Done { id: late.id, result: json!("late") }).await;
    let answering = async {
        let call = extension.hear_call().await;
        extension.say(&FromExtension::Done { id: call.id, result: json!("in time") }).await;
    };
    let (answer, ()) = tokio::join!(call(&scene, "k3x9", LIMIT), answering);
    assert_eq!(answer.unwrap(), json!("in time"));
}

#[tokio::test]
async fn whoever_stops_waiting_tells_the_browser() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    let id = {
        let calling = call(&scene, "k3x9", LIMIT);
        tokio::pin!(calling);
        tokio::select! {
            _ = &mut calling => panic!("nobody has answered"),
            call = extension.hear_call() => call.id,
        }
    };
    let cancel = extension.hear_where(|frame| matches!(frame, ToExtension::Cancel { .. })).await;
    assert_eq!(cancel, ToExtension::Cancel { id });
}

#[tokio::test]
async fn an_answered_call_is_not_cancelled() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    for _ in 0..2 {
        let answering = async {
            let call = extension.hear_where(|frame| !matches!(frame, ToExtension::State(_))).await;
            let ToExtension::Call(call) = call else { panic!("{call:?}") };
            extension.say(&FromExtension::Done { id: call.id, result: json!({}) }).await;
        };
        let (answer, ()) = tokio::join!(call(&scene, "k3x9", LIMIT), answering);
        assert!(answer.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_that_is_lost_ends_its_calls_at_once_and_no_other_links() {
    let scene = Scene::start().await;
    let mut lost = Extension::linked(&scene, "k3x9", "w1").await;
    let mut stays = Extension::linked(&scene, "m4y8", "w1").await;
    let losing = async {
        lost.hear_call().await;
        lost.hear_call().await;
        drop(lost);
        Instant::now()
    };
    let answering = async {
        let call = stays.hear_call().await;
        // Not before the other is gone.
        until(|| scene.linked() == ["m4y8"]).await;
        stays.say(&FromExtension::Done { id: call.id, result: json!("stays") }).await;
    };
    let failing = async {
        let failed = tokio::join!(call(&scene, "k3x9", LIMIT), call(&scene, "k3x9", LIMIT));
        (failed, Instant::now())
    };
    let (((one, two), ended), lost_at, answer, ()) =
        tokio::join!(failing, losing, call(&scene, "m4y8", LIMIT), answering);
    for failure in [one.unwrap_err(), two.unwrap_err()] {
        assert_eq!((failure.code, failure.outcome), (ErrorCode::LinkLost, Outcome::MaybeDone));
    }
    assert!(ended - lost_at < Duration::from_millis(50), "{:?}", ended - lost_at);
    assert_eq!(answer.unwrap(), json!("stays"));
    until(|| scene.heard.all().contains(&"unlinked k3x9".to_owned())).await;
    assert_eq!(call(&scene, "k3x9", LIMIT).await.unwrap_err().code, ErrorCode::ExtensionNotConnected);
}

/// What may wait for one browser is bounded; 3000 calls of this size are more.
async fn fill(scene: &Scene) -> (Failure, usize) {
    let (name, grant) = (profile("k3x9"), label());
    let op = Op::OpenTab { url: "x".repeat(50_000), group: String::new() };
    let mut calls: FuturesUnordered<_> =
        (0..3000).map(|_| scene.links.call(&name, &grant, op.clone(), LIMIT)).collect();
    let first = calls.next().await.unwrap().unwrap_err();
    (first, calls.len())
}

#[tokio::test(start_paused = true)]
async fn a_browser_that_reads_nothing_is_busy_at_once_and_recovers() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    let started = Instant::now();
    let (failure, _) = fill(&scene).await;
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Busy, Outcome::NotStarted));
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    let calling = async {
        loop {
            match call(&scene, "k3x9", LIMIT).await {
                Err(failure) if failure.code == ErrorCode::Busy => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                other => return other,
            }
        }
    };
    let answering = async {
        loop {
            let call = extension.hear_call().await;
            if call.op == Op::ListTabs {
                extension.say(&FromExtension::Done { id: call.id, result: json!("recovered") }).await;
                return;
            }
        }
    };
    let (answer, ()) = tokio::join!(calling, answering);
    assert_eq!(answer.unwrap(), json!("recovered"));
}

#[tokio::test(start_paused = true)]
async fn no_call_that_was_given_up_reaches_a_browser_without_its_cancellation() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    fill(&scene).await;
    // Everybody has stopped waiting, while the browser has read next to nothing.
    let mut running = std::collections::BTreeSet::new();
    let mut delivered = 0;
    let mut states = 0;
    while states < 3 {
        match extension.hear().await.expect("the link ended") {
            ToExtension::Call(call) => {
                delivered += 1;
                running.insert(call.id);
                states = 0;
            }
            ToExtension::Cancel { id } => {
                running.remove(&id);
                states = 0;
            }
            ToExtension::State(_) => states += 1,
            _ => {}
        }
    }
    assert!(running.is_empty(), "{} of {delivered} run for nobody", running.len());
}
