//! Nothing is said, told or obeyed before both sides have proved themselves.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use consentry_wire::frame::{ToExtension, write};
use consentry_wire::proof::{Caller, Handshake, ProofError, Token};
use consentry_wire::socket::Role;
use consentry_wire::version::{CURRENT, Version};
use serde_json::json;

use crate::extension::{Carrier, Extension, Said, hello, relay_role};
use crate::scene::{EXTENSION, Scene, Setting, TOKEN, soon, until};

const OTHER_TOKEN: &str = "c4n4ry-token-of-another-hub";

fn challenge(token: &str) -> (Caller, Handshake) {
    Caller::start(Token::new(token).unwrap(), [7; 32])
}

#[tokio::test]
async fn both_sides_prove_themselves_and_then_the_browser_is_linked() {
    let mut scene = Scene::start().await;
    let address = scene.open_websocket().await;
    let _native = Extension::linked(&scene, "k3x9", "w1").await;
    let _web = Extension::proved_on_web(address).await.welcomed("m4y8", "w1").await;
    let list = serde_json::to_value(scene.links.list()).unwrap();
    let transports: Vec<_> = (0..2).map(|n| (&list[n]["profile"], &list[n]["transport"])).collect();
    assert_eq!(transports, [(&json!("k3x9"), &json!("native")), (&json!("m4y8"), &json!("web_socket"))]);
    assert_eq!(scene.heard.all(), ["linked k3x9 w1", "linked m4y8 w1"]);
}

#[tokio::test]
async fn a_hub_that_holds_another_token_gets_no_proof() {
    let scene = Scene::start().await;
    let mut carrier = Carrier::socket(&scene.socket).await;
    let (caller, challenge) = challenge(OTHER_TOKEN);
    carrier.say(&challenge).await;
    let Said::Message(answer) = carrier.next().await else { panic!("no answer") };
    assert_eq!(caller.finish(&serde_json::from_str(&answer).unwrap()), Err(ProofError::Wrong));
}

#[tokio::test]
async fn a_stranger_learns_one_nonce_and_nothing_else() {
    let mut scene = Scene::start().await;
    let address = scene.open_websocket().await;
    for (mut carrier, code) in
        [(Carrier::socket(&scene.socket).await, None), (Carrier::web(address).await, Some(4003))]
    {
        carrier.say(&challenge(OTHER_TOKEN).1).await;
        let made_up = Handshake::Response { proof: "00".repeat(32) };
        carrier.say(&made_up).await;
        carrier.say(&relay_role()).await;
        carrier.say(&hello("k3x9", "w1")).await;
        let (told, closed) = carrier.rest().await;
        assert_eq!(told.len(), 1, "{told:?}");
        let answer: Handshake = serde_json::from_str(&told[0]).unwrap();
        assert!(matches!(answer, Handshake::Answer { .. }));
        assert!(!told[0].contains(TOKEN) && !told[0].contains("desk") && !told[0].contains(EXTENSION));
        assert_eq!(closed, code);
    }
    assert!(scene.linked().is_empty() && scene.heard.all().is_empty());
    assert!(scene.refusal().await.contains("token"));
}

#[tokio::test]
async fn the_hubs_own_proof_sent_back_is_worth_nothing() {
    let scene = Scene::start().await;
    let mut carrier = Carrier::socket(&scene.socket).await;
    carrier.say(&challenge(TOKEN).1).await;
    let Said::Message(answer) = carrier.next().await else { panic!("no answer") };
    let Handshake::Answer { proof, .. } = serde_json::from_str(&answer).unwrap() else { panic!("{answer}") };
    carrier.say(&Handshake::Response { proof }).await;
    assert!(carrier.silent_end().await);
}

#[tokio::test]
async fn every_connection_gets_a_nonce_of_its_own() {
    let scene = Scene::start().await;
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut carrier = Carrier::socket(&scene.socket).await;
        carrier.say(&challenge(TOKEN).1).await;
        answers.push(carrier.next().await);
    }
    assert_ne!(answers[0], answers[1]);
}

#[tokio::test]
async fn frames_before_the_proof_go_nowhere() {
    let mut scene = Scene::start().await;
    let address = scene.open_websocket().await;
    for early in [
        write(&hello("k3x9", "w1")),
        write(&relay_role()),
        write(&Role::Command { version: CURRENT }),
        r#"{"command":"echo","args":1}"#.to_owned(),
        write(&ToExtension::Ping),
        "{".to_owned(),
        String::new(),
    ] {
        for after_the_challenge in [false, true] {
            for mut carrier in [Carrier::socket(&scene.socket).await, Carrier::web(address).await] {
                if after_the_challenge {
                    carrier.say(&challenge(TOKEN).1).await;
                }
                carrier.send(&early).await;
                let (told, _) = carrier.rest().await;
                assert_eq!(told.len(), usize::from(after_the_challenge), "{early}: {told:?}");
            }
        }
    }
    assert!(scene.linked().is_empty() && scene.heard.all().is_empty());
    assert!(scene.commands.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn without_a_token_nobody_is_told_anything() {
    let mut scene = Scene::with(Setting { token: None, ..Setting::default() }).await;
    let address = scene.open_websocket().await;
    for mut carrier in [Carrier::socket(&scene.socket).await, Carrier::web(address).await] {
        carrier.say(&challenge(TOKEN).1).await;
        assert!(carrier.silent_end().await);
    }
    assert!(scene.refusal().await.contains("consentry setup"));
}

#[tokio::test]
async fn a_token_that_is_shorter_than_a_secret_counts_as_none() {
    let scene = Scene::with(Setting { token: Some("short"), ..Setting::default() }).await;
    let mut carrier = Carrier::socket(&scene.socket).await;
    carrier.say(&challenge(TOKEN).1).await;
    assert!(carrier.silent_end().await);
}

#[tokio::test]
async fn a_new_token_holds_from_the_next_connection_on() {
    let scene = Scene::start().await;
    scene.new_token(OTHER_TOKEN);
    let mut carrier = Carrier::socket(&scene.socket).await;
    carrier.prove(OTHER_TOKEN).await;
    carrier.say(&relay_role()).await;
    carrier.say(&hello("k3x9", "w1")).await;
    until(|| scene.linked() == ["k3x9"]).await;
    let mut old = Carrier::socket(&scene.socket).await;
    let (caller, challenge) = challenge(TOKEN);
    old.say(&challenge).await;
    let Said::Message(answer) = old.next().await else { panic!("no answer") };
    assert_eq!(caller.finish(&serde_json::from_str(&answer).unwrap()), Err(ProofError::Wrong));
}

#[tokio::test(start_paused = true)]
async fn whoever_says_nothing_is_let_go_after_five_seconds() {
    let mut scene = Scene::start().await;
    let address = scene.open_websocket().await;
    let started = tokio::time::Instant::now();
    let mut socket = Carrier::socket(&scene.socket).await;
    assert!(socket.silent_end().await);
    assert_eq!(started.elapsed().as_secs(), 5);
    assert!(scene.refusal().await.contains("in time"));
    let started = tokio::time::Instant::now();
    let mut web = Carrier::web(address).await;
    assert!(web.silent_end().await);
    assert_eq!(started.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn whoever_proves_itself_and_then_does_not_say_who_it_is_is_let_go() {
    let mut scene = Scene::start().await;
    let address = scene.open_websocket().await;
    let mut native = Extension::proved(&scene).await;
    assert_eq!(native.hear().await, None);
    let mut web = Extension::proved_on_web(address).await;
    assert_eq!(web.carrier.next().await, Said::Closed(Some(4002)));
    assert!(scene.linked().is_empty());
}

// Who may come as what.

#[tokio::test]
async fn a_relay_for_another_extension_is_refused_and_told_nothing() {
    let scene = Scene::start().await;
    for origin in [
        "chrome-extension://ponmlkjihgfedcbaponmlkjihgfedcba/".to_owned(),
        format!("chrome-extension://{EXTENSION}"),
        format!("https://{EXTENSION}/"),
        format!("chrome-extension://{EXTENSION}/popup.html"),
        String::new(),
    ] {
        let mut carrier = Carrier::socket(&scene.socket).await;
        carrier.prove(TOKEN).await;
        carrier.say(&Role::Relay { version: CURRENT, origin }).await;
        carrier.say(&hello("k3x9", "w1")).await;
        assert!(carrier.silent_end().await);
        assert!(scene.refusal().await.contains("another extension"));
    }
    assert!(scene.linked().is_empty());
}

#[tokio::test]
async fn a_relay_under_a_program_that_is_no_browser_is_refused() {
    let scene = Scene::with(Setting { known_browser: |_| None, ..Setting::default() }).await;
    let mut extension = Extension::proved(&scene).await;
    extension.say(&hello("k3x9", "w1")).await;
    let (told, _) = soon(extension.carrier.rest()).await;
    let [told] = &told[..] else { panic!("{told:?}") };
    assert!(told.contains("refused") && told.contains("no known browser"), "{told}");
    assert!(scene.refusal().await.contains("no known browser"));
    assert!(scene.linked().is_empty());
}

static ASKED_ABOUT: Mutex<Option<PathBuf>> = Mutex::new(None);

fn note_the_program(program: &Path) -> Option<&'static str> {
    *ASKED_ABOUT.lock().unwrap() = Some(program.to_owned());
    Some("noted")
}

#[tokio::test]
async fn the_browser_is_the_program_that_started_the_relay_by_the_kernels_word() {
    let scene = Scene::with(Setting { known_browser: note_the_program, ..Setting::default() }).await;
    let _extension = Extension::linked(&scene, "k3x9", "w1").await;
    let parent = consentry_link::parent_program(i32::try_from(std::process::id()).unwrap());
    assert!(parent.is_some());
    assert_eq!(*ASKED_ABOUT.lock().unwrap(), parent);
}

#[tokio::test]
async fn a_relay_of_another_major_is_not_linked() {
    let scene = Scene::start().await;
    let mut carrier = Carrier::socket(&scene.socket).await;
    carrier.prove(TOKEN).await;
    let version = Version { major: CURRENT.major + 1, minor: 0 };
    carrier.say(&Role::Relay { version, origin: format!("chrome-extension://{EXTENSION}/") }).await;
    carrier.say(&hello("k3x9", "w1")).await;
    soon(carrier.rest()).await;
    assert!(scene.refusal().await.contains("version"));
    assert!(scene.linked().is_empty());
}

#[tokio::test]
async fn a_websocket_of_any_other_origin_or_of_none_is_forbidden() {
    let mut scene = Scene::start().await;
    let address = scene.open_websocket().await;
    let own = format!("chrome-extension://{EXTENSION}");
    for origin in [
        None,
        Some("https://example.com"),
        Some("null"),
        Some("chrome-extension://ponmlkjihgfedcbaponmlkjihgfedcba"),
        Some(&format!("{own}/")),
        Some(&format!("{own}.example.com")),
        Some(&own.to_uppercase()),
        Some(&format!("http://{address}")),
    ] {
        assert_eq!(Carrier::web_from(address, origin).await.err(), Some(403), "{origin:?}");
    }
    assert!(Carrier::web_from(address, Some(&own)).await.is_ok());
}
