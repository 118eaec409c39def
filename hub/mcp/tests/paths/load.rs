//! Too much, too large, and what is no message.

use axum::body::Body;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::http::With as _;
use crate::scene::{AGENT, OLD_VERSION, Scene, VERSIONS, failure, result, soon};

#[tokio::test]
async fn three_hundred_calls_at_once_all_get_a_typed_answer() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    let calls = (0..300).map(|n| {
        let version = VERSIONS[n % 2];
        let (tool, args) = match n % 4 {
            0 => ("no_such_tool", json!({ "grant_id": grant_id })),
            1 => ("echo", json!({ "grant_id": "made up" })),
            _ => ("echo", json!({ "grant_id": grant_id, "tab": n.to_string() })),
        };
        let scene = &scene;
        async move { (n, scene.call(version, tool, args).await) }
    });
    let answers = soon(futures_util::future::join_all(calls)).await;
    let mut done = 0;
    for (n, answer) in &answers {
        let allowed: &[&str] = match n % 4 {
            0 => &["unknown_tool"],
            1 => &["no_grant", "busy"],
            _ => &["busy"],
        };
        if answer["isError"] == json!(true) {
            let failure = failure(answer);
            assert!(allowed.contains(&failure["code"].as_str().unwrap()), "{n}: {failure}");
        } else {
            assert_eq!(
                answer["structuredContent"]["got"]["tab"],
                json!(n.to_string()),
                "somebody else's answer"
            );
            done += 1;
        }
    }
    assert!(done >= 64, "{done} of 150");
    let status = scene.hub.status().await.unwrap();
    assert_eq!(status.live.grants[0].view.in_flight, 0);
}

#[tokio::test]
async fn a_body_over_eight_mebibytes_is_refused_and_one_below_is_not() {
    let scene = Scene::in_process();
    let sized = |size: usize| {
        let args = json!({ "tab": "x".repeat(size) });
        scene.calling(OLD_VERSION, "echo", args)
    };
    let reply = scene.send(sized(8 * 1024 * 1024)).await;
    assert_eq!(reply.status, 413, "{}", reply.body);
    let below = scene.send(sized(8 * 1024 * 1024 - 1024)).await;
    assert_eq!(failure(&result(&below))["code"], json!("no_grant"));
    assert!(scene.fakes.audit.of("call").is_empty());
}

#[tokio::test]
async fn nobody_without_a_key_is_read_to_the_end() {
    let scene = Scene::listening().await;
    let mut stream = tokio::net::TcpStream::connect(scene.address.unwrap()).await.unwrap();
    let head = format!(
        "POST /browser/mcp HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer wrong\r\n\
         content-type: application/json\r\ncontent-length: 1000000000\r\n\r\n",
        scene.port
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    soon(stream.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
}

#[tokio::test]
async fn what_is_no_message_is_a_protocol_error_and_the_server_goes_on() {
    let scene = Scene::listening().await;
    let grant_id = scene.grant().await;
    let deep = "[".repeat(100_000);
    let bodies: [&[u8]; 12] = [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\"text\"",
        b"\xff\xfe",
        b"{}",
        br#"{"jsonrpc":"1.0","id":7,"method":"tools/list"}"#,
        br#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#,
        br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":7}}"#,
        br#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        deep.as_bytes(),
    ];
    for body in bodies {
        let request = scene.post(Body::from(body.to_vec())).with("authorization", &format!("Bearer {AGENT}"));
        let reply = scene.send(request).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let in_band =
            serde_json::from_str::<Value>(&reply.body).is_ok_and(|body| body["error"]["code"].is_i64());
        assert!((400..500).contains(&reply.status) || in_band, "{shown}: {} {}", reply.status, reply.body);
        let answer = scene.call(OLD_VERSION, "echo", json!({ "grant_id": grant_id })).await;
        assert_ne!(answer["isError"], json!(true), "after {shown}");
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_answered_in_the_protocols_own_words() {
    let scene = Scene::listening().await;
    let request = scene.post("{").with("authorization", &format!("Bearer {AGENT}"));
    let reply = scene.send(request).await;
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert_eq!(reply.json()["error"]["code"], json!(-32700));
}

#[tokio::test]
async fn bytes_that_are_no_http_end_their_connection_alone() {
    let scene = Scene::listening().await;
    for bytes in [&b"\0\0\0\0\r\n\r\n"[..], b"GET\r\n\r\n", b"POST /browser/mcp HTTP/9.9\r\n\r\n"] {
        let mut stream = tokio::net::TcpStream::connect(scene.address.unwrap()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let _ = soon(stream.read_to_end(&mut answer)).await;
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(scene.status(scene.message(OLD_VERSION, "tools/list", json!({}))).await, 200);
}
