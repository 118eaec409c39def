//! The state as it changes.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::Method;
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::time::Instant;

use crate::scene::{Scene, With as _, ask};

/// The events of one page.
struct Events {
    stream: BodyDataStream,
    buffer: String,
}

impl Events {
    async fn of(scene: &Scene) -> Self {
        let cookie = scene.cookie().await;
        let response = scene.send(ask(Method::GET, "/events").with("cookie", cookie)).await;
        assert_eq!(response.status(), 200);
        let body: Body = response.into_body();
        Self { stream: body.into_data_stream(), buffer: String::new() }
    }

    /// The next state; none at the end. What only keeps the connection alive is left out.
    async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let data = event.strip_prefix("data: ").or_else(|| event.strip_prefix("data:"));
                let state = data.map(|data| serde_json::from_str(data).unwrap());
                self.buffer = rest.to_owned();
                if state.is_some() {
                    return state;
                }
            }
            let bytes = self.stream.next().await?.unwrap();
            self.buffer.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    async fn machine(&mut self) -> String {
        let state = tokio::time::timeout(Duration::from_secs(20), self.next()).await;
        let state = state.expect("an event in time").expect("the stream goes on");
        state["machine"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn the_state_comes_at_once() {
    let scene = Scene::new();
    let started = Instant::now();
    let mut events = Events::of(&scene).await;
    assert_eq!(events.machine().await, "desk");
    assert!(started.elapsed() < Duration::from_millis(50), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_change_comes_soon_and_as_it_is_by_then() {
    let scene = Scene::new();
    let mut events = Events::of(&scene).await;
    events.machine().await;
    // Long after the last one.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let started = Instant::now();
    scene.change("changed");
    assert_eq!(events.machine().await, "changed");
    assert!(started.elapsed() <= Duration::from_millis(200), "{:?}", started.elapsed());
    scene.change("changed again");
    tokio::time::sleep(Duration::from_millis(10)).await;
    scene.change("at last");
    let started = Instant::now();
    while events.machine().await != "at last" {}
    assert!(started.elapsed() <= Duration::from_millis(200), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn many_changes_are_few_events_and_the_last_is_among_them() {
    let scene = Scene::new();
    let mut events = Events::of(&scene).await;
    events.machine().await;
    let changing = async {
        for n in 1..=200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            scene.change(&n.to_string());
        }
    };
    let counting = async {
        let mut seen = 1;
        while events.machine().await != "200" {
            seen += 1;
        }
        seen
    };
    let ((), seen) = tokio::join!(changing, counting);
    assert!((2..=9).contains(&seen), "{seen} events in a second");
}

#[tokio::test(start_paused = true)]
async fn ages_go_on_while_nothing_changes() {
    let scene = Scene::new();
    let mut events = Events::of(&scene).await;
    events.machine().await;
    for _ in 0..3 {
        let started = Instant::now();
        events.machine().await;
        let waited = started.elapsed();
        assert!((Duration::from_secs(4)..Duration::from_secs(6)).contains(&waited), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_page_hears_every_change_and_the_end_of_the_hub() {
    let scene = Scene::new();
    let mut pages = [Events::of(&scene).await, Events::of(&scene).await, Events::of(&scene).await];
    scene.change("changed");
    for page in &mut pages {
        while page.machine().await != "changed" {}
    }
    scene.stop.cancel();
    for page in &mut pages {
        let ended =
            tokio::time::timeout(Duration::from_secs(1), async { while page.next().await.is_some() {} });
        assert!(ended.await.is_ok());
    }
}
