//! Many that only take up room.

use std::time::Duration;

use tokio::time::Instant;

use crate::extension::{Carrier, Extension};
use crate::scene::{Scene, until};

#[tokio::test(start_paused = true)]
async fn two_hundred_that_never_speak_keep_nobody_out_for_longer_than_an_introduction() {
    let scene = Scene::start().await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(Carrier::socket(&scene.socket).await);
    }
    let started = Instant::now();
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    assert!(started.elapsed() <= Duration::from_millis(5100), "{:?}", started.elapsed());
    extension.hear_state().await;
}

#[tokio::test(start_paused = true)]
async fn a_link_that_stands_hears_nothing_of_a_flood() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(Carrier::socket(&scene.socket).await);
    }
    for _ in 0..5 {
        extension.hear_state().await;
    }
    assert_eq!(scene.linked(), ["k3x9"]);
    drop(silent);
    Extension::linked(&scene, "m4y8", "w1").await;
    until(|| scene.linked() == ["k3x9"]).await;
}

#[tokio::test]
async fn a_hundred_that_prove_and_break_off_leave_nothing_behind() {
    let scene = Scene::start().await;
    for round in 0..100 {
        let extension = Extension::proved(&scene).await;
        if round % 2 == 0 {
            drop(extension.welcomed("m4y8", &format!("w{round}")).await);
        }
    }
    until(|| scene.linked().is_empty()).await;
    Extension::linked(&scene, "k3x9", "w1").await;
}
