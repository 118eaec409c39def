//! The second way to link, and whoever sits where the hub or the extension should be.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use consentry_test_support::link::{FakeBrowser, Heard, Socket, hello};
use consentry_test_support::scene::ref_of;
use consentry_wire::frame::{FromExtension, write};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::stage::{ASKING, HEADLESS, Set, Test, rows, tests};

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = tests![WEBSOCKET;
        the_tools_work_over_websocket_as_natively,
        a_wrong_token_is_refused_and_both_ends_say_so,
        a_squatter_on_the_port_learns_a_nonce_and_moves_nothing,
        a_websocket_extension_is_back_after_the_hub,
    ];
    tests.extend(tests![ASKING;
        a_wrong_proof_is_closed_with_4003,
        an_origin_that_is_not_exactly_ours_is_403,
        garbage_before_hello_ends_that_socket_alone,
        a_live_profile_is_not_taken_over,
    ]);
    tests.extend(tests![HEADLESS; a_squatter_on_the_socket_learns_a_nonce_and_moves_nothing]);
    tests
}

use crate::stage::WEBSOCKET;

async fn the_tools_work_over_websocket_as_natively(set: &mut Set) -> anyhow::Result<()> {
    let status = set.hub.status().await?;
    ensure!(rows(&status, "browsers")[0]["transport"] == "web_socket", "{status}");
    let page =
        "<title>Wire</title><input aria-label=Name><button onclick=\"document.title='done'\">Go</button>";
    let url = set.pages.put("/", page);
    let grant = set.grant("Use each tool once.", &[&set.site()]).await?;
    let tab = grant.open(&url).await?;
    let outline = grant.read(&tab).await?;
    let (name, go) = (ref_of(&outline, "textbox \"Name\"")?, ref_of(&outline, "button \"Go\"")?);
    grant.does("type_text", json!({ "tab": tab, "ref": name, "text": "x".repeat(3000) })).await?;
    grant.does("press_key", json!({ "tab": tab, "key": "End" })).await?;
    grant.does("click_element", json!({ "tab": tab, "ref": go })).await?;
    let title = grant.does("evaluate_script", json!({ "tab": tab, "expression": "document.title" })).await?;
    ensure!(title.text.contains("done"), "{}", title.text);
    grant.does("wait_for", json!({ "tab": tab, "selector": "button" })).await?;
    // Larger than one message of either transport.
    let long = "'y'.repeat(90000)";
    let long = grant.does("evaluate_script", json!({ "tab": tab, "expression": long })).await?;
    ensure!(long.text.matches('y').count() >= 90_000, "{} characters", long.text.len());
    let picture = grant.does("take_screenshot", json!({ "tab": tab, "format": "png" })).await?;
    ensure!(picture.images[0].1.starts_with(b"\x89PNG"));
    grant.does("navigate_tab", json!({ "tab": tab, "action": "reload" })).await?;
    grant.does("activate_tab", json!({ "tab": tab })).await?;
    grant.does("list_tabs", json!({})).await?;
    grant.does("close_tab", json!({ "tab": tab })).await?;
    Ok(())
}

impl Set {
    /// Changes how the extension reaches the hub.
    async fn choose(&self, chosen: Value) -> anyhow::Result<()> {
        self.browser()?.in_worker(&format!("chrome.storage.local.set({chosen})")).await.map(drop)
    }

    fn token(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.hub.home().join("extension-token"))?.trim().to_owned())
    }

    async fn unlinked(&self) -> anyhow::Result<()> {
        let gone = |status: &Value| rows(status, "browsers").is_empty().then_some(());
        self.hub.wait_status("no link", Duration::from_secs(10), gone).await
    }
}

async fn a_wrong_token_is_refused_and_both_ends_say_so(set: &mut Set) -> anyhow::Result<()> {
    set.choose(json!({ "token": "0".repeat(64) })).await?;
    set.unlinked().await?;
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let doctor = set.hub.run(&["doctor", "--json"]).await?;
        let report = doctor.json()?;
        let browser = rows(&report, "findings").iter().find(|finding| finding["what"] == "browser").cloned();
        let says = browser.context("a finding about browsers")?;
        if says["ok"] == false && says["says"].as_str().is_some_and(|says| says.contains("token")) {
            ensure!(doctor.code == Some(4) && !says["mend"].is_null(), "{doctor:?}");
            break;
        }
        ensure!(Instant::now() < end, "the doctor does not say that the token is wrong: {says}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let page = set.hub.page().await?.state().await?;
    let warned = rows(&page, "warnings")
        .iter()
        .any(|w| w["kind"] == "link" && w["text"].to_string().contains("token"));
    ensure!(warned, "{}", page["warnings"]);
    let popup = set.browser()?.extension_page("popup.html").await?;
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let said = set.browser()?.evaluate(&popup, "document.body.innerText").await?.to_string();
        if said.to_lowercase().contains("token") {
            break;
        }
        ensure!(Instant::now() < end, "the popup does not say that the token is wrong: {said}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    set.choose(json!({ "token": set.token()? })).await?;
    set.linked().await
}

async fn a_squatter_on_the_port_learns_a_nonce_and_moves_nothing(set: &mut Set) -> anyhow::Result<()> {
    let url = set.pages.put("/", "<title>Untouched</title>");
    let grant = set.grant("Hold a tab meanwhile.", &[&set.site()]).await?;
    grant.open(&url).await?;
    let squatter = TcpListener::bind("127.0.0.1:0").await?;
    let port = squatter.local_addr()?.port();
    set.choose(json!({ "port": port })).await?;
    let (stream, _) = timeout(Duration::from_secs(20), squatter.accept()).await.context("nobody comes")??;
    let mut socket = tokio_tungstenite::accept_async(stream).await?;
    let first = timeout(Duration::from_secs(5), socket.next()).await?.context("nothing comes")??;
    let first: Value = serde_json::from_str(first.to_text()?)?;
    let nonce = first["nonce"].as_str().unwrap_or_default();
    ensure!(first["type"] == "challenge" && first.as_object().is_some_and(|o| o.len() == 2), "{first}");
    ensure!(nonce.len() == 64 && !nonce.contains(&set.token()?), "{first}");
    let answer = json!({ "type": "answer", "nonce": "a".repeat(64), "proof": "b".repeat(64) });
    socket.send(Message::text(answer.to_string())).await?;
    let order = json!({ "type": "call", "id": 1, "grant": grant.label, "deadline_ms": 1000, "op": { "op": "list_tabs" } });
    // It may have gone already.
    drop(socket.send(Message::text(order.to_string())).await);
    let mut more = Vec::new();
    while let Some(Ok(message)) = timeout(Duration::from_secs(5), socket.next()).await.context("it stays")? {
        if let Message::Text(text) = message {
            more.push(text.to_string());
        }
    }
    ensure!(more.is_empty(), "the squatter learned {more:?}");
    drop(squatter);
    set.choose(json!({ "port": set.hub.control_port() })).await?;
    set.linked().await
}

async fn a_websocket_extension_is_back_after_the_hub(set: &mut Set) -> anyhow::Result<()> {
    set.hub.kill_9().await?;
    crate::ending::detached(set, Duration::from_secs(3)).await?;
    set.scene.hub.launch().await?;
    // It asks again at most every 15 seconds.
    set.linked().await
}

async fn ours(set: &Set) -> anyhow::Result<String> {
    let id = set.hub.run(&["extension", "path", "--json"]).await?.json()?["id"]
        .as_str()
        .context("an id")?
        .to_owned();
    Ok(format!("chrome-extension://{id}"))
}

async fn a_wrong_proof_is_closed_with_4003(set: &mut Set) -> anyhow::Result<()> {
    let mut socket = Socket::connect(set.hub.control_port(), &ours(set).await?).await?;
    // The hub's own proof does not hold for it either, which a liar does not mind.
    drop(socket.challenge(&"f".repeat(64)).await?);
    let Heard::Text(answer) = socket.hear().await? else { bail!("closed before the challenge was answered") };
    ensure!(serde_json::from_str::<Value>(&answer)?["type"] == "answer", "{answer}");
    socket.say(json!({ "type": "response", "proof": "0".repeat(64) }).to_string()).await?;
    ensure!(socket.hear().await? == Heard::Closed(Some(4003)));
    let report = set.hub.run(&["audit", "verify"]).await?;
    ensure!(report.code == Some(0), "{report:?}");
    Ok(())
}

async fn an_origin_that_is_not_exactly_ours_is_403(set: &mut Set) -> anyhow::Result<()> {
    let ours = ours(set).await?;
    let port = set.hub.control_port();
    for origin in [
        "https://example.com".to_owned(),
        "null".to_owned(),
        format!("http://127.0.0.1:{port}"),
        format!("{ours}.evil.example"),
        format!("{ours}x"),
        ours[..ours.len() - 1].to_owned(),
        "chrome-extension://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
    ] {
        let refused = Socket::connect(port, &origin).await;
        let Err(error) = refused else { bail!("{origin} is let in") };
        ensure!(format!("{error:#}").contains("403"), "{origin}: {error:#}");
    }
    Socket::connect(port, &ours).await?;
    Ok(())
}

async fn garbage_before_hello_ends_that_socket_alone(set: &mut Set) -> anyhow::Result<()> {
    let ours = ours(set).await?;
    for garbage in ["", "{", "[]", r#"{"type":"hello"}"#, r#"{"type":"challenge","nonce":"short"}"#] {
        let mut socket = Socket::connect(set.hub.control_port(), &ours).await?;
        socket.say(garbage).await?;
        ensure!(matches!(socket.hear().await?, Heard::Closed(_)), "{garbage} is answered");
    }
    let mut proved = Socket::connect(set.hub.control_port(), &ours).await?;
    proved.prove(&set.token()?).await?;
    proved.say(r#"{"type":"done","id":1,"result":{}}"#).await?;
    ensure!(matches!(proved.hear().await?, Heard::Closed(_)), "an answer before hello");
    let status = set.hub.status().await?;
    ensure!(rows(&status, "browsers").len() == 1, "the browser that was linked is not: {status}");
    Ok(())
}

async fn a_live_profile_is_not_taken_over(set: &mut Set) -> anyhow::Result<()> {
    let mut socket = Socket::connect(set.hub.control_port(), &ours(set).await?).await?;
    socket.prove(&set.token()?).await?;
    socket.say(write(&FromExtension::Hello(hello("fake0001")?))).await?;
    let Heard::Text(answer) = socket.hear().await? else { bail!("closed without a word") };
    let answer: Value = serde_json::from_str(&answer)?;
    ensure!(answer["type"] == "refused" && answer["error"]["code"] == "profile_taken", "{answer}");
    let second = FakeBrowser::link(&set.hub, "fake0002").await?;
    let both = |status: &Value| (rows(status, "browsers").len() == 2).then_some(());
    set.hub.wait_status("two browsers", Duration::from_secs(3), both).await?;
    drop(second);
    let one = |status: &Value| (rows(status, "browsers").len() == 1).then_some(());
    set.hub.wait_status("one browser", Duration::from_secs(3), one).await
}

async fn a_squatter_on_the_socket_learns_a_nonce_and_moves_nothing(set: &mut Set) -> anyhow::Result<()> {
    set.hub.stop().await?;
    let place = set.hub.home().join("hub.sock");
    drop(std::fs::remove_file(&place));
    let squatter = UnixListener::bind(&place)?;
    let token = set.token()?;
    // The relay looks for the hub by itself; the command line, when somebody types.
    let command = set.hub.run(&["status"]);
    let listening = async {
        let mut learned = Vec::new();
        for _ in 0..2 {
            let (stream, _) =
                timeout(Duration::from_secs(20), squatter.accept()).await.context("nobody comes")??;
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            timeout(Duration::from_secs(5), stream.read_line(&mut line)).await??;
            let first: Value = serde_json::from_str(&line)?;
            ensure!(
                first["type"] == "challenge" && first.as_object().is_some_and(|o| o.len() == 2),
                "{first}"
            );
            let answer = json!({ "type": "answer", "nonce": "a".repeat(64), "proof": "b".repeat(64) });
            stream.get_mut().write_all(format!("{answer}\n").as_bytes()).await?;
            let mut rest = Vec::new();
            timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await.context("it stays")??;
            learned.push((line, rest));
        }
        anyhow::Ok(learned)
    };
    let (ran, learned) = tokio::join!(command, listening);
    let (ran, learned) = (ran?, learned?);
    ensure!(ran.code == Some(1) && ran.stderr.contains("not the hub"), "{ran:?}");
    for (line, rest) in learned {
        ensure!(rest.is_empty(), "the squatter learned {:?}", String::from_utf8_lossy(&rest));
        ensure!(!line.contains(&token));
    }
    drop(squatter);
    std::fs::remove_file(&place)?;
    set.scene.hub.launch().await?;
    set.linked().await
}
