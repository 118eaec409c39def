//! Several browsers at once, and several claims of one profile.

use std::time::Duration;

use consentry_wire::frame::{Op, ToExtension};
use consentry_wire::{ErrorCode, Outcome};
use serde_json::json;
use tokio::time::Instant;

use crate::extension::{Extension, hello};
use crate::scene::{Scene, label, profile, until};

const LIMIT: Duration = Duration::from_secs(20);

/// What the hub makes of a claim.
async fn claim(scene: &Scene, worker: &str) -> (ToExtension, Extension) {
    let mut extension = Extension::proved(scene).await;
    extension.say(&hello("k3x9", worker)).await;
    let frame = extension.hear().await.expect("an answer");
    (frame, extension)
}

fn refused(frame: &ToExtension) -> bool {
    matches!(frame, ToExtension::Refused { error } if error.code == ErrorCode::ProfileTaken)
}

fn welcome(frame: &ToExtension) -> bool {
    matches!(frame, ToExtension::Welcome(_))
}

#[tokio::test(start_paused = true)]
async fn a_second_claim_of_a_profile_that_lives_is_refused_and_the_first_goes_on() {
    let scene = Scene::start().await;
    let standing = tokio::spawn(Extension::linked(&scene, "k3x9", "w1").await.work());
    for _ in 0..3 {
        let (answer, mut second) = claim(&scene, "w2").await;
        assert!(refused(&answer), "{answer:?}");
        assert_eq!(second.hear().await, None);
    }
    let answer = scene.links.call(&profile("k3x9"), &label(), Op::ListTabs, LIMIT).await;
    assert_eq!(answer.unwrap(), json!({ "worker": "works" }));
    assert!(!standing.is_finished());
    assert_eq!(scene.heard.all(), ["linked k3x9 w1"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_profile_whose_link_is_dead_takes_its_place() {
    let scene = Scene::start().await;
    let mut dead = Extension::linked(&scene, "k3x9", "w1").await;
    let started = Instant::now();
    let (answer, _second) = claim(&scene, "w2").await;
    assert!(welcome(&answer), "{answer:?}");
    assert!(started.elapsed() <= Duration::from_secs(2), "{:?}", started.elapsed());
    dead.ended().await;
    assert_eq!(scene.linked(), ["k3x9"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_worker_takes_its_own_place_at_once() {
    let scene = Scene::start().await;
    let mut first = Extension::linked(&scene, "k3x9", "w1").await;
    let name = profile("k3x9");
    let grant = label();
    let calling = scene.links.call(&name, &grant, Op::ListTabs, LIMIT);
    let replacing = async {
        first.hear_call().await;
        let started = Instant::now();
        let (answer, again) = claim(&scene, "w1").await;
        assert!(welcome(&answer), "{answer:?}");
        assert!(started.elapsed() < Duration::from_millis(50), "{:?}", started.elapsed());
        again
    };
    let (lost, again) = tokio::join!(calling, replacing);
    let failure = lost.unwrap_err();
    assert_eq!((failure.code, failure.outcome), (ErrorCode::LinkLost, Outcome::MaybeDone));
    first.ended().await;
    tokio::spawn(again.work());
    assert!(scene.links.call(&name, &grant, Op::ListTabs, LIMIT).await.is_ok());
    assert_eq!(scene.linked(), ["k3x9"]);
}

#[tokio::test(start_paused = true)]
async fn a_link_that_is_replaced_is_told_as_gone_before_the_one_in_its_place() {
    let scene = Scene::start().await;
    let mut first = Extension::linked(&scene, "k3x9", "w1").await;
    let (answer, _again) = claim(&scene, "w1").await;
    assert!(welcome(&answer), "{answer:?}");
    first.ended().await;
    // What was attached through the first is attached no more.
    assert_eq!(scene.heard.all(), ["linked k3x9 w1", "unlinked k3x9", "linked k3x9 w1"]);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_claim_a_dead_profile_at_once_one_is_refused() {
    let scene = Scene::start().await;
    let _dead = Extension::linked(&scene, "k3x9", "w1").await;
    let claim = |worker: &'static str| {
        let scene = &scene;
        async move {
            let mut extension = Extension::proved(scene).await;
            extension.say(&hello("k3x9", worker)).await;
            let answer = extension.hear().await.expect("an answer");
            // Whoever is let in lives, and shows it.
            (answer, tokio::spawn(extension.work()))
        }
    };
    let ((two, first), (three, second)) = tokio::join!(claim("w2"), claim("w3"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let welcomed = [&two, &three].into_iter().filter(|answer| welcome(answer)).count();
    let running = [first, second].iter().filter(|task| !task.is_finished()).count();
    assert_eq!((welcomed, running), (1, 1), "{two:?} {three:?}");
}

#[tokio::test]
async fn several_browsers_are_linked_at_once_and_each_hears_its_own_calls() {
    let scene = Scene::start().await;
    let mut one = Extension::linked(&scene, "k3x9", "w1").await;
    let two = tokio::spawn(Extension::linked(&scene, "m4y8", "w1").await.work());
    assert_eq!(scene.linked(), ["k3x9", "m4y8"]);
    assert!(scene.links.call(&profile("m4y8"), &label(), Op::ListTabs, LIMIT).await.is_ok());
    one.hear_state().await;
    scene.links.reload();
    let next = one.hear_where(|frame| !matches!(frame, ToExtension::State(_))).await;
    assert_eq!(next, ToExtension::Reload, "it heard a call of another browser");
    two.abort();
    until(|| scene.linked() == ["k3x9"]).await;
}
