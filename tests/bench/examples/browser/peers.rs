//! The peers: programs that others wrote for the same work, as their makers say they are started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use consentry_bench::{median, say};
use consentry_test_support::pages::Pages;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::ours::{Reading, milliseconds};
use crate::page;

/// How long one call of a peer may take.
const CALL: Duration = Duration::from_secs(120);

/// How long fetching them may take.
const FETCH: Duration = Duration::from_secs(600);

/// A program to compare with.
pub(crate) struct Peer {
    /// Its package.
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    /// Which argument names the browser.
    browser: &'static str,
    environment: &'static [(&'static str, &'static str)],
    navigate: fn(&str) -> (&'static str, Value),
    snapshot: fn() -> (&'static str, Value),
    click: fn(&str) -> (&'static str, Value),
    /// What stands before a ref, and after it.
    reference: (&'static str, &'static [char]),
}

pub(crate) const PLAYWRIGHT: Peer = Peer {
    package: "@playwright/mcp",
    version: "0.0.83",
    program: "@playwright/mcp/cli.js",
    arguments: &["--headless", "--isolated", "--no-sandbox", "--output-dir", "output"],
    browser: "--executable-path",
    environment: &[],
    navigate: |url| ("browser_navigate", json!({ "url": url })),
    snapshot: || ("browser_snapshot", json!({})),
    click: |reference| ("browser_click", json!({ "element": "Save", "target": reference })),
    reference: ("[ref=", &[']']),
};

pub(crate) const CHROME_DEVTOOLS: Peer = Peer {
    package: "chrome-devtools-mcp",
    version: "1.11.0",
    program: "chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js",
    arguments: &[
        "--headless",
        "--isolated",
        "--chromeArg=--no-sandbox",
        "--no-usage-statistics",
        "--no-performance-crux",
        "--workspace=output",
    ],
    browser: "--executablePath",
    environment: &[("CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS", "1")],
    navigate: |url| ("navigate_page", json!({ "pageId": 1, "type": "url", "url": url })),
    snapshot: || ("take_snapshot", json!({ "pageId": 1 })),
    click: |reference| ("click", json!({ "pageId": 1, "uid": reference })),
    reference: ("uid=", &[' ']),
};

/// Brings them into a folder, unless they are there.
pub(crate) async fn fetch(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder.join("output"))?;
    let peers = [&PLAYWRIGHT, &CHROME_DEVTOOLS];
    if peers.iter().all(|peer| peer.is_in(folder)) {
        return Ok(());
    }
    let wanted: Vec<String> = peers.iter().map(|peer| format!("{}@{}", peer.package, peer.version)).collect();
    say(format_args!("    Fetching {}", wanted.join(" and ")));
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--no-save", "--prefix"]).arg(folder).args(&wanted);
    let status = timeout(FETCH, npm.stdin(Stdio::null()).kill_on_drop(true).status());
    let status = status.await.context("npm does not end")?.context("cannot start npm")?;
    if !status.success() {
        bail!("npm could not install {}", wanted.join(" and "));
    }
    Ok(())
}

/// What a peer takes for each size of page.
pub(crate) async fn measure(
    peer: &Peer,
    folder: &Path,
    chromium: &Path,
    pages: &Pages,
    samples: usize,
) -> anyhow::Result<BTreeMap<usize, Reading>> {
    let mut running = Running::start(peer, folder, chromium).await?;
    let mut readings = BTreeMap::new();
    for rows in page::SIZES {
        say(format_args!("    {}, {rows} rows", peer.package));
        let url = pages.put(&format!("/rows/{rows}"), page::html(rows));
        let reading =
            running.read(peer, &url, rows, samples).await.with_context(|| format!("{rows} rows"))?;
        readings.insert(rows, reading);
    }
    Ok(readings)
}

impl Peer {
    fn is_in(&self, folder: &Path) -> bool {
        let manifest = folder.join("node_modules").join(self.package).join("package.json");
        let text = std::fs::read_to_string(manifest).unwrap_or_default();
        serde_json::from_str::<Value>(&text).is_ok_and(|manifest| manifest["version"] == self.version)
    }

    fn program(&self, folder: &Path) -> PathBuf {
        folder.join("node_modules").join(self.program)
    }
}

/// A peer that runs, spoken to over its standard input and output.
struct Running {
    // Ends with this value, and with it the browser that it started.
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    next: u64,
}

impl Running {
    async fn start(peer: &Peer, folder: &Path, chromium: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new("node");
        command
            .arg(peer.program(folder))
            .args(peer.arguments)
            .args([OsString::from(peer.browser), chromium.into()])
            .envs(peer.environment.iter().copied())
            .env_remove("DISPLAY")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().context("cannot start node")?;
        let input = child.stdin.take().context("the peer has no input")?;
        let output = BufReader::new(child.stdout.take().context("the peer has no output")?).lines();
        let mut running = Self { _child: child, input, output, next: 1 };
        let about = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" },
        });
        running.ask("initialize", about).await?;
        running.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(running)
    }

    async fn read(&mut self, peer: &Peer, url: &str, rows: usize, samples: usize) -> anyhow::Result<Reading> {
        self.call((peer.navigate)(url)).await?;
        let outline = self.call((peer.snapshot)()).await?;
        let last = page::last(rows);
        ensure!(outline.contains(&last), "the outline of {rows} rows ends before {last:?}");
        let mut times = Vec::new();
        for _ in 0..samples {
            let start = Instant::now();
            self.call((peer.snapshot)()).await?;
            times.push(milliseconds(start));
        }
        let (before, after) = peer.reference;
        let reference = outline
            .lines()
            .find(|line| line.contains(page::BUTTON))
            .and_then(|line| line.split_once(before))
            .and_then(|(_, rest)| rest.split(after).next())
            .context("the peer's outline has no such button")?
            .to_owned();
        let mut clicks = Vec::new();
        for _ in 0..samples {
            let start = Instant::now();
            self.call((peer.click)(&reference)).await?;
            clicks.push(milliseconds(start));
        }
        Ok(Reading {
            outline: median(times),
            chars: Some(outline.chars().count() as f64),
            click: median(clicks),
        })
    }

    async fn call(&mut self, (tool, arguments): (&'static str, Value)) -> anyhow::Result<String> {
        let result = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await?;
        let blocks = result["content"].as_array().with_context(|| format!("{tool} gave {result}"))?;
        let text: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        if result["isError"] == true {
            bail!("{tool} failed: {}", text.join("\n"));
        }
        Ok(text.join("\n"))
    }

    async fn ask(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        let answered = timeout(CALL, async {
            while let Some(line) = self.output.next_line().await? {
                let Ok(mut message) = serde_json::from_str::<Value>(&line) else { continue };
                if message["method"].is_string() {
                    // It may ask for what only an editor has.
                    if message["id"].is_null() {
                        continue;
                    }
                    let empty =
                        if message["method"] == "roots/list" { json!({ "roots": [] }) } else { json!({}) };
                    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": empty });
                    self.send(&answer).await?;
                } else if message["id"] == id {
                    return match message.get_mut("result") {
                        Some(result) => Ok(result.take()),
                        None => bail!("{method} was refused: {message}"),
                    };
                }
            }
            bail!("the peer ended")
        });
        answered.await.with_context(|| format!("{method} is not answered"))?
    }

    async fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        self.input.write_all(format!("{message}\n").as_bytes()).await.context("the peer ended")
    }
}
