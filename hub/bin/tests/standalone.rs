//! `consentry stdio browser` where no hub runs: the program itself, driven by lines of JSON-RPC.
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use consentry_browser::{BrowserCapability, DevTools, DevToolsSource, Tabs};
use consentry_config::Settings;
use consentry_core::{Capability as _, Hub, KeyRing};
use consentry_mcp::PathServer;
use consentry_test_support::chromium::{Chromium, Options};
use consentry_test_support::fakes::Fakes;
use consentry_test_support::pages::Pages;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a state may take to come about.
const PATIENCE: Duration = Duration::from_secs(30);
/// Everything is to end within a second of its input; a busy machine adds something.
const ENDING: Duration = Duration::from_secs(2);

/// A state folder, and a folder for what the program makes elsewhere.
struct Place {
    folder: TempDir,
    program: PathBuf,
}

impl Place {
    fn new() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("cs-").tempdir()?;
        std::fs::create_dir(folder.path().join("tmp"))?;
        Ok(Self { folder, program: env!("CARGO_BIN_EXE_consentry").into() })
    }

    /// With a program in place of the dialog beside it, which ends with this answer.
    fn with_dialog(answer: &Value) -> anyhow::Result<Self> {
        let mut place = Self::new()?;
        let bin = place.folder.path().join("program");
        std::fs::create_dir(&bin)?;
        let program = bin.join("consentry");
        if std::fs::hard_link(&place.program, &program).is_err() {
            std::fs::copy(&place.program, &program)?;
        }
        place.program = program;
        let dialog = bin.join("consentry-dialog");
        let (shown, closed) = (json!({"event": "shown"}), json!({"event": "closed", "answer": answer}));
        std::fs::write(&dialog, format!("#!/bin/sh\nread spec\necho '{shown}'\necho '{closed}'\n"))?;
        std::fs::set_permissions(&dialog, std::fs::Permissions::from_mode(0o755))?;
        Ok(place)
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn tmp(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    fn command(&self, path: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["stdio", path])
            .args(arguments)
            .env_clear()
            .envs(["PATH", "HOME"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .env("CONSENTRY_HOME", self.home())
            .env("TMPDIR", self.tmp())
            .kill_on_drop(true);
        command
    }

    /// Runs it to its end, with no input.
    async fn output(&self, path: &str, arguments: &[&str]) -> anyhow::Result<Output> {
        let running = self.command(path, arguments).stdin(Stdio::null()).output();
        Ok(timeout(PATIENCE, running).await.context("its end")??)
    }

    /// The processes that work on what the program made elsewhere.
    async fn browsers(&self) -> anyhow::Result<usize> {
        let all = Command::new("ps").args(["-axww", "-o", "stat=,command="]).output().await?;
        let tmp = self.tmp().to_string_lossy().into_owned();
        let all = String::from_utf8_lossy(&all.stdout).into_owned();
        Ok(all.lines().filter(|line| line.contains(&tmp) && !line.starts_with('Z')).count())
    }

    fn left_behind(&self) -> anyhow::Result<Vec<PathBuf>> {
        std::fs::read_dir(self.tmp())?.map(|entry| Ok(entry?.path())).collect()
    }

    fn audit(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.home().join("audit-standalone-1.jsonl"))?)
    }
}

/// The running program.
struct Alone {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next: u64,
}

impl Alone {
    async fn start(place: &Place, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = place.command("browser", arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("its input")?;
        let lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let mut alone = Self { child, input, lines, next: 0 };
        let client = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let welcome = alone.ask("initialize", hello).await?;
        assert_eq!(welcome["serverInfo"]["name"], "consentry-browser");
        alone.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        Ok(alone)
    }

    async fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        self.input.write_all(format!("{message}\n").as_bytes()).await?;
        Ok(())
    }

    async fn begin(&mut self, method: &str, params: Value) -> anyhow::Result<u64> {
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.send(&request).await?;
        Ok(self.next)
    }

    async fn ask(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        let id = self.begin(method, params).await?;
        let answered = timeout(PATIENCE, async {
            while let Some(line) = self.lines.next_line().await? {
                let mut message: Value = serde_json::from_str(&line).context(line)?;
                if message["id"] == json!(id) {
                    ensure!(message.get("error").is_none(), "{message}");
                    return Ok(message["result"].take());
                }
            }
            bail!("it ended instead of answering")
        });
        answered.await.with_context(|| format!("{method} was not answered"))?
    }

    /// The structured result, or the code of the error.
    async fn call(&mut self, name: &str, arguments: Value) -> anyhow::Result<Result<Value, String>> {
        let mut answer = self.ask("tools/call", json!({"name": name, "arguments": arguments})).await?;
        let structured = answer["structuredContent"].take();
        if answer["isError"] == true {
            return Ok(Err(structured["code"].as_str().context("a code")?.to_owned()));
        }
        Ok(Ok(structured))
    }

    async fn done(&mut self, name: &str, arguments: Value) -> anyhow::Result<Value> {
        let outcome = self.call(name, arguments).await?;
        outcome.map_err(|code| anyhow::anyhow!("{name} failed with {code}"))
    }

    async fn grant(&mut self) -> anyhow::Result<Value> {
        self.done("request_control", json!({"purpose": "Test the program."})).await
    }

    /// Ends the input and gives how long everything took to end.
    async fn end(self) -> anyhow::Result<Duration> {
        let Self { mut child, input, .. } = self;
        drop(input);
        let started = Instant::now();
        let status = timeout(PATIENCE, child.wait()).await.context("its end")??;
        ensure!(status.success(), "it ended with {status}");
        Ok(started.elapsed())
    }
}

async fn until(what: &str, mut so: impl AsyncFnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let started = Instant::now();
    while !so().await? {
        ensure!(started.elapsed() < PATIENCE, "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// The tools that a hub with the default settings lists.
fn tools_of_a_hub() -> Value {
    let settings = Settings::defaults("test");
    let (rules, stop) = (settings.rules(), CancellationToken::new());
    let (hub, _actor) =
        Hub::start(Fakes::default().ports(), rules.clone(), KeyRing::default(), Vec::new(), stop);
    let (tabs, ports) = (Tabs::default(), settings.ports);
    let nowhere = DevToolsSource::Running(Vec::new());
    let (devtools, _run) = DevTools::start(nowhere, tabs.clone(), ports, hub.live());
    let capability = Arc::new(BrowserCapability::new(Arc::new(devtools), tabs, ports));
    let rules = &rules.paths[capability.path()];
    json!(PathServer::new(hub, capability.clone(), rules).tools())
}

#[tokio::test]
async fn without_consent_a_scratch_browser_works_and_nothing_is_left_behind() -> anyhow::Result<()> {
    let (place, pages) = (Place::new()?, Pages::serve().await?);
    let button = "<title>Page</title><button onclick=\"document.title = 'Pressed'\">Press me</button>";
    let page = pages.put("/page", button);
    let mut alone = Alone::start(&place, &["--no-consent", "--headless"]).await?;
    let listed = alone.ask("tools/list", json!({})).await?;
    assert_eq!(listed["tools"], tools_of_a_hub());
    assert_eq!(alone.call("list_tabs", json!({"grant_id": "nonsense"})).await?, Err("no_grant".into()));
    assert_eq!(place.browsers().await?, 0, "nothing is started before control is given");

    let granted = alone.grant().await?;
    assert_eq!((&granted["status"], &granted["decision"]), (&json!("allowed"), &json!("no_consent")));
    let grant = granted["grant_id"].as_str().context("a grant")?;
    let opened = alone.done("open_tab", json!({"grant_id": grant, "url": page})).await?;
    assert_eq!(opened["loaded"], true);
    let tab = &opened["tab"];
    let read = alone.done("read_page", json!({"grant_id": grant, "tab": tab})).await?;
    assert!(read["text"].as_str().unwrap().contains("Press me"), "{read}");
    let clicked = json!({"grant_id": grant, "tab": tab, "selector": "button"});
    assert_eq!(alone.done("click_element", clicked).await?["outcome"], "confirmed");
    let script = json!({"grant_id": grant, "tab": tab, "expression": "document.title"});
    let title = alone.done("evaluate_script", script).await?;
    assert!(title["text"].as_str().unwrap().contains("Pressed"), "{title}");
    let own = json!({"grant_id": grant, "url": "http://127.0.0.1:7312/"});
    assert_eq!(alone.call("open_tab", own).await?, Err("forbidden_page".into()));
    assert!(place.browsers().await? > 0);

    // Also in the middle of a call.
    let forever = json!({"grant_id": grant, "tab": tab, "expression": "new Promise(() => {})"});
    alone.begin("tools/call", json!({"name": "evaluate_script", "arguments": forever})).await?;
    let begun = async || {
        let audit = place.audit()?;
        let of = |kind: &str| {
            audit.lines().filter(|line| line.contains(kind) && line.contains("\"evaluate_script\"")).count()
        };
        Ok(of("\"kind\":\"call\"") == 2)
    };
    until("the call", begun).await?;
    let took = alone.end().await?;
    assert!(took < ENDING, "{took:?}");
    until("the browser's end", async || Ok(place.browsers().await? == 0)).await?;
    assert_eq!(place.left_behind()?, Vec::<PathBuf>::new());

    let audit = place.audit()?;
    assert!(
        audit.contains("\"outcome\":\"no_consent\"") && audit.contains("\"reason\":\"shutdown\""),
        "{audit}"
    );
    let verified = consentry_audit::verify(&place.home().join("audit-standalone-1.jsonl"))?;
    verified.map_err(|broken| anyhow::anyhow!("{broken:?}"))?;
    for hubs in ["audit.jsonl", "hub.sock", "decisions.toml"] {
        assert!(!place.home().join(hubs).exists(), "{hubs} is the hub's");
    }
    Ok(())
}

/// Programs that start their servers themselves often end them this way.
#[tokio::test]
async fn a_program_that_is_killed_takes_its_browser_with_it() -> anyhow::Result<()> {
    let place = Place::new()?;
    let mut alone = Alone::start(&place, &["--no-consent", "--headless"]).await?;
    let granted = alone.grant().await?;
    alone.done("list_tabs", json!({"grant_id": granted["grant_id"]})).await?;
    assert!(place.browsers().await? > 0);
    alone.child.kill().await?;
    until("the browser's end", async || Ok(place.browsers().await? == 0)).await
}

#[tokio::test]
async fn the_kill_switch_holds_here_too() -> anyhow::Result<()> {
    let place = Place::new()?;
    std::fs::create_dir(place.home())?;
    let switch = place.home().join("DISABLED");
    std::fs::write(&switch, "")?;
    let mut alone = Alone::start(&place, &["--no-consent", "--headless"]).await?;
    let asked = json!({"purpose": "Test the program."});
    assert_eq!(alone.call("request_control", asked).await?, Err("disabled".into()));
    std::fs::remove_file(&switch)?;
    let granted = alone.grant().await?;
    let list = json!({"grant_id": granted["grant_id"]});
    alone.done("list_tabs", list.clone()).await?;
    std::fs::write(&switch, "")?;
    assert_eq!(alone.call("list_tabs", list.clone()).await?, Err("disabled".into()));
    until("the grant's end", async || Ok(place.audit()?.contains("\"reason\":\"disabled\""))).await?;
    std::fs::remove_file(&switch)?;
    until("control's return", async || {
        Ok(alone.call("list_tabs", list.clone()).await? == Err("no_grant".into()))
    })
    .await
}

#[tokio::test]
async fn with_consent_somebody_has_to_be_there() -> anyhow::Result<()> {
    let place = Place::with_dialog(&json!({"kind": "no_display", "detail": "there is no X server"}))?;
    let mut alone = Alone::start(&place, &["--headless"]).await?;
    let asked = json!({"purpose": "Test the program."});
    assert_eq!(alone.call("request_control", asked).await?, Err("no_display".into()));
    assert_eq!(place.browsers().await?, 0);
    let took = alone.end().await?;
    assert!(took < ENDING, "{took:?}");
    Ok(())
}

#[tokio::test]
async fn the_owners_own_browser_is_driven_with_consent_and_stays() -> anyhow::Result<()> {
    let pages = Pages::serve().await?;
    let chromium = Chromium::launch(Options::default()).await?;
    let attach = format!("--attach={}", chromium.user_data_dir().display());
    let place = Place::with_dialog(&json!({"kind": "button", "id": "allow"}))?;
    let refused = place.output("browser", &[&attach, "--no-consent"]).await?;
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--no-consent is refused"), "{refused:?}");

    let page = pages.put("/page", "<title>Page</title><h1>Hello</h1>");
    let mut alone = Alone::start(&place, &[&attach]).await?;
    let site = format!("http://127.0.0.1:{}", pages.port());
    let asked = json!({"purpose": "Test the program.", "sites": [site]});
    let mut granted = Value::Null;
    // The link to a browser that runs already takes a moment.
    until("the link", async || match alone.call("request_control", asked.clone()).await? {
        Ok(answer) => {
            granted = answer;
            Ok(true)
        }
        Err(code) => {
            ensure!(code == "extension_not_connected", "{code}");
            Ok(false)
        }
    })
    .await?;
    assert_eq!(granted["decision"], "allowed");
    let open = json!({"grant_id": granted["grant_id"], "url": page});
    let opened = alone.done("open_tab", open).await?;
    assert_eq!(opened["loaded"], true);
    let read = json!({"grant_id": granted["grant_id"], "tab": opened["tab"]});
    assert!(alone.done("read_page", read).await?["text"].as_str().unwrap().contains("Hello"));
    let took = alone.end().await?;
    assert!(took < ENDING, "{took:?}");
    consentry_test_support::cdp::Cdp::connect(chromium.endpoint()).await.context("the owner's browser")?;
    Ok(())
}

#[tokio::test]
async fn a_hub_that_runs_is_not_passed_by() -> anyhow::Result<()> {
    let place = Place::new()?;
    std::fs::create_dir(place.home())?;
    let _hub = std::os::unix::net::UnixListener::bind(place.home().join("hub.sock"))?;
    for (arguments, words) in
        [(&[][..], "consentry connect"), (&["--no-consent", "--headless"], "--no-consent")]
    {
        let output = place.output("browser", arguments).await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("a hub runs") && said.contains(words) && output.stdout.is_empty(), "{said}");
    }
    assert!(!place.home().join("audit-standalone-1.jsonl").exists());
    Ok(())
}

#[tokio::test]
async fn another_path_than_the_browsers_has_no_place_here() -> anyhow::Result<()> {
    let place = Place::new()?;
    let output = place.output("shell", &["--headless"]).await?;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("only the browser path"), "{output:?}");
    Ok(())
}
