//! Clients and suites that are not ours, against the running hub: the Python SDK over HTTP and over stdio, and the
//! official conformance suite, each in both wire versions. What they need is installed into the target folder.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use consentry_test_support::hub::{HubOptions, Owner, ScratchHub};
use consentry_test_support::link::FakeBrowser;
use consentry_test_support::mcp::{McpClient, Wire};
use consentry_test_support::scene::approve;
use consentry_test_support::xsession::XSession;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

const PYTHON_SDK: &str = "mcp==2.3.0";
const SUITE: &str = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
const NODE: &str = "node@22.23.3";

/// Downloads take their time.
const INSTALL: Duration = Duration::from_secs(300);
/// A client or a scenario takes no longer.
const RUN: Duration = Duration::from_secs(60);

/// The scenarios of the official suite that say something about a server that has tools and nothing else, none of
/// which is a fixture of the suite.
const SCENARIOS: [(Wire, &[&str]); 2] = [
    (Wire::November2025, &["server-initialize", "ping", "tools-list", "dns-rebinding-protection"]),
    (
        Wire::July2026,
        &["server-stateless", "tools-list", "http-header-validation", "dns-rebinding-protection"],
    ),
];

/// One installs at a time, also where all tests run at once.
static INSTALLING: Mutex<()> = Mutex::const_new(());

/// A hub with an approved key and a browser that does nothing.
struct Setting {
    key: String,
    owner: Owner,
    _browser: FakeBrowser,
    hub: ScratchHub,
    _screen: XSession,
}

impl Setting {
    async fn new() -> anyhow::Result<Self> {
        let screen = XSession::start()?;
        let options = HubOptions {
            display: Some(screen.display().to_owned()),
            browser_rules: "window_seconds = 60".to_owned(),
            ..HubOptions::default()
        };
        let mut hub = ScratchHub::prepare(options).await?;
        let key = hub.add_key("conformance").await?;
        let owner = hub.owner(&screen)?;
        hub.launch().await?;
        approve(owner.clone(), McpClient::new(hub.mcp_url("browser"), &key)).await?;
        let browser = FakeBrowser::link(&hub, "fake0001").await?;
        Ok(Self { key, owner, _browser: browser, hub, _screen: screen })
    }
}

/// Runs a command that has to succeed, and gives its standard output.
async fn run(command: &mut Command, limit: Duration) -> anyhow::Result<String> {
    let shown = format!("{:?}", command.as_std());
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(limit, output).await.with_context(|| format!("{shown} does not end"))?;
    let output = output.with_context(|| format!("cannot run {shown}"))?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{shown} failed with {}:\n{out}\n{err}", output.status);
    Ok(out.into_owned())
}

/// Where things are installed: beside what cargo builds.
fn place(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target =
        own.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).context("no target folder")?;
    Ok(target.join("conformance").join(name))
}

/// Installs once for each version; what breaks off is begun anew.
async fn installed(
    name: &str,
    what: &str,
    install: impl AsyncFnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let _one = INSTALLING.lock().await;
    let folder = place(name)?;
    let mark = folder.join("installed");
    if std::fs::read_to_string(&mark).is_ok_and(|known| known == what) {
        return Ok(folder);
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    install(&folder).await.with_context(|| format!("installing {what}"))?;
    std::fs::write(mark, what)?;
    Ok(folder)
}

/// The Python with the SDK.
async fn python() -> anyhow::Result<PathBuf> {
    let folder = installed("python", PYTHON_SDK, async |folder| {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder), INSTALL).await?;
        let mut pip = Command::new(folder.join("bin/pip"));
        run(pip.args(["install", "--quiet", "--disable-pip-version-check", PYTHON_SDK]), INSTALL)
            .await
            .map(drop)
    });
    Ok(folder.await?.join("bin/python"))
}

/// A Node of the version that the suite needs, and the suite.
async fn suite() -> anyhow::Result<(PathBuf, PathBuf)> {
    let what = format!("{NODE} {SUITE}");
    let folder = installed("node", &what, async |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(folder).args([NODE, SUITE]);
        run(&mut npm, INSTALL).await?;
        let node = run(Command::new(folder.join("node_modules/node/bin/node")).arg("--version"), RUN).await?;
        ensure!(node.starts_with("v22."), "npm brought Node {node}");
        Ok(())
    });
    let modules = folder.await?.join("node_modules");
    Ok((modules.join("node/bin/node"), modules.join("@modelcontextprotocol/conformance/dist/index.js")))
}

/// What the SDK did; the owner allows what it asks for.
async fn sdk(setting: &Setting, how: &str, place: &str, mode: &str) -> anyhow::Result<Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk.py");
    let mut command = setting.hub.command_of(python().await?);
    command.arg(script).args([how, place, &setting.key, mode]);
    let (said, clicked) = tokio::join!(run(&mut command, RUN), setting.owner.click("allow"));
    let said = said?;
    clicked?;
    serde_json::from_str(&said).with_context(|| format!("no JSON: {said}"))
}

/// What holds of every way: the tools are the ones that HTTP lists, control is granted with progress on the way, and
/// without a grant a tool says how to get one.
async fn holds(setting: &Setting, said: &Value, version: &str) -> anyhow::Result<()> {
    ensure!(said["version"] == version, "{said}");
    // A client that is told the version beforehand does not ask who is there.
    if !said["server"].is_null() {
        ensure!(said["server"] == "consentry-browser", "{said}");
        ensure!(said["instructions"].as_str().is_some_and(|text| text.contains("request_control")), "{said}");
    }
    let tools = McpClient::new(setting.hub.mcp_url("browser"), &setting.key).tools().await?;
    let names = |tools: &[Value]| tools.iter().map(|tool| tool["name"].to_string()).collect::<Vec<_>>();
    let listed = said["tools"].as_array().context("tools")?;
    ensure!(names(listed) == names(&tools) && listed.len() >= 14, "{listed:?}");
    for (listed, tool) in listed.iter().zip(&tools) {
        ensure!(listed["inputSchema"] == tool["inputSchema"], "{listed} {tool}");
    }
    ensure!(said["asked"]["status"] == "allowed" && said["asked_is_error"] == false, "{said}");
    ensure!(said["progress"].as_array().is_some_and(|told| !told.is_empty()), "{said}");
    ensure!(said["without_grant"]["code"] == "no_grant" && said["without_grant_is_error"] == true, "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_sdk_works_over_http_in_both_wire_versions() -> anyhow::Result<()> {
    let setting = Setting::new().await?;
    let url = setting.hub.mcp_url("browser");
    for (mode, version) in [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"), ("auto", "2026-07-28")] {
        let said = sdk(&setting, "http", &url, mode).await.with_context(|| format!("mode {mode}"))?;
        holds(&setting, &said, version).await.with_context(|| format!("mode {mode}"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_sdk_works_over_stdio_in_both_wire_versions() -> anyhow::Result<()> {
    let setting = Setting::new().await?;
    let program = consentry_test_support::hub::Programs::beside_this()?.consentry();
    let program = program.to_str().context("a path")?;
    for (mode, version) in [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"), ("auto", "2026-07-28")] {
        let said = sdk(&setting, "stdio", program, mode).await.with_context(|| format!("mode {mode}"))?;
        holds(&setting, &said, version).await.with_context(|| format!("mode {mode}"))?;
    }
    Ok(())
}

/// The suite cannot send a key: this adds it to each request, and passes everything else on as it is, but for its
/// own port in `Host` and `Origin`.
struct WithKey {
    port: u16,
    _tasks: JoinSet<()>,
}

impl WithKey {
    async fn before(setting: &Setting) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (hub, key) = (setting.hub.mcp_port(), setting.key.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let key = key.clone();
                connections.spawn(async move { pass_on(stream, port, hub, &key).await });
            }
        });
        Ok(Self { port, _tasks: tasks })
    }
}

/// One request a connection.
async fn pass_on(stream: TcpStream, own: u16, hub: u16, key: &str) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let mut sent = String::new();
    for line in head.trim_end().lines() {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        match name.as_str() {
            "connection" | "keep-alive" => {}
            "host" | "origin" => {
                sent.push_str(&format!("{}\r\n", line.replace(&format!(":{own}"), &format!(":{hub}"))))
            }
            _ => sent.push_str(&format!("{line}\r\n")),
        }
    }
    sent.push_str(&format!("authorization: Bearer {key}\r\nconnection: close\r\n\r\n"));
    let mut there = TcpStream::connect(("127.0.0.1", hub)).await?;
    there.write_all(sent.as_bytes()).await?;
    copy_bidirectional(&mut stream, &mut there).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_suite_passes_in_both_wire_versions_but_for_what_is_named() -> anyhow::Result<()> {
    let (node, program) = suite().await?;
    let setting = Setting::new().await?;
    let door = WithKey::before(&setting).await?;
    let url = format!("http://127.0.0.1:{}/browser/mcp", door.port);
    let mut failed = Vec::new();
    for (wire, scenarios) in SCENARIOS {
        // A failure that is not named fails, and so does one that is named and no longer fails.
        let expected =
            format!("{}/tests/expected-failures-{}.yml", env!("CARGO_MANIFEST_DIR"), wire.version());
        for scenario in scenarios {
            let mut command = Command::new(&node);
            command.arg(&program).args(["server", "--url", &url, "--scenario", scenario]);
            command.args(["--spec-version", wire.version(), "--expected-failures", &expected]);
            command.current_dir(place("")?);
            match run(&mut command, RUN).await {
                Ok(said) => ensure!(said.contains("assed"), "{scenario} says nothing: {said}"),
                Err(error) => failed.push(format!("{} {scenario}: {error:#}", wire.version())),
            }
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n\n"));
    }
    Ok(())
}
