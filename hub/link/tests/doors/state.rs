//! What each browser is allowed: sent on each change, again and again, and acknowledged.

use std::collections::BTreeMap;
use std::time::Duration;

use consentry_gate::{EndReason, PathRules, Remembered, Rules, SiteRule, Which};
use consentry_wire::frame::{Event, FromExtension, Op, ToExtension};
use consentry_wire::site::{Site, SiteScope};
use consentry_wire::{Epoch, PathName};
use tokio::time::Instant;

use crate::extension::Extension;
use crate::scene::{Scene, Setting, label, profile, until};

const LIMIT: Duration = Duration::from_secs(20);

fn domain(host: &str) -> Site {
    Site::Domain { host: host.into() }
}

#[tokio::test(start_paused = true)]
async fn a_welcome_and_what_is_allowed_come_first() {
    let scene = Scene::start().await;
    let label = scene.grant("browser", &[]).await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    let Some(ToExtension::State(state)) = extension.hear().await else { panic!("no state") };
    assert_eq!(state.grants.len(), 1);
    let grant = &state.grants[0];
    assert_eq!((&grant.label, grant.client.as_str()), (&label, "agent"));
    assert_eq!((grant.path.clone(), grant.purpose.as_str()), (PathName::browser(), "Read the invoices."));
    assert!((1..=30 * 60_000).contains(&grant.expires_in_ms), "{}", grant.expires_in_ms);
    assert!(!state.disabled);
}

#[tokio::test]
async fn a_change_is_told_before_any_call_that_was_made_under_it() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    let name = profile("k3x9");
    for round in 0..30 {
        let calling = async {
            let label = scene.grant("browser", &[]).await;
            let answer = scene.links.call(&name, &label, Op::ListTabs, LIMIT).await;
            scene.hub.kill_soon(Which::All, EndReason::Stopped, "browser");
            answer.unwrap();
            label
        };
        let hearing = async {
            let mut allowed = Vec::new();
            loop {
                match extension.hear().await.expect("the link ended") {
                    ToExtension::State(state) => allowed = state.grants,
                    ToExtension::Call(call) => {
                        let id = call.id;
                        extension.say(&FromExtension::Done { id, result: serde_json::json!({}) }).await;
                        return (call.grant, allowed);
                    }
                    _ => {}
                }
            }
        };
        let (granted, (label, allowed)) = tokio::join!(calling, hearing);
        assert_eq!(granted, label);
        assert!(allowed.iter().any(|grant| grant.label == label), "round {round}: {allowed:?}");
        until(|| scene.hub.live().borrow().grants.is_empty()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_allowed_is_told_again_every_two_seconds() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    extension.hear_state().await;
    let mut last = Instant::now();
    for _ in 0..10 {
        extension.hear_state().await;
        assert!(last.elapsed() <= Duration::from_millis(2050), "{:?}", last.elapsed());
        last = Instant::now();
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_grant_and_the_switch_are_told_at_once() {
    let scene = Scene::start().await;
    scene.grant("browser", &[]).await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    let before = extension.hear_state().await;
    assert_eq!(before.grants.len(), 1);
    let started = Instant::now();
    scene.hub.kill_soon(Which::All, EndReason::Killed, "page");
    let after = extension.hear_state().await;
    assert!(after.grants.is_empty() && after.epoch > before.epoch);
    scene.hub.disable_soon("page");
    let disabled =
        extension.hear_where(|frame| matches!(frame, ToExtension::State(state) if state.disabled)).await;
    assert!(matches!(disabled, ToExtension::State(state) if state.epoch > after.epoch));
    assert!(started.elapsed() < Duration::from_millis(50), "{:?}", started.elapsed());
}

#[tokio::test]
async fn each_profile_is_told_its_own_sites() {
    let remembered = |host: &str, name: &str, path: &str, key: &str| Remembered {
        site: domain(host),
        path: path.parse().unwrap(),
        key: key.parse().unwrap(),
        profile: profile(name),
    };
    let remembered = vec![
        remembered("kept.example", "k3x9", "browser", "agent"),
        remembered("other-profile.example", "m4y8", "browser", "agent"),
        remembered("other-key.example", "k3x9", "browser", "somebody"),
        remembered("other-path.example", "k3x9", "shell", "agent"),
    ];
    let scene = Scene::with(Setting { remembered, ..Setting::default() }).await;
    scene.grant("browser", &["named.example"]).await;
    for (name, kept) in [("k3x9", "kept.example"), ("m4y8", "other-profile.example")] {
        let mut extension = Extension::linked(&scene, name, "w1").await;
        let state = extension.hear_state().await;
        let expected = SiteScope::Only(vec![domain("named.example"), domain(kept)]);
        assert_eq!(state.grants[0].sites, expected, "{name}");
    }
}

#[tokio::test]
async fn a_path_without_a_rule_for_sites_may_touch_any() {
    let rules = PathRules { sites: SiteRule::Any, ..PathRules::default() };
    let rules = Rules { paths: BTreeMap::from([(PathName::browser(), rules)]) };
    let scene = Scene::with(Setting { rules, ..Setting::default() }).await;
    scene.grant("browser", &[]).await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    assert_eq!(extension.hear_state().await.grants[0].sites, SiteScope::Any);
}

#[tokio::test]
async fn a_browser_is_not_told_of_the_grants_of_other_paths() {
    let scene = Scene::start().await;
    scene.grant("shell", &[]).await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    assert!(extension.hear_state().await.grants.is_empty());
}

// Acknowledgements.

/// Whether it is settled within a second.
async fn settles(scene: &Scene, epoch: Epoch) -> bool {
    tokio::time::timeout(Duration::from_secs(1), scene.links.settled(epoch)).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn an_epoch_is_settled_when_every_browser_has_acknowledged_it() {
    let scene = Scene::start().await;
    assert!(settles(&scene, Epoch(1)).await, "no browser has anything to let go of");
    scene.grant("browser", &[]).await;
    let mut one = Extension::linked(&scene, "k3x9", "w1").await;
    let mut two = Extension::linked(&scene, "m4y8", "w1").await;
    let epoch = one.hear_state().await.epoch;
    two.hear_state().await;
    assert!(epoch > Epoch(0) && !settles(&scene, epoch).await);
    one.say(&FromExtension::Ack { epoch }).await;
    assert!(!settles(&scene, epoch).await, "one of two");
    two.say(&FromExtension::Ack { epoch: Epoch(epoch.0 - 1) }).await;
    assert!(!settles(&scene, epoch).await, "an older one");
    two.say(&FromExtension::Ack { epoch }).await;
    assert!(settles(&scene, epoch).await);
    two.say(&FromExtension::Ack { epoch: Epoch(0) }).await;
    assert!(settles(&scene, epoch).await, "what was acknowledged stays so");
}

#[tokio::test(start_paused = true)]
async fn a_browser_that_goes_away_has_let_go_of_everything() {
    let scene = Scene::start().await;
    let extension = Extension::linked(&scene, "k3x9", "w1").await;
    let settling = scene.links.settled(Epoch(9));
    tokio::pin!(settling);
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut settling).await.is_err());
    drop(extension);
    let started = Instant::now();
    tokio::time::timeout(Duration::from_secs(1), settling).await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(50), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_of_what_was_never_sent_counts_for_nothing() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    extension.say(&FromExtension::Ack { epoch: Epoch(u64::MAX) }).await;
    extension.say(&FromExtension::Event(Event::OpenStatus)).await;
    until(|| scene.linked().is_empty() || scene.heard.all().contains(&"k3x9 OpenStatus".to_owned())).await;
    scene.grant("browser", &[]).await;
    let epoch = scene.hub.live().borrow().epoch;
    // Either the link is over, which is an honest answer, or it is still waited for.
    assert!(scene.linked().is_empty() || !settles(&scene, epoch).await);
}

#[tokio::test(start_paused = true)]
async fn ending_a_grant_says_whether_the_browser_acknowledged() {
    let scene = Scene::start().await;
    scene.hub.set_capabilities(vec![std::sync::Arc::new(Path(PathName::browser(), scene.links.clone()))]);
    let working = tokio::spawn(Extension::linked(&scene, "k3x9", "w1").await.work());
    scene.grant("browser", &[]).await;
    let ended = scene.hub.kill(Which::All, EndReason::Stopped, "browser").await;
    assert_eq!((ended.grants, ended.acknowledged), (1, true));
    working.abort();
    until(|| scene.linked().is_empty()).await;

    let _silent = Extension::linked(&scene, "k3x9", "w2").await;
    scene.grant("browser", &[]).await;
    let started = Instant::now();
    let ended = scene.hub.kill(Which::All, EndReason::Stopped, "browser").await;
    assert_eq!((ended.grants, ended.acknowledged), (1, false));
    assert_eq!(started.elapsed().as_secs(), 1);
}

struct Path(PathName, consentry_link::Links);

#[async_trait::async_trait]
impl consentry_core::Capability for Path {
    fn path(&self) -> &PathName {
        &self.0
    }
    fn instructions(&self) -> String {
        String::new()
    }
    fn tools(&self) -> &[Box<dyn consentry_core::Tool>] {
        &[]
    }
    async fn ready(&self) -> Result<(), consentry_wire::Failure> {
        Ok(())
    }
    async fn settled(&self, epoch: Epoch) {
        self.1.settled(epoch).await;
    }
}

// What keeps a link alive.

#[tokio::test(start_paused = true)]
async fn a_ping_comes_at_least_every_twenty_seconds() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    let mut last = Instant::now();
    for _ in 0..5 {
        extension.hear_where(|frame| *frame == ToExtension::Ping).await;
        extension.say(&FromExtension::Pong).await;
        assert!(last.elapsed() <= Duration::from_millis(20_050), "{:?}", last.elapsed());
        last = Instant::now();
    }
    assert_eq!(scene.linked(), ["k3x9"]);
}

#[tokio::test(start_paused = true)]
async fn a_browser_that_says_nothing_for_sixty_seconds_is_gone() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    extension.say(&FromExtension::Pong).await;
    tokio::time::sleep(Duration::from_secs(58)).await;
    assert_eq!(scene.linked(), ["k3x9"], "it has said something since");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(scene.linked().is_empty());
    extension.ended().await;
    assert_eq!(scene.heard.all(), ["linked k3x9 w1", "unlinked k3x9"]);
}

#[tokio::test]
async fn every_browser_is_told_of_a_newer_copy_and_all_links_can_be_ended() {
    let scene = Scene::start().await;
    let mut one = Extension::linked(&scene, "k3x9", "w1").await;
    let mut two = Extension::linked(&scene, "m4y8", "w1").await;
    scene.links.reload();
    for extension in [&mut one, &mut two] {
        extension.hear_where(|frame| *frame == ToExtension::Reload).await;
    }
    scene.links.end_all();
    one.ended().await;
    two.ended().await;
    until(|| scene.linked().is_empty()).await;
    let failure = scene.links.call(&profile("k3x9"), &label(), Op::ListTabs, LIMIT).await.unwrap_err();
    assert_eq!(failure.code, consentry_wire::ErrorCode::ExtensionNotConnected);
}
