//! The command line on the socket.

use consentry_wire::ErrorCode;
use consentry_wire::socket::{Reply, Request, Role};
use consentry_wire::version::{CURRENT, Version};
use serde_json::json;

use crate::extension::{Carrier, Extension, Said};
use crate::scene::{Scene, Setting, TOKEN, until};

async fn command(scene: &Scene) -> Carrier {
    let mut carrier = Carrier::socket(&scene.socket).await;
    carrier.prove(TOKEN).await;
    carrier.say(&Role::Command { version: CURRENT }).await;
    carrier
}

fn request(command: &str) -> Request {
    Request { command: command.into(), args: json!({ "n": 1 }) }
}

async fn reply(carrier: &mut Carrier) -> Reply {
    let Said::Message(line) = carrier.next().await else { panic!("no reply") };
    serde_json::from_str(&line).unwrap()
}

#[tokio::test]
async fn each_request_gets_its_reply() {
    let scene = Scene::start().await;
    let mut carrier = command(&scene).await;
    for _ in 0..3 {
        carrier.say(&request("echo")).await;
        let reply = reply(&mut carrier).await;
        assert_eq!((reply.result, reply.error, reply.more), (Some(json!({ "n": 1 })), None, false));
    }
    carrier.say(&request("count")).await;
    let mut counted = Vec::new();
    for _ in 0..3 {
        let reply = reply(&mut carrier).await;
        counted.push((reply.result.unwrap(), reply.more));
    }
    assert_eq!(counted, [(json!(0), true), (json!(1), true), (json!(2), false)]);
    assert_eq!(scene.commands.seen.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn requests_that_come_in_one_piece_are_each_answered() {
    let scene = Scene::start().await;
    let one = serde_json::to_string(&request("echo")).unwrap();
    for _ in 0..20 {
        let mut carrier = command(&scene).await;
        carrier.send_bytes(format!("{one}\n{one}\n").as_bytes()).await;
        for _ in 0..2 {
            let reply = reply(&mut carrier).await;
            assert!(reply.result.is_some() || reply.error.is_some());
        }
    }
}

#[tokio::test]
async fn a_command_needs_no_browser_above_it() {
    let scene = Scene::with(Setting { known_browser: |_| None, ..Setting::default() }).await;
    let mut carrier = command(&scene).await;
    carrier.say(&request("echo")).await;
    assert!(reply(&mut carrier).await.result.is_some());
}

#[tokio::test]
async fn something_that_is_no_request_is_a_typed_error_and_runs_nothing() {
    let scene = Scene::start().await;
    for bad in ["{", "[]", "", r#"{"args":1}"#, r#"{"command":7}"#] {
        let mut carrier = command(&scene).await;
        carrier.send(bad).await;
        let error = reply(&mut carrier).await.error.unwrap();
        assert_eq!(error.code, ErrorCode::BadFrame, "{bad}");
        assert!(!error.next.is_empty());
    }
    assert!(scene.commands.seen.lock().unwrap().is_empty());
    let mut carrier = command(&scene).await;
    carrier.say(&request("format_disk")).await;
    assert_eq!(reply(&mut carrier).await.error.unwrap().code, ErrorCode::InvalidArgument);
}

#[tokio::test]
async fn a_line_without_end_ends_that_connection_alone() {
    let scene = Scene::start().await;
    let mut carrier = command(&scene).await;
    let mut other = command(&scene).await;
    carrier.send_bytes(&vec![b'a'; 2 * 1024 * 1024]).await;
    carrier.rest().await;
    other.say(&request("echo")).await;
    assert!(reply(&mut other).await.result.is_some());
}

#[tokio::test]
async fn whoever_goes_away_ends_what_it_followed() {
    let scene = Scene::start().await;
    let mut carrier = command(&scene).await;
    carrier.say(&request("follow")).await;
    let first = reply(&mut carrier).await;
    assert!(first.more);
    assert_eq!(*scene.commands.abandoned.lock().unwrap(), 0);
    drop(carrier);
    until(|| *scene.commands.abandoned.lock().unwrap() == 1).await;
}

#[tokio::test]
async fn a_command_of_another_major_is_told_the_remedy() {
    let scene = Scene::start().await;
    for (major, remedy) in [(CURRENT.major - 1, "update the command"), (CURRENT.major + 1, "update the hub")]
    {
        let mut carrier = Carrier::socket(&scene.socket).await;
        carrier.prove(TOKEN).await;
        carrier.say(&Role::Command { version: Version { major, minor: 0 } }).await;
        let error = reply(&mut carrier).await.error.unwrap();
        assert_eq!(error.code, ErrorCode::VersionSkew);
        assert!(error.next.contains(remedy), "{}", error.next);
        assert_eq!(carrier.next().await, Said::Closed(None));
    }
}

#[tokio::test]
async fn a_command_is_no_browser_and_a_browser_no_command() {
    let scene = Scene::start().await;
    let mut carrier = command(&scene).await;
    carrier.say(&crate::extension::hello("k3x9", "w1")).await;
    assert_eq!(reply(&mut carrier).await.error.unwrap().code, ErrorCode::BadFrame);
    let mut extension = Extension::proved(&scene).await;
    extension.carrier.say(&request("echo")).await;
    assert_eq!(extension.hear().await, None);
    assert!(scene.linked().is_empty() && scene.commands.seen.lock().unwrap().is_empty());
}
