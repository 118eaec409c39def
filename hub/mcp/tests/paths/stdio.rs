//! The same path over a pipe, for the program that started us.

use consentry_core::Client;
use consentry_gate::Answer;
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};

use crate::scene::{AGENT, OLD_VERSION, Scene, failure, result, soon};

/// A pipe to a server of the browser path.
fn pipe(scene: &Scene, client: Client, consent: bool) -> DuplexStream {
    let server = scene.server("browser").for_client(client, consent);
    let (ours, theirs) = tokio::io::duplex(1024 * 1024);
    tokio::spawn(async move {
        if let Ok(running) = server.serve(theirs).await {
            let _ = running.waiting().await;
        }
    });
    ours
}

fn arguments(args: &Value) -> serde_json::Map<String, Value> {
    args.as_object().cloned().unwrap()
}

#[tokio::test]
async fn a_client_lists_the_same_tools_over_a_pipe_as_over_http() {
    let scene = Scene::listening().await;
    let client = ().serve(pipe(&scene, scene.client(AGENT), true)).await.unwrap();
    let piped = serde_json::to_value(client.list_all_tools().await.unwrap()).unwrap();
    let listed = result(&scene.send(scene.message(OLD_VERSION, "tools/list", json!({}))).await);
    assert_eq!(piped, listed["tools"]);
    assert_eq!(piped, serde_json::to_value(scene.server("browser").tools()).unwrap());
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_client_asks_works_and_gives_back_over_a_pipe() {
    let scene = Scene::in_process();
    let client = ().serve(pipe(&scene, scene.client(AGENT), true)).await.unwrap();
    let call = async |tool: &'static str, args: Value| {
        let request = CallToolRequestParams::new(tool).with_arguments(arguments(&args));
        serde_json::to_value(client.call_tool(request).await.unwrap()).unwrap()
    };
    assert_eq!(failure(&call("echo", json!({})).await)["code"], json!("no_grant"));
    scene.fakes.owner.will(Answer::Allow);
    let granted = call("request_control", json!({ "purpose": "Read the invoices." })).await;
    let grant_id = granted["structuredContent"]["grant_id"].clone();
    let answer = call("echo", json!({ "grant_id": grant_id, "tab": "k3x9.1" })).await;
    assert_eq!(answer["structuredContent"]["got"], json!({ "tab": "k3x9.1" }));
    let released = call("release_control", json!({ "grant_id": grant_id })).await;
    assert_eq!(released["structuredContent"]["status"], json!("released"));
    assert_eq!(failure(&call("echo", json!({ "grant_id": grant_id })).await)["code"], json!("no_grant"));
}

#[tokio::test]
async fn without_consent_the_tools_are_the_same_and_a_grant_is_needed_all_the_same() {
    let scene = Scene::in_process();
    let client = ().serve(pipe(&scene, scene.client(AGENT), false)).await.unwrap();
    let tools = serde_json::to_value(client.list_all_tools().await.unwrap()).unwrap();
    assert_eq!(tools, serde_json::to_value(scene.server("browser").tools()).unwrap());
    let call = async |tool: &'static str, args: Value| {
        let request = CallToolRequestParams::new(tool).with_arguments(arguments(&args));
        serde_json::to_value(client.call_tool(request).await.unwrap()).unwrap()
    };
    assert_eq!(failure(&call("echo", json!({})).await)["code"], json!("no_grant"));
    let asked = call("request_control", json!({})).await;
    assert_eq!(failure(&asked)["code"], json!("bad_purpose"), "a purpose is written down all the same");
    let granted = call("request_control", json!({ "purpose": "Read the invoices." })).await;
    assert_eq!(granted["structuredContent"]["decision"], json!("no_consent"));
    let grant_id = granted["structuredContent"]["grant_id"].clone();
    let answer = call("echo", json!({ "grant_id": grant_id })).await;
    assert_ne!(answer["isError"], json!(true), "{answer}");
    assert!(scene.fakes.owner.seen().is_empty());
}

/// A pipe that is written by hand.
struct Lines {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
}

impl Lines {
    fn over(pipe: DuplexStream) -> Self {
        let (read, write) = tokio::io::split(pipe);
        Self { read: BufReader::new(read), write }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).await.unwrap();
        self.write.write_all(b"\n").await.unwrap();
    }

    async fn say(&mut self, message: Value) {
        self.send(message.to_string().as_bytes()).await;
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        soon(self.read.read_line(&mut line)).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
    }

    async fn begin(&mut self) {
        let info = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": OLD_VERSION, "capabilities": {}, "clientInfo": info });
        self.say(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
        assert_eq!(self.hear().await["result"]["protocolVersion"], json!(OLD_VERSION));
        self.say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }
}

#[tokio::test]
async fn a_line_that_is_no_message_ends_nothing() {
    let scene = Scene::in_process();
    let mut lines = Lines::over(pipe(&scene, scene.client(AGENT), true));
    lines.begin().await;
    // What is no JSON has no id to answer to, and an answer could go back and forth for ever.
    let bad: [(&[u8], usize); 6] =
        [(b"{", 0), (b"\xff\xfe", 0), (b"", 0), (b"null", 1), (b"[1]", 1), (br#"{"jsonrpc":"2.0"}"#, 1)];
    for (n, (bad, expected)) in bad.into_iter().enumerate() {
        lines.send(bad).await;
        lines.say(json!({ "jsonrpc": "2.0", "id": n + 1, "method": "ping" })).await;
        let mut errors = 0;
        loop {
            let heard = lines.hear().await;
            if heard["id"] == json!(n + 1) {
                break;
            }
            assert!(heard["error"]["code"].is_i64(), "{heard}");
            errors += 1;
        }
        assert_eq!(errors, expected, "{}", String::from_utf8_lossy(bad));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_at_a_pipe_hears_each_second_that_it_waits_and_then_that_it_is_pending() {
    let scene = Scene::in_process();
    let mut lines = Lines::over(pipe(&scene, scene.client(AGENT), true));
    lines.begin().await;
    let params = json!({
        "name": "request_control", "arguments": { "purpose": "Read the invoices." },
        "_meta": { "progressToken": "t0" },
    });
    let started = tokio::time::Instant::now();
    lines.say(json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params })).await;
    let mut waited = Vec::new();
    let pending = loop {
        let heard = lines.hear().await;
        if heard["id"] == json!(3) {
            break heard["result"].clone();
        }
        assert_eq!(heard["method"], json!("notifications/progress"));
        assert_eq!(heard["params"]["progress"].as_f64(), Some(started.elapsed().as_secs() as f64));
        waited.push(started.elapsed().as_secs());
    };
    assert_eq!(started.elapsed().as_secs(), 45);
    assert!(waited.iter().copied().eq(0..45) || waited.iter().copied().eq(0..46), "{waited:?}");
    assert_eq!(pending["structuredContent"]["status"], json!("pending"));
    let again = json!({ "request_id": pending["structuredContent"]["request_id"] });
    scene.fakes.owner.will(Answer::Allow);
    let params = json!({ "name": "request_control", "arguments": again });
    lines.say(json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params })).await;
    let granted = lines.hear().await;
    assert_eq!(granted["result"]["structuredContent"]["status"], json!("allowed"), "{granted}");
}

#[tokio::test]
async fn a_call_that_its_client_cancels_ends() {
    let scene = Scene::in_process();
    let grant_id = scene.grant().await;
    let mut lines = Lines::over(pipe(&scene, scene.client(AGENT), true));
    lines.begin().await;
    let params = json!({ "name": "wait_for", "arguments": { "grant_id": grant_id } });
    lines.say(json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params })).await;
    let running = || scene.seen.running.load(std::sync::atomic::Ordering::SeqCst);
    crate::scene::until(|| running() == 1).await;
    let cancel = json!({ "requestId": 3, "reason": "no longer wanted" });
    lines.say(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel })).await;
    crate::scene::until(|| running() == 0).await;
    crate::scene::until(|| scene.outcomes() == [json!("cancelled")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_pipe_that_closes_ends_its_calls() {
    let scene = Scene::in_process();
    let grant_id = scene.grant().await;
    let mut lines = Lines::over(pipe(&scene, scene.client(AGENT), true));
    lines.begin().await;
    let params = json!({ "name": "wait_for", "arguments": { "grant_id": grant_id } });
    lines.say(json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params })).await;
    let running = || scene.seen.running.load(std::sync::atomic::Ordering::SeqCst);
    crate::scene::until(|| running() == 1).await;
    drop(lines);
    crate::scene::until(|| running() == 0).await;
}
