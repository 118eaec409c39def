//! Frames: large ones, and what is none.

use std::time::Duration;

use consentry_wire::Version;
use consentry_wire::chunk::split;
use consentry_wire::frame::{Event, FromExtension, Op, ToExtension, write};
use consentry_wire::version::CURRENT;
use consentry_wire::{ErrorCode, Failure};
use serde_json::json;

use crate::extension::{Carrier, Extension, Said, hello, hello_of};
use crate::scene::{Scene, TOKEN, label, profile, soon, until};

const LARGE: usize = 3 * 1024 * 1024;
const LIMIT: Duration = Duration::from_secs(20);

async fn one_on_each_door(scene: &mut Scene) -> [Extension; 2] {
    let address = scene.open_websocket().await;
    let native = Extension::linked(scene, "k3x9", "w1").await;
    let web = Extension::proved_on_web(address).await.welcomed("m4y8", "w1").await;
    [native, web]
}

#[tokio::test]
async fn large_frames_are_split_and_joined_both_ways() {
    let mut scene = Scene::start().await;
    let extensions = one_on_each_door(&mut scene).await;
    for (mut extension, name) in extensions.into_iter().zip(["k3x9", "m4y8"]) {
        let text = "é\"\\\n你 ".repeat(LARGE / 10);
        let params = json!({ "text": text }).as_object().cloned().unwrap();
        let method = "Input.insertText".to_owned();
        let op = Op::Cdp { tab: 12, session: None, method, params, document: None };
        let (name, grant) = (profile(name), label());
        let calling = scene.links.call(&name, &grant, op.clone(), LIMIT);
        let answering = async {
            let call = extension.hear_call().await;
            assert!(call.op == op, "what arrived is not what was sent");
            let result = json!({ "data": text });
            extension.say(&FromExtension::Done { id: call.id, result }).await;
        };
        let (answer, ()) = tokio::join!(calling, answering);
        assert!(answer.unwrap()["data"] == text, "what came back is not what was answered");
        assert!(extension.longest <= 1024 * 1024, "{} bytes in one message", extension.longest);
    }
}

#[tokio::test]
async fn something_that_is_no_frame_ends_that_link_alone() {
    let mut scene = Scene::start().await;
    let address = scene.open_websocket().await;
    let standing = tokio::spawn(Extension::linked(&scene, "k3x9", "w1").await.work());
    let pieces = split("x".repeat(1024 * 1024));
    for bad in [
        "{",
        "",
        "\u{0}",
        "[]",
        r#"{"type":"format_disk"}"#,
        r#"{"type":"done","id":-1,"result":1}"#,
        &pieces[1],
        &write(&ToExtension::Ping),
        &write(&hello("m4y8", "w2")),
    ] {
        for linked_before in [false, true] {
            let native = Extension::proved(&scene).await;
            let web = Extension::proved_on_web(address).await;
            for (extension, code) in [(native, None), (web, Some(4002))] {
                let mut extension = extension;
                if linked_before {
                    extension = extension.welcomed("m4y8", "w1").await;
                } else if bad.contains("hello") {
                    // Before anything else that is the very frame that is wanted.
                    continue;
                }
                extension.carrier.send(bad).await;
                let (_, closed) = extension.carrier.rest().await;
                assert_eq!(closed, code, "{bad:.40} linked_before: {linked_before}");
                until(|| scene.linked() == ["k3x9"]).await;
            }
        }
    }
    let answer = scene.links.call(&profile("k3x9"), &label(), Op::ListTabs, LIMIT).await;
    assert_eq!(answer.unwrap(), json!({ "worker": "works" }));
    assert!(!standing.is_finished());
}

#[tokio::test]
async fn bytes_that_are_no_text_and_lines_without_end_end_that_link_alone() {
    let mut scene = Scene::start().await;
    let standing = tokio::spawn(Extension::linked(&scene, "k3x9", "w1").await.work());
    let address = scene.open_websocket().await;
    let endless = vec![b'a'; 2 * 1024 * 1024];
    for bytes in [&[0xff, 0xfe, b'\n'][..], &endless] {
        for linked_before in [false, true] {
            for mut extension in [Extension::proved(&scene).await, Extension::proved_on_web(address).await] {
                if linked_before {
                    extension = extension.welcomed("m4y8", "w1").await;
                }
                extension.carrier.send_bytes(bytes).await;
                extension.carrier.rest().await;
                until(|| scene.linked() == ["k3x9"]).await;
            }
        }
    }
    let answer = scene.links.call(&profile("k3x9"), &label(), Op::ListTabs, LIMIT).await;
    assert!(answer.is_ok() && !standing.is_finished());
}

#[tokio::test]
async fn a_malformed_message_instead_of_the_handshake_closes_that_websocket_alone() {
    let mut scene = Scene::start().await;
    let address = scene.open_websocket().await;
    let mut standing = Extension::proved_on_web(address).await.welcomed("k3x9", "w1").await;
    for bad in ["{", "[]", r#"{"type":"challenge","nonce":"00"}"#, r#"{"type":"challenge"}"#] {
        let mut carrier = Carrier::web(address).await;
        carrier.send(bad).await;
        assert_eq!(carrier.next().await, Said::Closed(Some(4002)), "{bad}");
    }
    let mut carrier = Carrier::web(address).await;
    carrier.send_bytes(b"{}").await;
    assert_eq!(carrier.next().await, Said::Closed(Some(4002)));
    assert_eq!(scene.linked(), ["k3x9"]);
    standing.hear_state().await;
}

#[tokio::test]
async fn a_browser_of_another_major_is_refused_with_the_remedy() {
    let mut scene = Scene::start().await;
    let address = scene.open_websocket().await;
    for (major, remedy) in
        [(CURRENT.major - 1, "update the extension"), (CURRENT.major + 1, "update the hub")]
    {
        for mut extension in [Extension::proved(&scene).await, Extension::proved_on_web(address).await] {
            extension.say(&hello_of("k3x9", "w1", Version { major, minor: 0 })).await;
            let Some(ToExtension::Refused { error }) = extension.hear().await else { panic!("not refused") };
            assert_eq!(error.code, ErrorCode::VersionSkew);
            assert!(error.next.contains(remedy), "{}", error.next);
            assert_eq!(extension.hear().await, None);
        }
    }
    assert!(scene.linked().is_empty() && scene.heard.all().is_empty());
}

#[tokio::test]
async fn a_browser_of_another_minor_is_welcome_and_its_new_fields_are_ignored() {
    let scene = Scene::start().await;
    let mut extension = Extension::proved(&scene).await;
    let FromExtension::Hello(hello) = hello_of("k3x9", "w1", Version { major: CURRENT.major, minor: 99 })
    else {
        panic!("no hello")
    };
    let mut later = serde_json::to_value(FromExtension::Hello(hello)).unwrap();
    later["from"] = json!("the future");
    extension.carrier.send(&later.to_string()).await;
    assert!(matches!(extension.hear().await, Some(ToExtension::Welcome(_))));
}

#[tokio::test]
async fn a_reply_that_nobody_waits_for_changes_nothing() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    for id in [0, 1, 7, u64::MAX] {
        extension.say(&FromExtension::Done { id, result: json!("of nothing") }).await;
        let error = Failure::new(ErrorCode::BrowserError, "of nothing");
        extension.say(&FromExtension::Failed { id, error }).await;
    }
    // Once this is heard, so is everything before it.
    extension.say(&FromExtension::Event(Event::OpenStatus)).await;
    until(|| scene.heard.all().contains(&"k3x9 OpenStatus".to_owned())).await;
    let (name, grant) = (profile("k3x9"), label());
    let calling = scene.links.call(&name, &grant, Op::ListTabs, LIMIT);
    let answering = async {
        let call = extension.hear_call().await;
        extension.say(&FromExtension::Done { id: call.id, result: json!("its own") }).await;
        // Again, although it is answered.
        extension.say(&FromExtension::Done { id: call.id, result: json!("another") }).await;
    };
    let (answer, ()) = tokio::join!(calling, answering);
    assert_eq!(answer.unwrap(), json!("its own"));
    soon(extension.hear_state()).await;
    assert_eq!(scene.linked(), ["k3x9"]);
}

#[tokio::test]
async fn the_token_is_in_nothing_that_the_hub_says() {
    let scene = Scene::start().await;
    let mut extension = Extension::linked(&scene, "k3x9", "w1").await;
    let state = format!("{:?}", extension.hear_state().await);
    let shown = format!("{:?} {:?} {:?}", scene.door, scene.links, scene.heard.all());
    assert!(!state.contains(TOKEN) && !shown.contains(TOKEN), "{state} {shown}");
}
