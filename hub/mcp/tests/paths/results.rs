//! Results: what is marked as untrusted, pictures, and failures.

use serde_json::{Value, json};

use crate::scene::{OLD_VERSION, Scene, VERSIONS, failure};
use crate::tools::HOSTILE;

async fn call(scene: &Scene, version: &str, tool: &str) -> Value {
    let grant_id = scene.grant().await;
    scene.call(version, tool, json!({ "grant_id": grant_id })).await
}

/// The boundary, once it is certain that the text stands whole inside of its envelope.
fn boundary(text: &str, source: &str) -> String {
    let (_, after) = text.split_once("<untrusted-").unwrap();
    let boundary = after.split_once(' ').unwrap().0.to_owned();
    let opening = format!("<untrusted-{boundary} from=\"{source}\">\n");
    let closing = format!("\n</untrusted-{boundary}>");
    assert!(text.contains(&format!("{opening}{HOSTILE}{closing}")), "{text}");
    assert_eq!((text.matches(&opening).count(), text.matches(&closing).count()), (1, 1), "{text}");
    assert!(boundary.len() >= 8 && !HOSTILE.contains(&boundary));
    boundary
}

#[tokio::test]
async fn text_of_a_page_stands_in_the_envelope_with_a_boundary_of_its_own_each_time() {
    let scene = Scene::listening().await;
    let mut boundaries = Vec::new();
    for version in VERSIONS {
        let answer = call(&scene, version, "read_page").await;
        assert_eq!(answer["content"].as_array().unwrap().len(), 1);
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("The page:\n<untrusted-"), "{text}");
        boundaries.push(boundary(text, "https://evil.test"));
        let structured = &answer["structuredContent"];
        assert_eq!((&structured["text"], &structured["tab"]), (&json!(text), &json!("k3x9.1")));
    }
    assert_ne!(boundaries[0], boundaries[1]);
}

#[tokio::test]
async fn a_picture_is_not_hidden_behind_a_structured_result() {
    let scene = Scene::listening().await;
    for version in VERSIONS {
        let answer = call(&scene, version, "take_screenshot").await;
        let content = answer["content"].as_array().unwrap();
        assert_eq!(content.len(), 2);
        assert_eq!((&content[0]["type"], &content[0]["text"]), (&json!("text"), &json!("A picture.")));
        assert_eq!((&content[1]["type"], &content[1]["mimeType"]), (&json!("image"), &json!("image/png")));
        assert_eq!(content[1]["data"], json!("aGk="));
        assert!(answer["structuredContent"].is_null(), "{answer}");
        let structured = &answer["_meta"]["com.consentry/structured"];
        assert_eq!(*structured, json!({ "width": 1, "outcome": "unverified" }));
    }
}

#[tokio::test]
async fn a_failure_is_a_result_that_says_what_to_do_and_marks_what_others_said() {
    let scene = Scene::listening().await;
    let mut boundaries = Vec::new();
    for version in VERSIONS {
        let answer = call(&scene, version, "click_element").await;
        let failure = failure(&answer);
        assert_eq!((&failure["code"], &failure["outcome"]), (&json!("browser_error"), &json!("maybe_done")));
        assert_eq!(failure["message"], json!("the browser refused"));
        assert_eq!(failure["retry_after_ms"], json!(1500));
        boundaries.push(boundary(failure["untrusted"].as_str().unwrap(), "what was driven"));
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert_eq!(boundary(text, "what was driven"), *boundaries.last().unwrap());
        assert!(text.contains("Try again after 2 s."), "{text}");
        let known = ["code", "message", "next", "outcome", "retry_after_ms", "untrusted"];
        let fields: Vec<&String> = failure.as_object().unwrap().keys().collect();
        assert!(fields.iter().all(|field| known.contains(&field.as_str())), "{fields:?}");
    }
    assert_ne!(boundaries[0], boundaries[1]);
}

#[tokio::test]
async fn a_result_never_repeats_the_key_or_the_grant() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    for tool in ["echo", "read_page", "take_screenshot", "click_element"] {
        let answer = scene.call(OLD_VERSION, tool, json!({ "grant_id": grant_id })).await.to_string();
        assert!(!answer.contains(&grant_id) && !answer.contains("c4n4ry"), "{answer}");
    }
}
